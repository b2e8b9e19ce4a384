package layout_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

func TestSchemaRoundTrip(t *testing.T) {
	for _, flags := range schemas[1:] {
		s := parseSchema(t, flags)
		data, err := s.Encode()
		ok(t, err)
		again, err := layout.DecodeSchema(data)
		if err != nil || !again.Equal(s) {
			t.Errorf("%s came back as %s, %v", s.Flags(), again.Flags(), err)
		}
		want := "--pk " + strings.Join(flags[0], ",")
		if flags[1] != nil {
			want += " --sk " + strings.Join(flags[1], ",")
		}
		if s.Flags() != want {
			t.Errorf("flags %s, want %s", s.Flags(), want)
		}
	}
	for _, bad := range []string{"", "{}", `{"pk":[]}`, `{"pk":[{"name":"a","type":"money"}]}`,
		"null"} {
		if _, err := layout.DecodeSchema([]byte(bad)); err == nil {
			t.Errorf("%q was accepted as a schema", bad)
		}
	}
}

// fields opens a database in memory with sort keys of three fields: two texts and a
// number.
func fields(t *testing.T) (*engine.DB, *layout.Schema) {
	db, err := engine.Open("fields", &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	s := parseSchema(t, [2][]string{{"p"}, {"a", "b", "n:int"}})
	for _, a := range []string{"", "a", "ab", "b", "b\x00"} {
		for _, b := range []string{"", "x", "y"} {
			for _, n := range []string{"-10", "2", "10"} {
				sk, err := s.SKOfParts(args(a, b, n))
				if err == nil {
					err = db.Put(engine.Key{PK: []byte("p"), SK: sk}, []byte(a+"/"+b+"/"+n))
				}
				ok(t, err)
			}
		}
	}
	return db, s
}

func args(texts ...string) (out []layout.Arg) {
	for _, text := range texts {
		out = append(out, arg(text))
	}
	return out
}

func arg(text string) layout.Arg { return layout.Arg{Bytes: []byte(text)} }

// Conditions on the first fields compare just these; the prefix holds in every one.
func TestConditionsOnFields(t *testing.T) {
	db, s := fields(t)
	all := func(string, string, int) bool { return true }
	for _, c := range []struct {
		name string
		in   layout.Condition
		want func(a, b string, n int) bool
	}{
		{"any", layout.Condition{}, all},
		{"prefix a", layout.Condition{Prefix: args("a")},
			func(a, _ string, _ int) bool { return a == "a" }},
		{"prefix b x", layout.Condition{Prefix: args("b", "x")},
			func(a, b string, _ int) bool { return a == "b" && b == "x" }},
		{"whole", layout.Condition{Op: layout.Equal, A: arg(`["b","x",2]`)},
			func(a, b string, n int) bool { return a == "b" && b == "x" && n == 2 }},
		{"> b", layout.Condition{Op: layout.Greater, A: arg("b")},
			func(a, _ string, _ int) bool { return a > "b" }},
		{">= b", layout.Condition{Op: layout.GreaterEqual, A: arg("b")},
			func(a, _ string, _ int) bool { return a >= "b" }},
		{"< b", layout.Condition{Op: layout.Less, A: arg("b")},
			func(a, _ string, _ int) bool { return a < "b" }},
		{"<= b", layout.Condition{Op: layout.LessEqual, A: arg("b")},
			func(a, _ string, _ int) bool { return a <= "b" }},
		{"< empty", layout.Condition{Op: layout.Less, A: arg("")},
			func(string, string, int) bool { return false }},
		{"a to b", layout.Condition{Op: layout.Between, A: arg("a"), B: arg("b")},
			func(a, _ string, _ int) bool { return a >= "a" && a <= "b" }},
		{"b to a", layout.Condition{Op: layout.Between, A: arg("b"), B: arg("a")},
			func(string, string, int) bool { return false }},
		{"begins with a", layout.Condition{Op: layout.BeginsWith, A: arg("a")},
			func(a, _ string, _ int) bool { return strings.HasPrefix(a, "a") }},
		{"two fields", layout.Condition{Op: layout.Greater, A: arg(`["b","x"]`)},
			func(a, b string, _ int) bool { return a > "b" || a == "b" && b > "x" }},
		{"prefix, >= 2", layout.Condition{Prefix: args("b", "x"), Op: layout.GreaterEqual,
			A: arg("2")},
			func(a, b string, n int) bool { return a == "b" && b == "x" && n >= 2 }},
		{"prefix, < 10", layout.Condition{Prefix: args("b", "y"), Op: layout.Less, A: arg("10")},
			func(a, b string, n int) bool { return a == "b" && b == "y" && n < 10 }},
		{"prefix, > y", layout.Condition{Prefix: args("b"), Op: layout.Greater, A: arg("y")},
			func(string, string, int) bool { return false }},
		{"prefix, begins with empty", layout.Condition{Prefix: args("a"), Op: layout.BeginsWith,
			A: arg("")},
			func(a, _ string, _ int) bool { return a == "a" }},
	} {
		r, err := s.Range(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		q := engine.Query{PK: []byte("p"), SK: r.SK, Filter: r.Filter}
		for _, q.Reverse = range []bool{false, true} {
			got := values(t, db, q)
			want := values(t, db, engine.Query{PK: q.PK, Reverse: q.Reverse,
				Filter: func(it engine.Item) bool {
					parts := s.SKParts(it.Key.SK)
					n := map[string]int{"-10": -10, "2": 2, "10": 10}[parts[2]]
					return c.want(parts[0], parts[1], n)
				}})
			if !slices.Equal(got, want) {
				t.Errorf("%s, reverse %v: %q\nwant %q", c.name, q.Reverse, got, want)
			}
		}
	}
}

func values(t *testing.T, db *engine.DB, q engine.Query) (out []string) {
	t.Helper()
	for item, err := range db.Query(context.Background(), q) {
		ok(t, err)
		out = append(out, string(item.Value))
	}
	return out
}

func TestConditionsThatDoNotFit(t *testing.T) {
	_, three := fields(t)
	raw := parseSchema(t, [2][]string{{"a"}, {"b"}})
	none := parseSchema(t, [2][]string{{"a"}, nil})
	for _, c := range []struct {
		s    *layout.Schema
		in   layout.Condition
		want string
	}{
		{three, layout.Condition{Op: layout.Equal, A: arg("a")}, "3 fields (a, b, n), 1 given"},
		{three, layout.Condition{Prefix: args("a", "b", "x")}, `"x" is no int64`},
		{three, layout.Condition{Prefix: args("a", "b", "1", "c")}, "4 parts"},
		{three, layout.Condition{Prefix: args("a", "b"), Op: layout.BeginsWith, A: arg("1")},
			"n is not a text"},
		{three, layout.Condition{Op: layout.Less, A: arg(`["a","b",1,2]`)},
			"4 values for the 3 fields"},
		{three, layout.Condition{Op: layout.Less, A: arg(`["a",7]`)}, "is no string"},
		{raw, layout.Condition{Prefix: args("a", "b")}, "has one field (b)"},
		{none, layout.Condition{Op: layout.Less, A: arg("a")}, "have no sort key"},
		{nil, layout.Condition{Prefix: args("a")}, "have no fields"},
	} {
		_, err := c.s.Range(c.in)
		if !errors.Is(err, layout.ErrUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want … %s …", c.in, err, c.want)
		}
	}
}

func TestSplitBetween(t *testing.T) {
	for in, want := range map[string][2]string{
		"a,b":             {"a", "b"},
		",":               {"", ""},
		`["a,1","b"]`:     {"a,1", "b"},
		`[["a"],["b",2]]`: {`["a"]`, `["b",2]`},
		`[1,2]`:           {"1", "2"},
	} {
		a, b, err := layout.SplitBetween(in)
		if err != nil || [2]string{a, b} != want {
			t.Errorf("%s: %q, %q, %v", in, a, b, err)
		}
	}
	for _, in := range []string{"", "a", "a,b,c", `["a"]`} {
		if _, _, err := layout.SplitBetween(in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}

func TestShow(t *testing.T) {
	for in, want := range map[string]string{
		"Città":      "Città",
		"a\x00\xffb": `a\x00\xffb`,
		`back\slash`: `back\\slash`,
		"\n\ufffd":   `\n` + "\ufffd",
	} {
		if got := layout.Show([]byte(in)); got != want {
			t.Errorf("%q is shown as %s, want %s", in, got, want)
		}
	}
	if got, want := layout.ShowLines([]byte("a\n\tb\\c\x00")), "a\n\tb\\c"+`\x00`; got != want {
		t.Errorf("lines are shown as %q, want %q", got, want)
	}
}

// A lone string is stored as it is only if it sorts by its bytes: under a collation the
// spellings of one text have to be one key.
func TestLoneCollatedStringIsEncoded(t *testing.T) {
	s, err := layout.DecodeSchema([]byte(
		`{"pk":[{"name":"city","type":"string","collate":"ascii"}]}`))
	ok(t, err)
	lower, err := s.PK(arg("rome"))
	ok(t, err)
	if upper, err := s.PK(arg("ROME")); err != nil || string(upper) != string(lower) {
		t.Errorf("ROME is the key %q, rome %q, error %v", upper, lower, err)
	}
	if s.PlainPK() {
		t.Error("the key counts as plain bytes")
	}
}

// Values that are looked at show emoji of several parts, and no other invisible characters.
func TestShowLines(t *testing.T) {
	for text, want := range map[string]string{
		"\U0001f469\u200d\U0001f467\n": "\U0001f469\u200d\U0001f467\n",
		"a\u200db":                     `a\u200db`,
		"\u200d\U0001f467":             `\u200d` + "\U0001f467",
		"a\\\x00":                      `a\\x00`,
	} {
		if got := layout.ShowLines([]byte(text)); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
