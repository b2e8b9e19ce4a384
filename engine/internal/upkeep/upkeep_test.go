package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

var ctx = context.Background()

// Flushes go in groups, each with one edit, and let the log go as far as nothing in memory
// needs it; merges drop what no snapshot sees.
func TestFlushAndMerge(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	for id := range 6 {
		w.put(id, fmt.Sprint("k", id), "old")
	}
	w.ok(w.Flush(ctx))
	if len(w.flushes) != 2 || w.flushes[0].Stripes != 4 || w.flushes[1].Stripes != 2 {
		t.Errorf("flushes in groups of at most 4: %+v", w.flushes)
	}
	if s := w.State(); s.LogSeq != w.seq()+1 || s.Stripes[5].FlushedSeq != w.seq() {
		t.Errorf("the log is needed from %d on after commit %d", s.LogSeq, w.seq())
	}
	old := w.seq()
	w.put(0, "k0", "new")
	w.ok(w.Flush(ctx))
	w.ok(w.MergeStripes(ctx, everyStripe))
	var e base.Entry
	if found, err := w.stripes[0].Get([]byte("k0"), base.Hash([]byte("k0"), 0), old, &e); found {
		t.Errorf("what nothing can read is still there: %q, %v", e.Value, err)
	}
	if w.runs(0) != 1 || len(w.merges) != 1 || w.merges[0].Runs != 2 {
		t.Errorf("%d runs after merges %+v", w.runs(0), w.merges)
	}
	if m := w.Metrics(); m.Flushes != 3 || m.Merges != 1 || m.MergeReadBytes == 0 {
		t.Errorf("%+v", m)
	}
}

// What a snapshot of the environment sees outlives merges.
func TestMergeKeepsSnapshots(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.snapshots = []base.SeqNum{w.put(0, "k", "old")}
	w.put(0, "k", "new")
	w.ok(w.Flush(ctx))
	w.ok(w.MergeStripes(ctx, everyStripe))
	var e base.Entry
	found, err := w.stripes[0].Get([]byte("k"), base.Hash([]byte("k"), 0), w.snapshots[0], &e)
	if !found || string(e.Value) != "old" {
		t.Errorf("%v, %q, %v", found, e.Value, err)
	}
}

// A pinned state keeps its files while they are replaced, and no longer.
func TestPinnedFilesStay(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.put(0, "k", "1")
	w.ok(w.Flush(ctx))
	p, err := w.Pin()
	w.ok(err)
	before := w.files("*.sst")
	w.put(0, "k", "2")
	w.ok(w.Flush(ctx))
	w.ok(w.MergeStripes(ctx, everyStripe))
	for _, name := range before {
		if !slices.Contains(w.files("*.sst"), name) {
			t.Errorf("%s is gone although it is pinned", name)
		}
	}
	p.Release()
	w.close() // what waits for reuse goes, too
	if left := w.files("*.sst"); len(left) != 1 || slices.Contains(before, left[0]) {
		t.Errorf("%v are left of %v", left, before)
	}
}

// An edit is made of the present state, or not at all. A full disk passes, but a sync of the
// manifest that fails is a failure for good, also for that reason.
func TestEdits(t *testing.T) {
	for fails, broken := range map[vfstest.OpKind]bool{
		vfstest.OpWriteAt: false, vfstest.OpSync: true,
	} {
		var full atomic.Bool
		w := newWorld(t, vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
			if full.Load() && op.Kind == fails {
				return vfs.ErrNoSpace
			}
			return nil
		}))
		set := func(s *manifest.State) *manifest.Edit {
			return &manifest.Edit{Settings: append(bytes.Clone(s.Settings), 'x')}
		}
		w.ok(w.Edit(set))
		w.ok(w.Edit(func(*manifest.State) *manifest.Edit { return nil }))
		full.Store(true)
		if err := w.Edit(set); !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("on a full disk: %v", err)
		}
		full.Store(false)
		if err := w.Edit(set); (err != nil) != broken {
			t.Errorf("with space again after a failed %v: %v", fails, err)
		}
		if forGood := w.failure.Load() != nil; forGood != broken {
			t.Errorf("after a failed %v: a failure for good: %v", fails, forGood)
		}
	}
}

// What passes does not make the database read-only, and neither does what was refused because
// no reader would accept it. Everything else does.
func TestFailuresForGood(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		err     error
		forGood bool
	}{
		{nil, false},
		{fmt.Errorf("merge: %w", base.ErrLimit), false},
		{fmt.Errorf("flush: %w", vfs.ErrNoSpace), false},
		{context.Canceled, false},
		{broken, true},
	} {
		w := newWorld(t, vfs.NewMem())
		if err := w.Fail(c.err); !errors.Is(err, c.err) {
			t.Errorf("%v became %v", c.err, err)
		}
		if failed := w.failure.Load() != nil; failed != c.forGood {
			t.Errorf("%v: failed for good: %v", c.err, failed)
		}
		if full := errors.Is(c.err, vfs.ErrNoSpace); w.reserve.full.Load() != full {
			t.Errorf("%v: the disk is full: %v", c.err, !full)
		}
	}
}

// What a flush has freed is collected before the heap has doubled.
//
// Promise (manners): The memory of flushed writes and evicted blocks is collected before the heap
// has doubled. Also `TestCollectsAtTheLimit` in `internal/garbage`, `TestEvictedIsGarbage`
// in `internal/cache`.
func TestFlushedIsGarbage(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	w := newWorld(t, vfs.NewMem())
	defer w.close()
	for id := range 16 {
		for i := range 256 {
			w.put(id, fmt.Sprintf("%04d", i), strings.Repeat("v", 4<<10))
		}
	}
	runtime.GC()
	before := forced()
	w.ok(w.Flush(ctx)) // 16 MiB
	for range 100_000 {
		if forced() > before {
			return
		}
		runtime.Gosched()
	}
	t.Error("no collection is asked for")
}
