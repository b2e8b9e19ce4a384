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
