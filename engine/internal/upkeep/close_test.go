package upkeep

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/kstonedb/kstone/internal/vfs"
)

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
