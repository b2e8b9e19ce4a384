package upkeep

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Goal: Close waits for no merge and no flush. Method: the first write of a file waits until the
// work is to end; what is written and synced after that is counted.
//
// Promise (manners): Close gives up merges and flushes under way at their next block, and removes
// what they have written; nothing is lost.
func TestCloseGivesUpWork(t *testing.T) {
	for what, runs := range map[string]int{"flush": 0, "merge": 2} {
		t.Run(what, func(t *testing.T) {
			var w *world
			armed, began, after := false, make(chan struct{}), 0
			fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
				sst := armed && strings.HasSuffix(op.Name, ".sst")
				switch {
				case sst && op.Kind == vfstest.OpWrite && after == 0:
					close(began)
					<-w.scheduler.ctx.Done()
					after++
				case sst && (op.Kind == vfstest.OpWrite || op.Kind == vfstest.OpSync):
					after++
				}
				return nil
			})
			w = newWorld(t, fsys)
			w.scheduler.init(w.Upkeep)
			rng, value := testutil.Rand(t), make([]byte, 1<<10)
			for range max(runs, 1) {
				for i := range 2048 {
					for j := range value {
						value[j] = byte(rng.Uint32())
					}
					w.put(0, fmt.Sprint("k", i), string(value))
				}
				if runs > 0 {
					w.ok(w.Flush(ctx))
				}
			}
			before := w.files("*.sst")
			armed = true
			w.scheduler.start()
			<-began
			w.Stop()
			if after != 1 || !slices.Equal(w.files("*.sst"), before) || len(w.merges) > 0 {
				t.Errorf("%d writes and syncs, files %q, want %q", after, w.files("*.sst"), before)
			}
			if f := w.failure.Load(); f != nil {
				t.Errorf("the database has failed: %v", *f)
			}
			if low, ok := w.stripes[0].MinSeq(nil); runs == 0 && (!ok || low != 1) {
				t.Errorf("memtables begin at %d, %v", low, ok)
			}
		})
	}
}

// closing is a context that closes the database when it is looked at.
type closing struct {
	context.Context
	w *world
}

func (c closing) Err() error {
	c.w.close()
	return nil
}

// A delete that looks for room while the database is closed fails with that; the log, closed
// under it, is no failure of the database.
func TestCloseIsNoFailureOfADelete(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	err := w.throttle.roomForDelete(closing{context.Background(), w}, 10)
	if !errors.Is(err, errClosed) {
		t.Errorf("error %v", err)
	}
	if f := w.failure.Load(); f != nil {
		t.Errorf("the database has failed: %v", *f)
	}
}

// A put that has waited in line while the database was closed does not open the reserve
// again, which may be another process's by then.
func TestReserveStaysClosed(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.reserve.enter()
	w.close()
	w.throttle.used.Add(64 << 20)
	w.reserve.settle()
	err := w.throttle.queue(context.Background(), 10, false)
	if err != nil && !errors.Is(err, errClosed) {
		t.Errorf("error %v", err)
	}
	if w.reserve.file != nil {
		t.Error("the reserve is open after Close")
	}
	if w.reserve.give(forFlush, 1) {
		t.Error("a closed reserve gives space")
	}
}

// What is closed is garbage although merges that failed were to be tried again in a minute.
func TestRetriesKeepNothingInMemory(t *testing.T) {
	u := New(Env{}, Options{Workers: 2}, emptyState)
	for id := range uint8(4) {
		for range 12 { // up to the longest pause
			u.scheduler.retryLater(id, vfs.ErrNoSpace)
		}
	}
	gone := weak.Make(u)
	u = nil
	for range 20 { // what finalizers hold needs more than one cycle
		runtime.GC()
		if gone.Value() == nil {
			return
		}
	}
	t.Error("the upkeep is still in memory")
}
