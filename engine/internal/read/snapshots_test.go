package read

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Goal: what a flush or merge may drop no reader needs: each reader is known to it or reads
// at its horizon or above. Method: readers come and go while commits become visible; a reader
// that is registered after the question was either in the answer, or is above the horizon.
//
// Promise (reads and writes): Flushes and merges know every reader; a read in a snapshot that is
// closed meanwhile says so. Also `TestReadInASnapshotThatIsClosed`.
func TestRetentionKnowsEveryReader(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	var done atomic.Bool
	wg.Go(func() {
		for !done.Load() {
			w.put("k", "")
		}
	})
	for range 3 {
		wg.Go(func() {
			var nodes [4]snapNode // several at a time, of different ages
			for i := range nodes {
				w.take(&nodes[i])
			}
			for i := 0; !done.Load(); i = (i + 1) % len(nodes) {
				w.snaps.release(&nodes[i])
				w.take(&nodes[i])
			}
			for i := range nodes {
				w.snaps.release(&nodes[i])
			}
		})
	}
	rounds := testutil.Effort(2000, 20_000)
	for range rounds {
		ret := w.Retention()
		after := w.snaps.collect()
		for _, seq := range after {
			if _, known := slices.BinarySearch(ret.Snapshots, seq); !known && seq < ret.Horizon {
				t.Errorf("a reader at %d is unknown below the horizon %d", seq, ret.Horizon)
			}
		}
		if t.Failed() {
			break
		}
	}
	done.Store(true)
	wg.Wait()
}

// What a registration keeps alive others can only join while it lasts.
func TestRegistrationsThatHaveEnded(t *testing.T) {
	var v visible
	var s snapshots
	v.reset(7)
	s.init(&v, nil)
	var first, second, third snapNode
	s.register(&first)
	v.reset(9)
	if err := s.registerAt(&second, &first); err != nil || second.seq != 7 {
		t.Fatalf("joined at %d: %v", second.seq, err)
	}
	s.release(&first)
	if h := s.horizon(); h != 7 {
		t.Errorf("horizon %d while there is a reader at 7", h)
	}
	wantIs(t, s.registerAt(&third, &first), ErrClosed)
	s.release(&second)
	if h, n := s.horizon(), s.open(); h != 9 || n != 0 {
		t.Errorf("horizon %d with %d readers, want 9 without", h, n)
	}
}

// The horizon is the oldest number that anybody reads at, and moves when that reader ends,
// whoever ends before.
func TestHorizonFollowsTheOldestReader(t *testing.T) {
	var v visible
	var s snapshots
	s.init(&v, nil)
	check := func(what string, open int, horizon base.SeqNum, seqs ...base.SeqNum) {
		t.Helper()
		got := s.collect()
		if !slices.Equal(got, seqs) || s.horizon() != horizon || s.open() != open {
			t.Errorf("%s: %d at horizon %d, %d open", what, got, s.horizon(), s.open())
		}
	}
	v.reset(10)
	check("nobody", 0, 10)
	var n [5]snapNode
	s.register(&n[0])
	v.reset(20)
	s.register(&n[1])
	s.register(&n[2])
	v.reset(30)
	check("three", 3, 10, 10, 20)
	ok(t, s.registerAt(&n[3], &n[0]))
	s.release(&n[0])
	check("the oldest again", 3, 10, 10, 20)
	wantIs(t, s.registerAt(&n[4], &n[0]), ErrClosed)
	s.release(&n[1])
	s.release(&n[3])
	check("the last", 1, 20, 20)
	s.release(&n[2])
	check("none", 0, 30)
}

// A floor that is above what is visible, as that of another process may be, leaves what readers
// need who register below it.
func TestReadersBelowTheFloor(t *testing.T) {
	var v visible
	var s snapshots
	s.init(&v, nil)
	v.reset(3)
	s.setFloor(5, 0)
	var n snapNode
	s.register(&n)
	v.reset(7)
	if h, got := s.horizon(), s.collect(); h != 3 || !slices.Equal(got, []base.SeqNum{3, 5}) {
		t.Errorf("horizon %d with readers at %d, want 3 with 3 and 5", h, got)
	}
	s.release(&n)
	if h := s.horizon(); h != 5 {
		t.Errorf("horizon %d, want the floor", h)
	}
}
