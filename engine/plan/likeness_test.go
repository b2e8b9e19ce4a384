package plan_test

import (
	"bytes"
	"fmt"
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

// TestLikeness: values are alike if they leave about as many rows.
func TestLikeness(t *testing.T) {
	w := likely(t)
	tab := w.tables["t"]
	class := func(column string, restrictions ...any) []byte {
		var l plan.Likeness
		l.Begin(tab, w.stats["t"])
		for i := 0; i < len(restrictions); i += 2 {
			op, v := restrictions[i].(expr.Op), restrictions[i+1].(int)
			l.Restrict(tab.Column(column), op, number(v))
		}
		return l.Append(nil)
	}
	between := func(lo, hi int) []byte { return class("a", expr.Ge, lo, expr.Lt, hi) }
	for _, c := range []struct {
		name string
		a, b []byte
		same bool
	}{
		{"short ranges", between(20, 40), between(6000, 6021), true},
		{"a short and a long range", between(20, 40), between(20, 4000), false},
		{"both in the middle, one long", between(3000, 3010), between(100, 6300), false},
		{"a usual and a frequent value", class("b", expr.Eq, 3), class("b", expr.Eq, 7), false},
		{"two usual values", class("b", expr.Eq, 3), class("b", expr.Eq, 4), true},
	} {
		if bytes.Equal(c.a, c.b) != c.same {
			t.Errorf("%s: %x and %x, the same: %v", c.name, c.a, c.b, c.same)
		}
	}
	var none plan.Likeness
	none.Begin(tab, nil)
	none.Restrict(0, expr.Eq, number(1))
	if got := none.Append(nil); len(got) != 0 {
		t.Errorf("without statistics: %x", got)
	}
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
