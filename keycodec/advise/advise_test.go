package advise_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec/advise"
)

var ok = testutil.OK

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func parse(texts ...string) []advise.Query {
	var list []advise.Query
	for _, text := range texts {
		list = append(list, must(advise.ParseQuery(text)))
	}
	return list
}

// orders returns a sample of orders in the order of their dates.
func orders(n int) *advise.Sample {
	s := &advise.Sample{}
	for i := range n {
		v := func(name, text string) advise.Value {
			return advise.Value{Field: name, Text: []byte(text)}
		}
		s.Add([]advise.Value{
			v("user_id", fmt.Sprintf("USR_%d", i*7919%(n/10))),
			v("order_date", strconv.FormatInt(1737100800000+int64(i), 10)),
			v("order_id", fmt.Sprintf("%08x", uint32(i)*2654435761)),
			v("category", fmt.Sprintf("C%d", i*31%40)), v("status", []string{"new", "paid"}[i%2]),
		})
	}
	return s
}

func keysOf(r advise.Report) string {
	var list []string
	for _, k := range r.Keys {
		list = append(list, strings.Join(k.Fields, " "))
	}
	return strings.Join(list, " | ")
}

func kindsOf(verdicts []advise.Verdict) string {
	var list []string
	for _, v := range verdicts {
		list = append(list, v.Kind.String())
	}
	return strings.Join(list, " | ")
}

// The rules, and the two patterns of the specification that one key cannot serve.
//
// Promise (keys): Advised keys serve all queries, and fewer would not. Also
// `TestKeysServeAllQueries`, `TestClassify` in `keycodec/advise`.
func TestAdvise(t *testing.T) {
	for _, c := range []struct {
		why, keys, kinds string
		queries          []string
		o                advise.Options
	}{
		{"equality before range, whatever the cardinality", "status order_date order_id",
			"range scan", []string{"order_date > 5 AND status = ?"}, advise.Options{}},
		{"selectivity inside the group", "user_id category status order_date order_id",
			"range scan",
			[]string{"status = ? AND category = ? AND user_id = ? AND order_date < ?"},
			advise.Options{}},
		{"queries before selectivity: status stands first for the second one",
			"status user_id order_id", "prefix scan | prefix scan",
			[]string{"status = ? AND user_id = ?", "status = ?"}, advise.Options{}},
		{"conflicting patterns take two keys",
			"user_id order_date order_id | category order_date order_id", "range scan | range scan",
			[]string{"user_id = x AND order_date BETWEEN 1 AND 2",
				"category = y AND order_date BETWEEN 1 AND 2"}, advise.Options{}},
		{"the field of more queries stands in front, whatever the cardinality",
			"status user_id order_id | status order_date order_id", "prefix scan | range scan",
			[]string{"user_id = ? AND status = ?", "status = ? AND order_date > ?"},
			advise.Options{}},
		{"one key for a chain of four",
			"user_id category status order_date order_id",
			"prefix scan | prefix scan | prefix scan | range scan",
			[]string{"user_id = ?", "user_id = ? AND category = ?",
				"user_id = ? AND category = ? AND status = ?",
				"user_id = ? AND category = ? AND status = ? AND order_date >= ?"},
			advise.Options{}},
		{"the first queries decide under a limit", "user_id order_date order_id",
			"range scan | inefficient",
			[]string{"user_id = x AND order_date > 1", "category = y AND order_date > 1"},
			advise.Options{MaxKeys: 1}},
		{"the range field of one query is fixed by the next",
			"user_id order_date status order_id", "range scan | prefix scan",
			[]string{"user_id = ? AND order_date > ?",
				"user_id = ? AND status = ? AND order_date = ?"}, advise.Options{}},
		{"order counts like a range", "user_id order_date order_id", "prefix scan",
			[]string{"user_id = ? ORDER BY order_date DESC"}, advise.Options{}},
		{"the named fields tell records apart", "category user_id order_date", "prefix scan",
			[]string{"category = ?"}, advise.Options{ID: []string{"user_id", "order_date"}}},
		{"the whole key", "order_id", "exact lookup", []string{"order_id = ?"}, advise.Options{}},
	} {
		r, err := advise.Advise(orders(2000), parse(c.queries...), c.o)
		ok(t, err)
		if got := keysOf(r); got != c.keys {
			t.Errorf("%s: keys %s, want %s", c.why, got, c.keys)
		}
		if got := kindsOf(r.Verdicts); got != c.kinds {
			t.Errorf("%s: verdicts %s, want %s", c.why, got, c.kinds)
		}
	}
}

