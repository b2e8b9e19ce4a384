package stripe_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
)

// rise flushes keys [from, to) as a run.
func (w *world) rise(from, to int) {
	w.t.Helper()
	for i := from; i < to; i++ {
		w.commit(put(fmt.Sprintf("k%06d", i), noise(i)))
	}
	w.flush()
}

// rising returns a stripe with four runs of keys that rise. A flush makes one file.
func rising(t *testing.T) *world {
	w := newWorld(t, vfs.NewMem())
	w.env.FileBytes = 12 << 10
	for i := range 4 {
		w.rise(100*i, 100*i+100)
	}
	return w
}

// numbers returns the numbers of the files of a run.
func (w *world) numbers(run int) (nums []base.FileNum) {
	for _, f := range w.s.View().Runs[run].Files {
		nums = append(nums, f.Meta.Num)
	}
	return nums
}

// A merge of keys that rise writes nothing. Its files live as long as the last run that has them.
func TestRisingFilesMove(t *testing.T) {
	w := rising(t)
	early := w.s.Acquire()
	out, err := w.startCompaction(0, 4)
	ok(t, err)
	if out.BytesWritten != 0 || out.BytesRead != 0 {
		t.Errorf("%d bytes are read and %d written", out.BytesRead, out.BytesWritten)
	}
	ok(t, w.install(out))
	if got, want := w.numbers(0), []base.FileNum{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Fatalf("the run has files %v, want %v", got, want)
	}
	w.checkRun(w.s.View().Runs[0])
	w.checkAll()
	w.checkFiles()
	w.reopen()
	w.checkAll()
	w.checkFiles()
	early.Release() // of the stripe before reopen: nothing is removed
	w.checkFiles()
}

func TestMovedFilesOutliveTheirRuns(t *testing.T) {
	w := rising(t)
	early := w.s.Acquire()
	w.compact(0, 4)
	moved := w.s.Acquire()
	w.reason = compaction.ReasonManual
	w.compact(0, 1)
	if len(w.gone) > 0 {
		t.Fatalf("%v are removed, and views have them", w.gone)
	}
	for _, v := range []interface{ Release() }{moved, early} {
		for _, r := range early.Runs {
			for _, f := range r.Files {
				ok(t, f.Reader.Verify(ctx))
			}
		}
		if len(w.gone) > 0 {
			t.Fatalf("%v are removed, and a view has them", w.gone)
		}
		v.Release()
	}
	if len(w.gone) != 4 {
		t.Errorf("%v are removed, want 4 files", w.gone)
	}
	w.checkAll()
	w.checkFiles()
}

// moving are changes of a rising stripe, and which of its files move then.
var moving = map[string]struct {
	change func(w *world)
	moved  []base.FileNum
}{
	"overlapping": {
		change: func(w *world) { w.rise(150, 350) },
		moved:  []base.FileNum{1},
	},
	"the same key": {
		change: func(w *world) { w.rise(399, 450) },
		moved:  []base.FileNum{1, 2, 3},
	},
	"one after the other": {
		change: func(w *world) { w.rise(400, 500) },
		moved:  []base.FileNum{1, 2, 3, 4, 5},
	},
	"tombstones": {
		change: func(w *world) {
			w.commit(put("l", noise(1)), del("m"))
			w.rise(400, 500)
		},
		moved: []base.FileNum{1, 2, 3, 4},
	},
	"a range that is deleted": {
		change: func(w *world) {
			w.commit(delRange("k000020", "k000030"))
			w.rise(400, 500)
		},
	},
	"still to expire": {
		change: func(w *world) {
			w.commit(op{kind: base.KindPutTTL, key: "l", value: "v", expiry: nowMs + 1})
			w.rise(400, 500)
		},
		moved: []base.FileNum{1, 2, 3, 4, 5},
	},
	"two versions": {
		change: func(w *world) {
			w.commit(put("l", noise(1)))
			seq := w.snapshot()
			w.commit(put("l", noise(2)))
			w.rise(400, 500)
			w.releaseSnapshot(seq)
		},
		moved: []base.FileNum{1, 2, 3, 4},
	},
	"a small one": {
		change: func(w *world) { w.rise(400, 401) },
		moved:  []base.FileNum{1, 2, 3, 4},
	},
	"large values": {
		change: func(w *world) {
			w.env.LargeValue = 100
			for i := range 20 {
				w.commit(put(fmt.Sprintf("l%02d", i), noise(i)+noise(i)))
			}
			w.rise(400, 500)
		},
	},
	"another codec":      {change: func(w *world) { w.env.BottomCodec = sst.Snappy }},
	"another block size": {change: func(w *world) { w.env.BlockBytes = 512 }},
	"other filters":      {change: func(w *world) { w.env.FilterBits = 16 }},
	"asked for": {
		change: func(w *world) { w.reason = compaction.ReasonManual },
	},
}

