package plan_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestParametersArePlanned runs one prepared query with values that leave few and many rows: it
// has the plan of the same query with constants, whatever it was run with before.
//
// Promise (plans): A prepared query reads what the same query with constants reads, up to a factor
// of two in each column; the plans it keeps are bounded. Also `TestVariantsAreBounded`.
func TestParametersArePlanned(t *testing.T) {
	w := likely(t)
	opt := plan.Options{Stats: w}
	for _, c := range []struct {
		where  string
		values [][]int64
	}{
		{"t.a BETWEEN ? AND ?", [][]int64{{20, 30}, {0, 6000}, {500, 510}, {100, 6300}, {9, 1}}},
		{"t.b = ?", [][]int64{{3}, {7}, {4}, {7}}},
		{"t.a > ? OR t.a < ?", [][]int64{{6390, 10}, {0, 5}, {6395, 7}}},
		{"t.b = ? AND t.b = ?", [][]int64{{7, 7}, {7, 3}}},
	} {
		text := "SELECT * FROM t WHERE " + c.where
		p := must(plan.Prepare(w.query(text), opt))
		for _, values := range c.values {
			constant, params := text, []expr.Value(nil)
			for _, v := range values {
				constant = strings.Replace(constant, "?", expr.Int(v).String(), 1)
				params = append(params, expr.Int(v))
			}
			got := must(p.Fitting(params).Bind(params)).Explain()
			want := must(must(plan.Prepare(w.query(constant), opt)).Bind(nil)).Explain()
			if a, b := indexOfPlan(got), indexOfPlan(want); a != b {
				t.Errorf("%s: %s, with constants %s", constant, a, b)
			}
		}
	}
}

// indexOfPlan returns what a plan reads a table by.
func indexOfPlan(e *plan.Explanation) string {
	for _, a := range e.Attributes {
		if a.Name == "index" {
			return a.Value
		}
	}
	for _, c := range e.Children {
		return indexOfPlan(c)
	}
	return e.Operator
}

// TestNoVariants: values make no difference to a point, nor without anything known.
func TestNoVariants(t *testing.T) {
	w := likely(t)
	params := []expr.Value{expr.Int(1), expr.Int(2)}
	for _, where := range []string{"t.id = ?", "t.a = ?", "t.b = 3"} {
		p := must(plan.Prepare(w.query("SELECT * FROM t WHERE "+where), plan.Options{Stats: w}))
		if p.Fitting(params[:p.Params()]) != p {
			t.Errorf("%s has plans for values", where)
		}
	}
}

// TestVariantsAreBounded runs a query with values of all kinds from several goroutines.
func TestVariantsAreBounded(t *testing.T) {
	w := likely(t)
	p := must(plan.Prepare(w.query("SELECT * FROM t WHERE t.a > ? AND t.b = ? AND t.id < ?"),
		plan.Options{Stats: w}))
	r := testutil.Rand(t)
	var list [][]expr.Value
	for range 300 {
		list = append(list, []expr.Value{expr.Int(r.Int64N(7000)), expr.Int(r.Int64N(9)),
			expr.Int(1 << r.IntN(30))})
	}
	plans := make([]map[*plan.Prepared]bool, 4)
	var group sync.WaitGroup
	for i := range plans {
		plans[i] = map[*plan.Prepared]bool{}
		group.Go(func() {
			for _, values := range list {
				plans[i][p.Fitting(values)] = true
			}
		})
	}
	group.Wait()
	var all []*plan.Prepared
	for _, m := range plans {
		for p := range m {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	if len(all) < 2 || len(all) > 8 {
		t.Errorf("%d plans are kept", len(all))
	}
}