// The table of efficient and inefficient patterns of the specification.
func TestClassify(t *testing.T) {
	key := []string{"A", "B", "C", "D"}
	for _, c := range []struct{ query, kind, why string }{
		{"A = x", "prefix scan", "reads [A]"},
		{"A = x AND B = y", "prefix scan", "reads [A][B]"},
		{"C = z AND A = x AND B = y", "prefix scan", "reads [A][B][C]"},
		{"A = x AND B BETWEEN t1 AND t2", "range scan", "reads a range of B within [A]"},
		{"A = 1 AND B = 2 AND C = 3 AND D = 4", "exact lookup", "gives the whole key"},
		{"A > x", "range scan", "reads a range of A"},
		{"A = x AND C = z", "inefficient", "skips B: reads all of [A] and compares C"},
		{"B = y", "inefficient", "does not fix the first field A: reads all records"},
		{"B > y", "inefficient", "does not fix the first field A: reads all records"},
		{"A > x AND C = z", "inefficient", "skips A: reads a range of it and compares C"},
		{"A = x AND C > z", "inefficient", "skips B before the range of C: reads all of [A]"},
		{"A = x AND B = y AND E = e", "inefficient", "skips C: reads all of [A][B] and compares E"},
		{"A=1 AND B=2 AND C=3 AND D=4 AND E=5", "inefficient",
			"the key ends before: reads all of [A][B][C][D] and compares E"},
		{"A = x ORDER BY B", "prefix scan", "reads [A] in the order of B"},
		{"A = x ORDER BY C", "prefix scan", "reads [A], then sorts by C"},
		{"A = x ORDER BY A", "prefix scan", "reads [A]"},
		{"ORDER BY A", "range scan", "reads all records in the order of A"},
		{"ORDER BY B", "inefficient",
			"does not fix the first field A: reads all records, then sorts by B"},
		{"A = x AND C = z ORDER BY B", "inefficient",
			"skips B: reads all of [A] and compares C"},
		{"A = x AND C = z ORDER BY D", "inefficient",
			"skips B: reads all of [A] and compares C, then sorts by D"},
		{"A = x AND B > 1 ORDER BY C", "range scan",
			"reads a range of B within [A], then sorts by C"},
		{"A = x AND C > 1 ORDER BY B", "inefficient",
			"skips B before the range of C: reads all of [A]"},
		{"", "inefficient", "compares no field: reads all records"},
	} {
		q := advise.Query{}
		if c.query != "" {
			q = parse(c.query)[0]
		}
		v := advise.Classify(key, q)
		if v.Kind.String() != c.kind || v.Why != c.why {
			t.Errorf("%s: %s, %s; want %s, %s", c.query, v.Kind, v.Why, c.kind, c.why)
		}
	}
}

func TestExplainChoosesTheBestKey(t *testing.T) {
	keys := [][]string{{"status", "order_date"}, {"user_id", "status"}, {}}
	s := orders(2000)
	list := advise.Explain(keys, parse("user_id = ? AND status = ?", "status = ?", "category = ?"),
		s, s.Rows())
	for i, want := range []struct {
		key  int
		kind advise.Kind
		rows uint64
	}{{1, advise.ExactLookup, 10}, {0, advise.PrefixScan, 1000},
		{0, advise.Inefficient, 2000}} {
		v := list[i]
		if v.Key != want.key || v.Kind != want.kind || !near(v.Rows, want.rows) {
			t.Errorf("query %d: %+v, want %+v", i+1, v, want)
		}
	}
	none := advise.Explain(nil, parse("a = 1"), &advise.Sample{}, 7)
	if v := none[0]; v.Key != -1 || v.Rows != 7 {
		t.Errorf("without keys: %+v", v)
	}
}

