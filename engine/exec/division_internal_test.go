package exec

import (
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
)

// A small table is read by one worker, unless its rows are looked at one by one; of a large one
// helpers get nearly all, and also of what the planner took to be small.
func TestHelpersPay(t *testing.T) {
	testutil.SkipUnderRace(t, "everything is divided, as by the tag invariants")
	if base.Invariants {
		t.Skip("everything is divided")
	}
	for _, c := range []struct {
		name         string
		expected     float64
		read, looked int64
		want         bool
	}{
		{"small", 2_500, 260, 10, false},
		{"nearly all of it", 2_500, 2_400, 100, false},
		{"small, grouped", 2_500, 260, 260, true},
		{"large", 100_000, 260, 10, true},
		{"large, not begun", 100_000, 100, 100, false},
		{"said to be empty", 0, 4_000, 50, false},
		{"said to be empty, but large", 0, 8_000, 50, true},
	} {
		d := &division{leaf: &plan.Access{Reads: c.expected}, read: int(c.read)}
		if got := d.pays(c.looked); got != c.want {
			t.Errorf("%s: helpers pay: %v", c.name, got)
		}
	}
}
