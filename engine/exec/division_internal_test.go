package exec

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
)

// What is read in a short time is read by one worker, whatever the number of items; of what takes
// long helpers get nearly all, and also of what the planner took to be small.
func TestHelpersPay(t *testing.T) {
	testutil.SkipUnderRace(t, "everything is divided, as by the tag invariants")
	if base.Invariants {
		t.Skip("everything is divided")
	}
	for _, c := range []struct {
		name     string
		expected float64
		read     int
		took     time.Duration
		want     bool
	}{
		{"small", 2_500, 256, 5 * time.Microsecond, false},
		{"nearly all of it", 2_500, 2_400, 300 * time.Microsecond, false},
		{"small, with much work", 2_500, 256, 60 * time.Microsecond, true},
		{"large", 100_000, 256, 5 * time.Microsecond, true},
		{"large, not begun", 100_000, 100, 5 * time.Microsecond, false},
		{"said to be empty", 0, 4_000, 300 * time.Microsecond, false},
		{"said to be empty, but large", 0, 8_000, 600 * time.Microsecond, true},
	} {
		now := time.Unix(0, 0)
		r := &runner{opt: Options{Clock: func() time.Time { return now }}}
		d := &division{runner: r, leaf: &plan.Access{Reads: c.expected}, look: helpFrom}
		if d.pays() {
			t.Errorf("%s: helpers pay at once", c.name)
		}
		now, d.read = now.Add(c.took), c.read
		if got := d.pays(); got != c.want {
			t.Errorf("%s: helpers pay: %v", c.name, got)
		}
	}
}

// A helper whose context ends never passes for one that has sent all of its rows, even if there is
// room for them.
func TestHelpersThatEndEarly(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(gone)
	const all = 2*gatherRows + 1
	for range 100 {
		sent := 0
		rows := func(yield func([]expr.Value) bool) error {
			for sent = 0; sent < all && yield(nil); sent++ {
			}
			return nil
		}
		w := &worker{runner: &runner{ctx: ctx}, op: runFunc(rows)}
		out := &outbox{batches: make(chan *rowBatch, outboxBatches)}
		testutil.OK(t, w.send(out, make(chan *rowBatch, 1)))
		if done := out.at.Load() == math.MaxInt64; done != (out.err == nil) || done && sent < all {
			t.Fatalf("%d rows were sent, done: %v, error: %v", sent, done, out.err)
		}
	}
}
