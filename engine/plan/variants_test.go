package plan_test

import (
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
// of two in each column; how often it is planned is bounded. Also `TestVariantsAreBounded`.
func TestParametersArePlanned(t *testing.T) {
	w := likely(t)
	opt, cache := plan.Options{Stats: w}, plan.NewCache(100)
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
			got := must(cache.Fitting(p, params).Bind(params)).Explain()
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
	params, cache := []expr.Value{expr.Int(1), expr.Int(2)}, plan.NewCache(100)
	for _, where := range []string{"t.id = ?", "t.a = ?", "t.b = 3"} {
		p := must(plan.Prepare(w.query("SELECT * FROM t WHERE "+where), plan.Options{Stats: w}))
		if cache.Fitting(p, params[:p.Params()]) != p {
			t.Errorf("%s has plans for values", where)
		}
	}
}

// TestIndifferentRanges: after some runs a query whose plan does not depend on how much its range
// leaves keeps the plan for all values, and is estimated no more. One that depends on it goes on.
func TestIndifferentRanges(t *testing.T) {
	w := likely(t)
	for _, c := range []struct {
		query   string
		settled bool
	}{
		{"SELECT a FROM t WHERE a >= ? AND a < ? ORDER BY a", true},
		{"SELECT a FROM t WHERE a >= ? AND a < ? ORDER BY a LIMIT 10", true},
		{"SELECT * FROM t WHERE a >= ? AND a < ? ORDER BY a", false},
		{"SELECT a FROM t WHERE a >= ? AND a < ? AND b = ? ORDER BY a", false},
	} {
		cache := plan.NewCache(100)
		p := must(plan.Prepare(w.query(c.query), plan.Options{Stats: w}))
		values := []expr.Value{expr.Int(20), expr.Int(30), expr.Int(7)}[:p.Params()]
		if cache.Fitting(p, values) == p {
			t.Errorf("%s: the first run has no plan of its own", c.query)
		}
		for range 20 {
			cache.Fitting(p, values)
		}
		before := cache.Stats()
		if got := cache.Fitting(p, values) == p; got != c.settled ||
			c.settled && cache.Stats() != before {
			t.Errorf("%s: settled %v, want %v", c.query, got, c.settled)
		}
	}
}

// TestVariantsAreBounded runs a query of many classes of values from several goroutines: it is
// planned a bounded number of times, and what is kept is bounded by the cache.
func TestVariantsAreBounded(t *testing.T) {
	w := likely(t)
	p := must(plan.Prepare(w.query("SELECT * FROM t WHERE t.a > ? AND t.b = ? AND t.a < ?"),
		plan.Options{Stats: w}))
	r := testutil.Rand(t)
	some := func() []expr.Value {
		return []expr.Value{expr.Int(6400 - 1<<r.IntN(13)), expr.Int(r.Int64N(9)),
			expr.Int(6400 - 1<<r.IntN(13))}
	}
	cache := plan.NewCache(1000)
	var group sync.WaitGroup
	for range 4 {
		var list [][]expr.Value
		for range 500 {
			list = append(list, some())
		}
		group.Go(func() {
			for _, values := range list {
				cache.Fitting(p, values)
			}
		})
	}
	group.Wait()
	planned := cache.Stats().Misses
	if planned < 2 || planned > 6*64+4 {
		t.Errorf("planned %d times", planned)
	}
	small := plan.NewCache(3)
	q := must(plan.Prepare(w.query("SELECT * FROM t WHERE t.a > ?"), plan.Options{Stats: w}))
	for range 2000 {
		small.Fitting(q, some()[:1])
	}
	before := small.Stats()
	for range 100 {
		small.Fitting(q, some()[:1])
	}
	after := small.Stats()
	if after.Entries > 3 || after.Misses > 6*64 || after.Misses != before.Misses {
		t.Errorf("%d plans are kept, planned %d times and %d at last", after.Entries,
			before.Misses, after.Misses-before.Misses)
	}
	if plan.NewCache(-1).Fitting(p, some()) != p {
		t.Error("a cache that keeps nothing plans for values")
	}
}
