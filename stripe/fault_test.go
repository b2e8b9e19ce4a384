package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
)

// A flush and a merge fail at each of their operations on files in turn. Nothing they
// wrote is left over, everything stays readable, and the next attempt succeeds.
//
// Promise (durability): A failed flush or merge leaves no file and can be repeated; a write that
// fails is never taken for made. Also `TestAbortedWork`, `TestDiscardAfterSync` in `stripe`,
// `TestFailedWritesAreReported` in `sst`.
func TestFaultsOfFlushAndCompact(t *testing.T) {
	broken := errors.New("broken disk")
	work := map[string]func(w *world) error{
		"flush": func(w *world) error {
			w.freeze()
			out, err := w.startFlush()
			if err != nil || out == nil {
				return err
			}
			return w.install(out)
		},
		"compact": func(w *world) error {
			out, err := w.startCompaction(0, 2)
			if err != nil {
				return err
			}
			return w.install(out)
		},
	}
	for name, do := range work {
		t.Run(name, func(t *testing.T) {
			kinds := map[vfstest.OpKind]int{}
			for n, fired := 0, true; fired; n++ {
				w := newFaulty(t)
				fired = false
				count := 0
				var at vfstest.Op
				w.set(func(op vfstest.Op) error {
					if op.Kind == vfstest.OpRemove { // its files stay, as after a crash
						return nil
					}
					if count++; count != n+1 {
						return nil
					}
					fired, at = true, op
					kinds[op.Kind]++
					return broken
				})
				err := do(w.world)
				w.set(nil)
				// Closing a file that was only read cannot lose anything.
				if harmless := at.Kind == vfstest.OpClose && err == nil; harmless {
					w.checkAll()
					w.checkFiles()
					continue
				}
				if fired != errors.Is(err, broken) {
					t.Fatalf("fault at operation %d, %v: %v", n, at, err)
				}
				w.checkAll()
				w.checkFiles()
				if fired {
					ok(t, do(w.world))
					w.checkAll()
					w.checkFiles()
				}
			}
			want := []vfstest.OpKind{vfstest.OpCreate, vfstest.OpWrite, vfstest.OpTruncate,
				vfstest.OpSync, vfstest.OpClose}
			if name == "compact" {
				want = append(want, vfstest.OpOpen, vfstest.OpReadAt)
			}
			for _, k := range want {
				if kinds[k] == 0 {
					t.Errorf("no fault at any %v", k)
				}
			}
		})
	}
}

// newFaulty has two runs with range tombstones and a memtable; nothing is loaded.
func newFaulty(t *testing.T) *interrupted {
	w := newInterrupted(t)
	w.env.FileBytes = 2 << 10
	w.junk = make([]byte, 10<<10)
	w.fill(100, "one")
	w.commit(delRange("k0040", "k0050"))
	w.fill(100, "a second value, longer than the first")
	w.commit(delRange("k0020", "k0030"), put("k0025", "in memory"))
	w.reopenKeepingMemory()
	return w
}

// reopenKeepingMemory makes readers that have loaded nothing, and writes again what was
// only in memory.
func (w *world) reopenKeepingMemory() {
	m := w.s.View().Active
	m.Freeze()
	w.reopen()
	horizon := w.horizon()
	for _, t := range m.RangeTombstones(nil, w.seq) {
		w.s.DeleteRange(t)
	}
	for e := range cursor.All(m.NewSource()) {
		w.s.Put(e, hashOf(e.Key), horizon)
	}
}

func TestAbortedWork(t *testing.T) {
	stop := errors.New("stop")
	for name, prepare := range map[string]func(w *world) context.Context{
		"context": func(*world) context.Context {
			c, cancel := context.WithCancelCause(ctx)
			cancel(stop)
			return c
		},
		"pace": func(w *world) context.Context {
			w.b.Pace = func(context.Context, int64) error { return stop }
			return ctx
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vfs.NewMem())
			w.fill(50, "one")
			for i := range 50 {
				w.commit(put(fmt.Sprintf("k%04d", i), "two"))
			}
			w.freeze()
			c := prepare(w)
			w.lastRun++
			if _, err := w.s.Flush(c, &w.b, w.retention(), w.lastRun); !errors.Is(err, stop) {
				t.Fatalf("Flush: %v, want the reason to stop", err)
			}
			w.checkFiles()
			w.b.Pace = nil
			w.flush()
			w.checkAll()
			w.checkFiles()
		})
	}
}

// An output that was synced and is not installed, because the directory or the manifest failed,
// is discarded: its files are closed already and are removed.
func TestDiscardAfterSync(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.commit(put("k0001", "one"))
	w.freeze()
	out, err := w.startFlush()
	ok(t, err)
	ok(t, out.Sync())
	ok(t, stripe.Discard(out))
	w.checkFiles()
	if n := w.fs.(*vfs.MemFS).OpenFiles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	w.flush()
	w.checkAll()
}

