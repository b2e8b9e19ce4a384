package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
)

// chain returns a chain of equalities over so many tables, listed out of its order.
func chain(t testing.TB, n int) *plan.Select {
	w := newCatalog(t)
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
	return w.query(text)
}

// BenchmarkPlanJoin plans a chain.
func BenchmarkPlanJoin(b *testing.B) {
	for _, n := range []int{20, 40, 60} {
		sel := chain(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(plan.Prepare(sel, plan.Options{}))
			}
		})
	}
}

// TestPlanningOfManyTablesEnds ends the planning of 60 tables after some steps.
//
// Promise (plans): A context that ends while joins are planned ends that.
func TestPlanningOfManyTablesEnds(t *testing.T) {
	sel := chain(t, 60)
	ended := errors.New("the context has ended")
	calls := 0
	_, err := plan.Prepare(sel, plan.Options{Check: func() error {
		if calls++; calls >= 5 {
			return ended
		}
		return nil
	}})
	if !errors.Is(err, ended) || calls != 5 {
		t.Errorf("after %d checks: %v", calls, err)
	}
}
