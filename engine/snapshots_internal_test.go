package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Goal: what a flush or merge may drop no reader needs: each reader is known to it or reads
// at its horizon or above. Method: readers come and go while commits become visible; who
// is registered after the question was either in the answer, or is above the horizon.
//
// Promise (reads and writes): Flushes and merges know every reader; a read in a snapshot that is
// closed meanwhile says so. Also `TestReadInASnapshotThatIsClosed`.
func TestRetentionKnowsEveryReader(t *testing.T) {
	db, err := OpenFS(vfs.NewMem(), "db", &Options{Durability: Process})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var wg sync.WaitGroup
	var done atomic.Bool
	wg.Go(func() {
		for !done.Load() {
			if err := db.Put(Key{PK: []byte("k")}, nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3 {
		wg.Go(func() {
			var nodes [4]snapNode // several at a time, of different ages
			for i := range nodes {
				db.takeSnapshot(&nodes[i])
			}
			for i := 0; !done.Load(); i = (i + 1) % len(nodes) {
				db.snaps.release(&nodes[i])
				db.takeSnapshot(&nodes[i])
			}
			for i := range nodes {
				db.snaps.release(&nodes[i])
			}
		})
	}
	rounds := testutil.Effort(2000, 20_000)
	for range rounds {
		ret := db.retention()
		after := db.snaps.collect()
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
	s.init(&v)
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
	if err := s.registerAt(&third, &first); !errors.Is(err, ErrClosed) {
		t.Errorf("joined a registration that has ended: %v", err)
	}
	s.release(&second)
	if h, n := s.horizon(), s.open(); h != 9 || n != 0 {
		t.Errorf("horizon %d with %d readers, want 9 without", h, n)
	}
}