func TestClasses(t *testing.T) {
	for n, want := range map[uint64]advise.Class{0: advise.Low, 999: advise.Low,
		1000: advise.Medium, 1_000_000: advise.Medium, 1_000_001: advise.High,
		math.MaxUint64: advise.High} {
		if got := advise.ClassOf(n); got != want {
			t.Errorf("%d values are %s", n, got)
		}
	}
}

func fieldOf(t *testing.T, fields []advise.Field, name string) advise.Field {
	t.Helper()
	i := slices.IndexFunc(fields, func(f advise.Field) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no field %s", name)
	}
	return fields[i]
}

func near(got, want uint64) bool {
	return math.Abs(float64(got)-float64(want)) <= 0.05*float64(want)
}

// Estimates from 20,000 records, for these and for 5,000,000.
func TestSampleFields(t *testing.T) {
	const n, all = 20_000, 5_000_000
	s := orders(n)
	few, many := s.Fields(0), s.Fields(all)
	for name, want := range map[string][2]uint64{
		"order_id": {n, all}, "user_id": {n / 10, n / 10}, "category": {40, 40}, "status": {2, 2},
	} {
		a, b := fieldOf(t, few, name).Distinct, fieldOf(t, many, name).Distinct
		if !near(a, want[0]) || !near(b, want[1]) {
			t.Errorf("%s: %d and %d values, want about %v", name, a, b, want)
		}
	}
	if c := fieldOf(t, many, "order_id").Class; c != advise.High {
		t.Errorf("order_id is %s", c)
	}
	for name, want := range map[string][2]bool{"order_date": {true, true},
		"order_id": {false, true}, "status": {false, false}, "user_id": {false, false}} {
		if f := fieldOf(t, few, name); f.Rising != want[0] || f.Unique != want[1] {
			t.Errorf("%s: rising %v, unique %v", name, f.Rising, f.Unique)
		}
	}
}

// Values that come in turns rise nearly always, and a key that begins with them does not
// grow at its end only.
func TestTurnsDoNotOnlyGrow(t *testing.T) {
	s := &advise.Sample{}
	for i := range 2000 {
		s.Add([]advise.Value{{Field: "turn", Text: fmt.Appendf(nil, "U%02d", i%100)},
			{Field: "group", Text: fmt.Appendf(nil, "%d", i*2/3)},
			// As floats of 64 bits these are equal.
			{Field: "large", Text: fmt.Append(nil, math.MaxInt64-2000+int64(i))}})
	}
	for name, want := range map[string]bool{"turn": false, "group": true, "large": true} {
		if f := fieldOf(t, s.Fields(0), name); f.Rising != want {
			t.Errorf("%s: rising %v", name, f.Rising)
		}
	}
}

// What a query reads is counted in combinations: a city has one country, and large countries
// are asked for as often as they have cities.
func TestReadsOfCombinations(t *testing.T) {
	s := &advise.Sample{}
	const n = 100_000
	for i := range n {
		city := i % 1000
		country := "small"
		if city < 900 {
			country = "large"
		}
		r := []advise.Value{{Field: "city", Text: strconv.AppendInt(nil, int64(city), 10)},
			{Field: "country", Text: []byte(country)}}
		if i%100 == 0 {
			r = append(r, advise.Value{Field: "coupon", Text: strconv.AppendInt(nil, int64(i), 10)})
		}
		s.Add(r)
	}
	for _, c := range []struct {
		names []string
		want  float64
	}{{nil, n}, {[]string{"city"}, n / 1000}, {[]string{"country"}, n * (0.9*0.9 + 0.1*0.1)},
		{[]string{"country", "city"}, n / 1000}, {[]string{"nothing"}, n},
		{[]string{"coupon"}, 1}, {[]string{"country", "coupon"}, 1}} {
		got := float64(s.Reads(c.names, n))
		if math.Abs(got-c.want) > 0.1*c.want {
			t.Errorf("%v: %.0f records, want about %.0f", c.names, got, c.want)
		}
	}
	if got := s.Reads([]string{"city"}, 10*n); math.Abs(float64(got)-n/100) > n/1000 {
		t.Errorf("of ten times the records %d, want about %d", got, n/100)
	}
}

