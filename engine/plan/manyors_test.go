package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
)

// TestManyORs plans ANDs of many ORs, which could become unions, and of ORs whose first row in an
// order that rises is looked for.
//
// Promise (plans): Planning an AND of many ORs takes time in proportion to their number.
func TestManyORs(t *testing.T) {
	w := newCatalog(t, `CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, INDEX ka (a, b),
		INDEX kb (b))`)
	work := func(n int) float64 {
		var terms []string
		for i := range n {
			terms = append(terms, fmt.Sprintf("(a = %d OR b = %d)", i, i+1))
		}
		sel := w.query("SELECT id FROM t WHERE " + strings.Join(terms, " AND "))
		return testing.AllocsPerRun(1, func() { must(plan.Prepare(sel, plan.Options{})) })
	}
	if few, many := work(100), work(800); many > 10*few {
		t.Errorf("%.0f allocations for 800 ORs, %.0f for 100", many, few)
	}

	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: 1000, RowBytes: 60, Monotonic: []int{0, 1}}
	work = func(n int) float64 {
		var terms []string
		for i := range n {
			terms = append(terms, fmt.Sprintf("(id > %d OR b > %d)", i, i+1))
		}
		sel := w.query("SELECT id FROM t WHERE " + strings.Join(terms, " AND ") +
			" ORDER BY a LIMIT 3")
		return testing.AllocsPerRun(1, func() { must(plan.Prepare(sel, plan.Options{Stats: w})) })
	}
	if few, many := work(3), work(6); many > 5*few {
		t.Errorf("ordered: %.0f allocations for 6 ORs, %.0f for 3", many, few)
	}
}
