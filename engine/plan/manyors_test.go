package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
)

// TestManyORs plans ANDs of many ORs, which could become unions.
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
}
