package plan_test

import (
	"errors"
	"fmt"
	"runtime"
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

// joined returns a query that joins so many tables by equalities, from pairs of their numbers.
func joined(t testing.TB, n int, pairs func(yield func(a, b int))) *plan.Select {
	w := newCatalog(t)
	from, where := "t0", "t0.a = 3"
	for i := range n {
		w.exec(fmt.Sprintf("CREATE TABLE t%d (a INT PRIMARY KEY, b INT, c INT)", i))
		if i > 0 {
			from += fmt.Sprintf(" JOIN t%d ON 1 = 1", i)
		}
	}
	pairs(func(a, b int) { where += fmt.Sprintf(" AND t%d.b = t%d.a", a, b) })
	return w.query("SELECT t0.b FROM " + from + " WHERE " + where)
}

// eachPair yields each two of so many numbers.
func eachPair(n int) func(yield func(a, b int)) {
	return func(yield func(a, b int)) {
		for i := range n {
			for j := range i {
				yield(j, i)
			}
		}
	}
}

// BenchmarkPlanJoin plans chains, stars, and joins of each table with each other one.
func BenchmarkPlanJoin(b *testing.B) {
	for _, n := range []int{20, 40, 60} {
		star := joined(b, n, func(yield func(a, b int)) {
			for i := 1; i < n; i++ {
				yield(0, i)
			}
		})
		clique := joined(b, n, eachPair(n))
		for name, sel := range map[string]*plan.Select{
			"chain": chain(b, n), "star": star, "clique": clique,
		} {
			b.Run(fmt.Sprint(name, " ", n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					must(plan.Prepare(sel, plan.Options{}))
				}
			})
		}
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

// TestPlansOfEqualCost plans a join of a table with itself, 60 times: all orders cost the same, and
// few of them are looked at.
func TestPlansOfEqualCost(t *testing.T) {
	w := newCatalog(t)
	w.exec("CREATE TABLE t (a INT PRIMARY KEY)")
	from, where := "t AS t0", "t0.a = 3"
	for i := 1; i < 60; i++ {
		from += fmt.Sprintf(" JOIN t AS t%d ON 1 = 1", i)
		where += fmt.Sprintf(" AND t%d.a = t0.a", i)
	}
	sel, steps := w.query("SELECT t0.a FROM "+from+" WHERE "+where), 0
	must(plan.Prepare(sel, plan.Options{Check: func() error { steps++; return nil }}))
	if steps > 600 {
		t.Errorf("planning takes %d steps, want about 300", steps)
	}
}

// TestEqualitiesThatFollow plans a join of eight tables, each with each other one: most of its
// equalities follow from others.
//
// Promise (plans): Planning takes memory in proportion to the equalities, also if some follow from
// others.
func TestEqualitiesThatFollow(t *testing.T) {
	sel := joined(t, 8, eachPair(8))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must(plan.Prepare(sel, plan.Options{}))
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("28 equalities of 8 tables take %d bytes", n)
	}
}