func TestMissingAndWarnings(t *testing.T) {
	s := &advise.Sample{}
	for i := range 100 {
		r := []advise.Value{{Field: "at", Text: strconv.AppendInt(nil, int64(i), 10)}}
		if i%2 == 0 {
			r = append(r, advise.Value{Field: "note", Text: []byte("x")})
		} else {
			r = append(r, advise.Value{Field: "note"})
		}
		s.Add(r)
	}
	r, err := advise.Advise(s, parse("note = ?", "at > ?"), advise.Options{})
	ok(t, err)
	text := fmt.Sprint(r.Notes, r.Keys)
	for _, want := range []string{"note is missing in 50", "note has 1 values only",
		"at only grows", "written 2 times"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said in %s", want, text)
		}
	}
	if strings.Contains(text, "at has 100 values only") {
		t.Errorf("a value that one record has is called frequent: %s", text)
	}
	if r.Keys[1].Shard == 0 || r.Keys[0].Shard != 0 {
		t.Errorf("shards %d and %d", r.Keys[0].Shard, r.Keys[1].Shard)
	}
	if _, err := advise.Advise(s, parse("other = ?"), advise.Options{}); err == nil {
		t.Error("an unknown field is accepted")
	}
	if _, err := advise.Advise(s, parse("at = ?"), advise.Options{ID: []string{"x"}}); err == nil {
		t.Error("an unknown ID is accepted")
	}
	if r, err := advise.Advise(&advise.Sample{}, nil, advise.Options{}); err != nil ||
		len(r.Keys) != 0 {
		t.Errorf("nothing in, out came %+v, %v", r, err)
	}
}

// A sample of records with ever new names stays bounded.
func TestSampleIsBounded(t *testing.T) {
	s := &advise.Sample{}
	for i := range 2 * advise.MaxFields {
		s.Add([]advise.Value{{Field: strconv.Itoa(i), Text: []byte("x")}})
	}
	if n := len(s.Fields(0)); n != advise.MaxFields {
		t.Errorf("%d fields", n)
	}
}

// drawQueries returns up to five queries over five fields.
func drawQueries(t *rapid.T) []advise.Query {
	names := []string{"user_id", "order_date", "order_id", "category", "status"}
	var list []advise.Query
	for range rapid.IntRange(1, 5).Draw(t, "queries") {
		var q advise.Query
		for _, name := range names {
			switch rapid.IntRange(0, 3).Draw(t, name) {
			case 0:
				q.Equal = append(q.Equal, name)
			case 1:
				if q.Range == "" {
					q.Range = name
				}
			}
		}
		list = append(list, q)
	}
	return list
}

// Without a limit every query is served by some key, and fewer keys would not do: all
// orders of the fields are tried.
func TestKeysServeAllQueries(t *testing.T) {
	s := orders(200)
	testutil.Check(t, func(t *rapid.T) {
		queries := drawQueries(t)
		r, err := advise.Advise(s, queries, advise.Options{ID: []string{"order_id"}})
		ok(t, err)
		for _, v := range r.Verdicts {
			if empty := len(v.Query.Equal) == 0 && v.Query.Range == ""; (v.Kind ==
				advise.Inefficient) != empty {
				t.Fatalf("%+v is %s with %s: %s", v.Query, v.Kind, keysOf(r), v.Why)
			}
		}
		if want := fewestKeys(queries); len(r.Keys) != want {
			t.Fatalf("%d keys for %+v, %d would do: %s", len(r.Keys), queries, want, keysOf(r))
		}
	})
}