// A file is merged if it overlaps another one, or if the merge would change it.
func TestFilesThatDoNotMove(t *testing.T) {
	for name, c := range moving {
		t.Run(name, func(t *testing.T) {
			w := rising(t)
			c.change(w)
			last := w.lastNum
			w.compact(0, len(w.s.View().Runs))
			got := slices.DeleteFunc(w.numbers(0), func(n base.FileNum) bool { return n > last })
			if !slices.Equal(got, c.moved) {
				t.Errorf("files %v are moved, want %v\n%s", got, c.moved, w.shape())
			}
			w.checkRun(w.s.View().Runs[0])
			w.checkAll()
			w.checkFiles()
			w.reopen()
			w.checkAll()
		})
	}
}

// A file with an item that has expired since its flush is merged.
func TestExpiredFilesDoNotMove(t *testing.T) {
	w := rising(t)
	w.commit(op{kind: base.KindPutTTL, key: "l", value: "v", expiry: nowMs + 1})
	w.rise(400, 500)
	v := w.s.Acquire()
	defer v.Release()
	for late, want := range []int{5, 4} {
		ret := w.retention()
		ret.NowMs += int64(late)
		w.lastRun++
		plan := compaction.Plan{Hi: 5, Bottom: true}
		out, err := w.s.Compact(ctx, &w.b, v, plan, ret, w.lastRun)
		ok(t, err)
		moved := 0
		for _, m := range out.Run.Files {
			if m.Num <= 5 {
				moved++
			}
		}
		if moved != want {
			t.Errorf("%d ms later %d files are moved, want %d", late, moved, want)
		}
		ok(t, stripe.Discard(out))
	}
}

// However long keys rise, a run has few small files, and items are seldom written again.
func TestRisingKeysMakeFewFiles(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	var flushed, written int64
	rnd := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 2000)
	for i := range max(20, testutil.Effort(100, 300)) {
		for j := range 40 {
			for k := range value {
				value[k] = byte(rnd.Uint32())
			}
			w.commit(put(fmt.Sprintf("k%06d", 40*i+j), string(value)))
		}
		w.flush()
		var infos []compaction.RunInfo
		v := w.s.View()
		for _, r := range v.Runs {
			infos = append(infos, r.Info)
		}
		flushed += v.Runs[0].Bytes()
		if p, found := compaction.Pick(infos, compaction.Options{}, nowMs, w.seq); found {
			out, err := w.startCompaction(p.Lo, p.Hi)
			ok(t, err)
			written += out.BytesWritten
			ok(t, w.install(out))
		}
		for _, r := range w.s.View().Runs {
			if len(r.Files) > 35 {
				t.Fatalf("a run has %d files after %d flushes\n%s", len(r.Files), i+1, w.shape())
			}
		}
	}
	if written > 2*flushed || written == 0 {
		t.Errorf("merges write %d bytes of %d", written, flushed)
	}
	t.Logf("merges write %.2f of what flushes do", float64(written)/float64(flushed))
}
