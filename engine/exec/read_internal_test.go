package exec

import (
	"math"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
)

// A limit is one of the store if it has such; no table ends at the largest of these.
func TestRangeLimit(t *testing.T) {
	for limit, want := range map[int64]int{-1: 0, 3: 3, mostLimit - 1: mostLimit - 1, mostLimit: 0,
		math.MaxInt64: 0} {
		a := access{node: &plan.Access{Limit: limit}}
		if got := a.rangeLimit(); got != want {
			t.Errorf("LIMIT %d: %d items of a range", limit, got)
		}
	}
}
