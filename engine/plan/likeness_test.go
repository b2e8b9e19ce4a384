package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// likely returns a table whose column a has the values 0 to 6399 once each, and b 0 to 9, of
// which 7 is in half of the rows.
func likely(t *testing.T) *catalog {
	w := newCatalog(t,
		"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, INDEX ka (a), INDEX kb (b))")
	key := func(v int64) []byte { return keycodec.AppendInt64(nil, v) }
	s := &plan.TableStats{Epoch: 1, Rows: 6400, RowBytes: 100}
	indexes := w.tables["t"].Indexes
	ka := plan.KeyStats{Index: indexes[0].ID, Entries: 6400, Distinct: []float64{6400}}
	for i := range int64(65) {
		ka.Histogram.Bounds = append(ka.Histogram.Bounds, key(100*i))
	}
	kb := plan.KeyStats{Index: indexes[1].ID, Entries: 6400, Distinct: []float64{10},
		Heavy: []plan.Heavy{{Key: key(7), Fraction: 0.5}}}
	s.Keys = []plan.KeyStats{ka, kb}
	w.stats["t"] = s
	return w
}

func number(n int) expr.Value { return expr.Int(int64(n)) }

// outline is what a plan reads and how, and what it is expected to cost.
func outline(n plan.Node) string {
	text := fmt.Sprintf("%T cost %.0f rows %.0f", n, n.Estimate().Cost, n.Estimate().Rows)
	if a, ok := n.(*plan.Access); ok {
		text += fmt.Sprintf(" full %v reverse %v merge %v", a.FullScan, a.Reverse, a.Merge)
		if a.Index != nil {
			text += " " + a.Index.Name
		}
	}
	for _, c := range n.Children() {
		text += "\n" + outline(c)
	}
	return text
}

// TestLikelyValuesChoosePlans: a query with parameters is planned for their likely values as
// the same query with constants, and finds the same for others.
func TestLikelyValuesChoosePlans(t *testing.T) {
	w := likely(t)
	plans := map[string]bool{}
	for _, values := range [][]int{{10, 20, 3}, {10, 6000, 3}, {10, 6000, 7}, {0, 6390, 7}} {
		const text = "SELECT * FROM t WHERE a >= %s AND a < %s AND b = %s ORDER BY a"
		var params []expr.Value
		for _, v := range values {
			params = append(params, number(v))
		}
		constant := fmt.Sprintf(text, fmt.Sprint(values[0]), fmt.Sprint(values[1]),
			fmt.Sprint(values[2]))
		opt := plan.Options{Stats: w}
		want := outline(must(must(plan.Prepare(w.query(constant), opt)).Bind(nil)).Root)
		opt.Values = params
		p := must(plan.Prepare(w.query(fmt.Sprintf(text, "?1", "?2", "?3")), opt))
		if got := outline(must(p.Bind(params)).Root); got != want {
			t.Errorf("%v:\n%s\nwant\n%s", values, got, want)
		}
		plans[want] = true
	}
	if len(plans) < 2 {
		t.Errorf("one plan for all values: %v", plans)
	}
}

// TestLikelyPatternsChoosePlans: a pattern that is a parameter chooses an index if texts that match
// it have a beginning, and other patterns read that index, too.
func TestLikelyPatternsChoosePlans(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, s TEXT, n INT, INDEX ks (s))")
	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: 6400, RowBytes: 100}
	for pattern, want := range map[string]string{"ab_": "spans: begins_with(s, 'ab')",
		"%ab": "FULL SCAN t"} {
		opt := plan.Options{Stats: w, Values: []expr.Value{expr.String(pattern)}}
		p := must(plan.Prepare(w.query("SELECT * FROM t WHERE s LIKE ?1"), opt))
		if e := must(p.Bind(opt.Values)).Explain().String(); !strings.Contains(e, want) {
			t.Errorf("%s: not %s\n%s", pattern, want, e)
		}
	}
}