// fewestKeys tries all orders of the five fields as keys, and returns how few of them serve
// all queries.
func fewestKeys(queries []advise.Query) int {
	served := map[int]bool{}
	permute([]string{"user_id", "order_date", "order_id", "category", "status"}, 0,
		func(key []string) {
			set := 0
			for i, q := range queries {
				if advise.Classify(key, q).Kind != advise.Inefficient {
					set |= 1 << i
				}
			}
			served[set] = true
		})
	all := 0
	for i, q := range queries {
		if len(q.Equal) > 0 || q.Range != "" {
			all |= 1 << i
		}
	}
	reached := map[int]bool{0: true}
	for n := 0; ; n++ {
		next := map[int]bool{}
		for a := range reached {
			if a&all == all {
				return n
			}
			for b := range served {
				next[a|b] = true
			}
		}
		reached = next
	}
}

func permute(list []string, k int, visit func([]string)) {
	if k == len(list) {
		visit(list)
	}
	for i := k; i < len(list); i++ {
		list[k], list[i] = list[i], list[k]
		permute(list, k+1, visit)
		list[k], list[i] = list[i], list[k]
	}
}

func TestParseQuery(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1":               "[a]  ",
		"where a=1 and b = 2": "[a b]  ",
		"a = ? AND b BETWEEN 1 AND 2 AND c = 'x y'": "[a c] b ",
		"b >= 1 AND b < 5":                          "[] b ",
		"b BEGINS \"x\" ORDER BY b DESC":            "[] b b",
		"a = 1 order by c asc":                      "[a]  c",
		"ORDER BY c":                                "[]  c",
		"\"order\" = 1 AND 'two words' = 2":         "[order two words]  ",
		"größe = 1":                                 "[größe]  ",
	} {
		q, err := advise.ParseQuery(text)
		if got := fmt.Sprint(q.Equal, " ", q.Range, " ", q.Order); err != nil || got != want {
			t.Errorf("%s: %q, error %v, want %q", text, got, err, want)
		}
	}
	for text, column := range map[string]int{
		"": 1, "a": 2, "a b": 3, "a =": 4, "a = 1 b = 2": 7, "a = 1 AND": 10, "= 1": 1,
		"a == 1": 3, "a = 1 AND a = 2": 11, "a > 1 AND b > 2": 11, "a > 1 AND a = 2": 11,
		"a BETWEEN 1": 12, "a BETWEEN 1 AND": 16, "a = 'x": 5, "a = 1 ORDER c": 13,
		"a = 1 ORDER BY": 15, "ä = 1 ORDER BY c, d": 19, "a LIKE 1": 3, "a <> 1": 3,
	} {
		_, err := advise.ParseQuery(text)
		var syntax *advise.SyntaxError
		if !errors.As(err, &syntax) || syntax.Column != column {
			t.Errorf("%q: error %v, want one in column %d", text, err, column)
		}
	}
}

func FuzzParseQuery(f *testing.F) {
	for _, text := range []string{"a = 1", "a = ? AND b BETWEEN 1 AND 2 ORDER BY c DESC", "a = 'x",
		"where ä < 1", "=", "a = = b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer testutil.Watch(text)()
		q, err := advise.ParseQuery(text)
		if err != nil {
			var syntax *advise.SyntaxError
			if !errors.As(err, &syntax) || syntax.Column < 1 || syntax.Column > len(text)+1 {
				t.Fatalf("%q: error %v", text, err)
			}
			return
		}
		if len(q.Equal) == 0 && q.Range == "" && q.Order == "" {
			t.Fatalf("%q compares nothing", text)
		}
	})
}
