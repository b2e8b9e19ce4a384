package plan_test

import (
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
)

// TestFewRowsAreOneOperator: a scan of few rows is one operator, one of many, in any order, a tree
// that reads blocks.
func TestFewRowsAreOneOperator(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	for rows, direct := range map[float64]bool{3: true, 20: true, 50: false, 1e6: false} {
		w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: rows}
		for _, text := range []string{"SELECT id, a + 1 FROM t", "SELECT id FROM t WHERE a > 3"} {
			p := must(plan.Prepare(w.query(text), plan.Options{Stats: w}))
			if got := p.Physical() != nil; got != direct {
				t.Errorf("%v rows, %s: one operator %v, want %v", rows, text, got, direct)
			}
		}
	}
}
