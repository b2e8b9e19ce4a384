package plan_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func keyOf(pk, sk []byte) keycodec.Key { return keycodec.Key{PK: pk, SK: sk} }

func TestSketchCounts(t *testing.T) {
	for _, n := range []int{0, 1, 50, 3000, 20_000, 300_000} {
		var s plan.Sketch
		var b [8]byte
		for i := range n {
			binary.BigEndian.PutUint64(b[:], uint64(i)*3)
			s.Add(b[:])
			s.Add(b[:])
		}
		if got := s.Count(); math.Abs(got-float64(n)) > 0.06*float64(n) {
			t.Errorf("%d values are counted as %.0f", n, got)
		}
	}
}

// TestCollector: what is collected from skewed data is near the truth.
//
// Promise (plans): Statistics are near the truth; damaged ones are refused. Also
// `TestSketchCounts`, `TestStatsAreChecked`.
func TestCollector(t *testing.T) {
	const n = 100_000
	c := plan.NewCollector(3, 2)
	r := rand.New(rand.NewPCG(1, 1))
	below, sevens := 0, 0
	for range n {
		a := int64(r.ExpFloat64() * 1000)
		if r.IntN(5) == 0 {
			a = 7
		}
		if a < 500 {
			below++
		}
		if a == 7 {
			sevens++
		}
		key := keycodec.AppendInt64(nil, a)
		key = keycodec.AppendInt64(key, int64(r.IntN(10)))
		c.Add(key, []int{8, 16}, false, 4)
	}
	k := c.Stats()
	got, _ := k.Histogram.Fraction(nil, keycodec.AppendInt64(nil, 500))
	if want := float64(below) / n; math.Abs(got-want) > 0.04 {
		t.Errorf("%.3f are below 500, estimated %.3f", want, got)
	}
	if len(k.Heavy) == 0 || !bytes.Equal(k.Heavy[0].Key, keycodec.AppendInt64(nil, 7)) ||
		math.Abs(k.Heavy[0].Fraction-float64(sevens)/n) > 0.01 {
		t.Errorf("frequent values: %v, want 7 with %.3f", k.Heavy, float64(sevens)/n)
	}
	if k.EntryBytes != 20 || k.Entries != n || k.Distinct[1] < k.Distinct[0] {
		t.Errorf("%v entries of %v bytes, distinct %v", k.Entries, k.EntryBytes, k.Distinct)
	}
	s := &plan.TableStats{Epoch: 4, Rows: n, Keys: []plan.KeyStats{k}}
	ok(t, s.Validate())
	var back plan.TableStats
	err := json.Unmarshal(must(json.Marshal(s)), &back)
	if err != nil || !reflect.DeepEqual(*s, back) {
		t.Errorf("JSON gives back something else: %v", err)
	}
}

// TestLongFrequentValues: statistics are one value in the catalogue, however long values are.
//
// Promise (plans): Values of more than a KiB are not among the frequent ones of statistics.
func TestLongFrequentValues(t *testing.T) {
	c := plan.NewCollector(1, 2)
	for i := range 200 {
		key := keycodec.AppendString(nil, strings.Repeat("x", 60_000+i%2))
		c.Add(keycodec.AppendInt64(key, int64(i%2)), []int{len(key), len(key) + 8}, false, 10)
	}
	if n := len(must(json.Marshal(c.Stats()))); n > 100_000 {
		t.Errorf("%d bytes", n)
	}
}

// TestEstimatesFall checks that a query with one more condition is never expected to return
// more rows: cardinality restriction testing (Ba, Rigger, 2024).
//
// Promise (plans): A condition more never raises an estimate.
func TestEstimatesFall(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	r := rand.New(rand.NewPCG(5, 5))
	w := newCatalog(t, `CREATE TABLE t (id INT PRIMARY KEY, a INT NULL, b INT, c INT NULL, s TEXT,
		INDEX k1 (a, b, c), INDEX k2 (b, a), INDEX k3 (c), INDEX k4 (s))`)
	w.stats["t"] = statsOf(r)
	g := &generator{r}
	rows := func(where string) float64 {
		sel := w.query("SELECT t.id FROM t WHERE " + where)
		return must(must(plan.Prepare(sel, plan.Options{Stats: w})).Bind(nil)).Root.Estimate().Rows
	}
	queries := testutil.Effort(200, 1000)
	// Of a and c alone nothing is known together; of a, b and c it is, and it is more.
	two, three := rows("t.a = 1 AND t.c = 2"), rows("t.a = 1 AND t.c = 2 AND t.b = 3")
	if three > two {
		t.Errorf("%v rows, with a condition more %v", two, three)
	}
	for range queries {
		where := strings.NewReplacer("?1", "3", "?2", "4").Replace(g.predicate([]string{"t"}, 1))
		before := rows(where)
		for range 4 {
			more := g.predicate([]string{"t"}, 1)
			where += " AND " + strings.NewReplacer("?1", "3", "?2", "4").Replace(more)
			after := rows(where)
			if after > before*(1+1e-9) {
				t.Fatalf("%s: %v rows, without the last term %v", where, after, before)
			}
			before = after
		}
	}
}

// statsOf makes statistics with correlated columns and frequent values.
func statsOf(r *rand.Rand) *plan.TableStats {
	s := &plan.TableStats{Epoch: 1, Rows: 1e6, RowBytes: 100, Monotonic: []int{0, 1, 3}}
	for index, widths := range [][]float64{{1e6}, {500, 900, 2000}, {200, 900}, {50}} {
		k := plan.KeyStats{Index: uint32(index), Entries: 1e6, EntryBytes: 40, Distinct: widths}
		for i := range 65 {
			v := int64(i*i/64 - 2)
			key := keycodec.AppendNotNull(nil)
			if index == 0 || index == 2 {
				key = nil
			}
			k.Histogram.Bounds = append(k.Histogram.Bounds, keycodec.AppendInt64(key, v))
			if i%20 == 3 {
				k.Heavy = append(k.Heavy, plan.Heavy{Key: keycodec.AppendInt64(key, v),
					Fraction: r.Float64() / 10})
			}
		}
		s.Keys = append(s.Keys, k)
	}
	return s
}

// TestStatsAreChecked: statistics come from a file.
func TestStatsAreChecked(t *testing.T) {
	for _, text := range []string{
		`{"rows": -1}`, `{"rows": 5, "distinct": [-2]}`,
		`{"rows": 5, "keys": [{"entries": 5, "nulls": 2}]}`,
		`{"rows": 5, "keys": [{"entries": 5, "distinct": [-3]}]}`,
		`{"rows": 5, "keys": [{"entries": 5, "histogram": {"bounds": ["Ag==", "AQ=="]}}]}`,
		`{"rows": 5, "keys": [{"entries": 5, "heavy": [{"key": "", "fraction": 7}]}]}`,
	} {
		var s plan.TableStats
		ok(t, json.Unmarshal([]byte(text), &s))
		if s.Validate() == nil {
			t.Errorf("accepted: %s", text)
		}
	}
	if fmt.Sprint((&plan.TableStats{}).Validate()) != "<nil>" {
		t.Error("empty statistics are refused")
	}
}