// From each read of files that a group of lookups makes on all fail: the error is that of the read,
// and the same batch answers the same lookups afterwards.
func TestFaultsOfBatches(t *testing.T) {
	broken := errors.New("broken disk")
	for at := int64(1); ; at++ {
		w := newFaulty(t)
		w.freeze()
		p := &vfstest.FailPlan{At: at, Err: broken, Lasting: true}
		p.Match = func(op vfstest.Op) bool {
			return op.Kind == vfstest.OpReadAt || op.Kind == vfstest.OpOpen
		}
		var b stripe.Batch
		lookup := func() ([]base.Lookup, error) {
			var ls []base.Lookup
			for i := range 60 {
				key := fmt.Appendf(nil, "k%04d", i)
				ls = append(ls, base.Lookup{Key: key, Hash: hashOf(key), Index: uint32(i)})
			}
			b.Add(w.s, 0, 30)
			b.Add(w.s, 30, 60)
			return ls, b.Get(ls, w.seq)
		}
		w.set(p.Hook)
		_, err := lookup()
		w.set(nil)
		op, failed := p.Failed()
		if failed != errors.Is(err, broken) {
			t.Fatalf("operation %d, %v of %s: %v", at, op.Kind, op.Name, err)
		}
		ls, err := lookup()
		ok(t, err)
		for i := range ls {
			e, live := w.model.live(string(ls[i].Key), w.seq)
			if ls[i].Found != live || live && string(ls[i].Value) != string(e.Value) {
				t.Fatalf("operation %d: %s is %t %q, want %t %q", at, ls[i].Key, ls[i].Found,
					ls[i].Value, live, e.Value)
			}
		}
		if !failed {
			if at < 10 {
				t.Errorf("only %d reads", at-1)
			}
			return
		}
	}
}

// newLarge has a memtable whose range tombstones and entries are larger than what is written at
// a time, each.
func newLarge(t *testing.T) *interrupted {
	w := newInterrupted(t)
	w.env.UpperCodec = sst.None
	long := strings.Repeat("x", 1000)
	for i := range 500 {
		w.commit(delRange(fmt.Sprintf("k%04d", i), fmt.Sprintf("k%04d%s", i, long)))
		w.commit(put(fmt.Sprintf("l%04d", i), long))
	}
	w.freeze()
	return w
}

// Each operation of the flush of a large file fails in turn, and nothing is left of it.
func TestFaultsOfALargeFlush(t *testing.T) {
	broken := errors.New("broken disk")
	kinds := map[vfstest.OpKind]bool{}
	w := newLarge(t)
	for at := int64(1); ; at++ {
		p := &vfstest.FailPlan{At: at, Err: broken}
		w.set(p.Hook)
		out, err := w.startFlush()
		w.set(nil)
		op, failed := p.Failed()
		if kinds[op.Kind] = true; failed != errors.Is(err, broken) {
			t.Fatalf("operation %d, %v: %v", at, op.Kind, err)
		}
		if !failed {
			ok(t, w.install(out))
			w.checkFiles()
			break
		}
		w.checkFiles()
	}
	if !kinds[vfstest.OpWrite] || !kinds[vfstest.OpStartWriteback] {
		t.Errorf("only %v have failed", kinds)
	}
}

// What is written is paced, and its writeback started, in pieces of 256 KiB at least, without
// gaps.
func TestPaceOfALargeFlush(t *testing.T) {
	w := newLarge(t)
	var started, paced []int64
	at := int64(0)
	w.set(func(op vfstest.Op) error {
		if op.Kind == vfstest.OpStartWriteback {
			if op.Offset != at {
				t.Errorf("writeback from %d on, want %d", op.Offset, at)
			}
			at += op.Len
			started = append(started, op.Len)
		}
		return nil
	})
	w.b.Pace = func(_ context.Context, n int64) error {
		paced = append(paced, n)
		return nil
	}
	out, err := w.startFlush()
	ok(t, err)
	if !slices.Equal(started, paced) || at != out.BytesWritten || len(paced) != 3 {
		t.Errorf("%d bytes: writeback of %d, paced %d", out.BytesWritten, started, paced)
	}
	for _, n := range paced[:2] {
		if n < 256<<10 || n > 300<<10 {
			t.Errorf("a piece of %d bytes", n)
		}
	}
	ok(t, stripe.Discard(out))
}

// sizeless is a file whose size nobody knows.
type sizeless struct{ vfs.File }

var errSize = errors.New("size")

func (sizeless) Size() (int64, error) { return 0, errSize }

func TestUnknownSizeOfAnOutput(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.commit(put("k", "v"))
	w.freeze()
	create := w.env.Create
	w.env.Create = func(name string) (vfs.File, error) {
		f, err := create(name)
		return sizeless{f}, err
	}
	if _, err := w.startFlush(); !errors.Is(err, errSize) {
		t.Errorf("flush: %v", err)
	}
	w.checkFiles()
	w.env.Create = create
	w.flush()
	w.checkAll()
}

// What cannot be removed is an error of Discard, of each file.
func TestDiscardFails(t *testing.T) {
	for _, kind := range []vfstest.OpKind{vfstest.OpRemove, vfstest.OpClose} {
		w := newInterrupted(t)
		w.commit(put("k", "v"))
		w.freeze()
		out, err := w.startFlush()
		ok(t, err)
		w.set(func(op vfstest.Op) error {
			if op.Kind == kind {
				return errSize
			}
			return nil
		})
		err = stripe.Discard(out)
		w.set(nil)
		const what = "remove what was written: "
		if !errors.Is(err, errSize) || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("%v: %v", kind, err)
		}
		ok(t, stripe.Discard(out))
	}
}
