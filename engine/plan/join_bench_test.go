package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
)

// BenchmarkPlanJoin plans a chain of equalities over so many tables, listed out of its order.
func BenchmarkPlanJoin(b *testing.B) {
	for _, n := range []int{20, 40, 60} {
		w := newCatalog(b)
		var from, where []string
		for i := range n {
			w.exec(fmt.Sprintf("CREATE TABLE t%d (a%d INT PRIMARY KEY, b%d INT)", i, i, i))
			at := (i*7 + 3) % n
			from = append(from, fmt.Sprintf("t%d", at))
			if i > 0 {
				where = append(where, fmt.Sprintf("a%d = b%d", i, i-1))
			}
		}
		text := fmt.Sprintf("SELECT b0 FROM %s WHERE %s AND a0 = 3", from[0],
			strings.Join(where, " AND "))
		for _, t := range from[1:] {
			text = strings.Replace(text, " WHERE ", " JOIN "+t+" ON 1 = 1 WHERE ", 1)
		}
		sel := w.query(text)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(plan.Prepare(sel, plan.Options{}))
			}
		})
	}
}
