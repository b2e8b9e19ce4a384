package plan_test

import (
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Goroutines of a divided scan bind its zones once, the first of them that meets a block. To bind
// a plan does not.
func TestZonesAreBoundWhenBlocksAreMet(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
	query := must(plan.Prepare(w.query("SELECT * FROM t WHERE a > ?1 AND b < ?2"), plan.Options{}))
	params := []expr.Value{expr.Int(5), expr.Int(7)}
	access := must(query.Bind(params)).Root.(*plan.Access)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if got := access.Zones.String(); got != "a >= 6 AND b < 7" {
				t.Errorf("zones %q", got)
			}
		})
	}
	group.Wait()
	testutil.SkipUnderRace(t, "it allocates")
	bind := func() { access = must(query.Bind(params)).Root.(*plan.Access) }
	bound, both := testutil.AllocsPerRun(100, bind), testutil.AllocsPerRun(100, func() {
		bind()
		access.Zones.Bind()
	})
	if bound >= both {
		t.Errorf("%v allocations to bind, %v with the zones", bound, both)
	}
}

// The memory of ranges is used again, and their zones are those of the last values.
func TestZonesOfRangesAreBoundAgain(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	p := must(plan.Prepare(w.query("SELECT id FROM t WHERE a > ?1 LIMIT 3"), plan.Options{}))
	var r plan.Ranges
	for value, want := range map[int64]string{5: "a >= 6", 8: "a >= 9"} {
		if !must(p.Physical().Bind(&r, []expr.Value{expr.Int(value)})) || !r.Zoned() {
			t.Fatal("there are no zones")
		}
		if got := r.BoundZones(); got != want {
			t.Errorf("zones %q, want %q", got, want)
		}
		r.Release()
	}
}
