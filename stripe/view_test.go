package stripe_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"weak"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// fill commits n keys of the form k0000 and flushes them as one run.
func (w *world) fill(n int, value string) {
	w.t.Helper()
	for i := range n {
		w.commit(put(fmt.Sprintf("k%04d", i), value))
	}
	w.flush()
}

func TestFilesGoWithTheLastCursor(t *testing.T) {
	fsys := vfs.NewMem()
	w := newWorld(t, fsys)
	w.fill(10, "one")
	w.fill(10, "two")
	old := viewFiles(w.s.View())
	snap := w.snapshot()
	var cursors [3]stepper
	for i := range cursors {
		ok(t, cursors[i].Open(w.s, bounds("", "", snap, i == 1)))
	}
	w.compact(0, 2)
	for i := range cursors {
		w.checkFiles(old...)
		if len(w.gone) > 0 {
			t.Fatalf("%d of 3 cursors open, but %v is gone", 3-i, w.gone)
		}
		rows, err := rest(&cursors[i])
		ok(t, err)
		if want := w.model.rows("", "", snap, i == 1); !slices.Equal(rows, want) {
			t.Fatalf("cursor %d shows %q, want %q", i, rows, want)
		}
		cursors[i].Close()
	}
	slices.Sort(w.gone)
	if !slices.Equal(w.gone, old) {
		t.Fatalf("the last cursor is closed; gone is %v, want each of %v once", w.gone, old)
	}
	w.checkFiles()
	w.s.Close()
	if n := fsys.OpenFiles(); n != 0 {
		t.Fatalf("%d files are open after Close", n)
	}
}

func TestACursorHoldsOneView(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.fill(5, "v")
	var c stepper
	for range 3 {
		ok(t, c.Open(w.s, bounds("", "", w.seq, false)))
		c.Next()
		c.Close()
		c.Close()
	}
	w.fill(5, "w")
	w.compact(0, 2)
	if len(w.gone) != 2 {
		t.Fatalf("gone is %v: a closed cursor still holds files, or released them twice", w.gone)
	}
	w.checkAll()
}

func TestCloseOfTheStripe(t *testing.T) {
	fsys := vfs.NewMem()
	w := newWorld(t, fsys)
	w.fill(10, "v")
	w.commit(put("k0003", "in memory"))
	var c stepper
	ok(t, c.Open(w.s, bounds("", "", w.seq, false)))
	w.freeze()
	out, err := w.startFlush()
	ok(t, err)
	w.s.Close()
	w.s.Close()

	rows, err := rest(&c)
	ok(t, err)
	if want := w.model.rows("", "", w.seq, false); !slices.Equal(rows, want) {
		t.Fatalf("cursor on a closed stripe shows %q, want %q", rows, want)
	}
	ok(t, out.Sync())
	w.s.Install(out)
	c.Close()
	if n := fsys.OpenFiles(); n != 0 {
		t.Fatalf("%d files are open", n)
	}
	if len(w.gone) > 0 {
		t.Fatalf("closing deleted %v", w.gone)
	}
	_, getErr := w.get("k0001", w.seq)
	_, changedErr := w.s.ChangedSince([]byte("k"), 0, 0)
	_, _, changedInErr := w.s.ChangedIn(nil, nil, 0)
	for what, err := range map[string]error{
		"Get": getErr, "Open": c.Open(w.s, stripe.Bounds{}), "ChangedSince": changedErr,
		"ChangedIn": changedInErr,
	} {
		if !errors.Is(err, stripe.ErrClosed) {
			t.Errorf("%s of a closed stripe: %v, want ErrClosed", what, err)
		}
	}
	if o, err := w.startFlush(); o != nil || err != nil || w.freeze() || w.s.View() != nil {
		t.Errorf("a closed stripe takes work: %v %v", o, err)
	}
	c.Close()
}

// The counter of memory is the sum of the memtables at any time, exactly: what a flush
// frees is what was counted before, although freezing makes a table smaller.
//
// Promise (manners): The memory of the write buffers is counted exactly. Also `TestBytes` in
// `memtable`.
func TestMemoryIsCountedExactly(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	check := func(when string) {
		t.Helper()
		if got, want := w.env.Memory.Load(), w.s.View().MemtableBytes(); got != want {
			t.Fatalf("%s: %d bytes counted, memtables have %d", when, got, want)
		}
	}
	empty := w.env.Memory.Load()
	for round := range 3 {
		check("at first")
		for i := range 5000 {
			w.commit(put(fmt.Sprintf("k%04d", i), fmt.Sprint(round, i)))
		}
		w.commit(delRange("k0010", "k0020"))
		check("after writing")
		w.freeze()
		check("after freezing")
		out, err := w.startFlush()
		ok(t, err)
		w.commit(put("k0001", "later"))
		w.freeze()
		check("during a flush")
		ok(t, w.install(out))
		check("after a flush")
		w.flush()
	}
	if got := w.env.Memory.Load(); got != 0 || empty != 0 {
		t.Fatalf("%d bytes are counted when everything is flushed, %d before", got, empty)
	}
}

// What has been flushed is not kept in memory by the stripe, not even until the next
// freeze.
func TestFlushedMemtablesAreGarbage(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	for _, later := range []bool{false, true} {
		w.commit(put("k", "v"))
		w.freeze()
		table := weak.Make(w.s.View().Frozen[0])
		out, err := w.startFlush()
		ok(t, err)
		if later {
			w.commit(put("l", "v"))
			w.freeze()
		}
		ok(t, w.install(out))
		out = nil
		runtime.GC()
		if table.Value() != nil {
			t.Errorf("another table frozen %v: a flushed memtable is still there", later)
		}
		w.checkAll()
	}
}

// interrupted is a world on a file system that calls at before every operation.
type interrupted struct {
	*world
	mu sync.Mutex
	at func(vfstest.Op) error // guarded by mu
}

func newInterrupted(t *testing.T) *interrupted {
	i := &interrupted{}
	i.world = newWorld(t, vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		i.mu.Lock()
		at := i.at
		i.mu.Unlock()
		if at == nil {
			return nil
		}
		return at(op)
	}))
	return i
}

func (i *interrupted) set(at func(vfstest.Op) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.at = at
}

// Reads without a reference on the view: a merge is installed before their first,
// second, ... access to a file, and closes and deletes what they look at.
//
// Promise (reads and writes): Reads go on while files are merged away. Also
// `TestConcurrentReadersAndMaintenance` in `stripe`.
func TestReadsSurviveAMergeInTheMiddle(t *testing.T) {
	reads := map[string]func(w *world) (string, error){
		"Get": func(w *world) (string, error) { return w.get("k0002", w.seq) },
		"Batch": func(w *world) (string, error) {
			var b stripe.Batch
			ls := make([]base.Lookup, 2)
			for i, key := range []string{"k0002", "in memory"} {
				ls[i] = base.Lookup{Key: []byte(key), Hash: hashOf([]byte(key)), Index: uint32(i)}
			}
			b.Add(w.s, 0, 2)
			err := b.Get(ls, w.seq)
			return fmt.Sprintf("%s %s %d", ls[0].Value, ls[1].Value, b.MemtableHits), err
		},
		"ChangedSince": func(w *world) (string, error) {
			w.s.Lock()
			defer w.s.Unlock()
			seq, err := w.s.ChangedSince([]byte("k0002"), hashOf([]byte("k0002")), 0)
			return fmt.Sprint(seq), err
		},
		"ChangedIn": func(w *world) (string, error) {
			w.s.Lock()
			defer w.s.Unlock()
			_, seq, err := w.s.ChangedIn([]byte("k0002"), []byte("k0003"), 0)
			return fmt.Sprint(seq), err
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			reached := true
			for n := 0; reached; n++ {
				w := newInterrupted(t)
				w.env.Cache = cache.New(0)
				w.s.Init(stripeID, &w.env, nil)
				w.fill(100, "one")
				w.commit(delRange("k0050", "k0060"))
				w.fill(5, "two")
				w.commit(put("in memory", "three"))
				want, err := read(w.world)
				ok(t, err)
				out, err := w.startCompaction(0, 2)
				ok(t, err)
				reached = false
				count := 0
				w.set(func(op vfstest.Op) error {
					if count++; count == n+1 {
						w.set(nil)
						reached = true
						return w.install(out)
					}
					return nil
				})
				got, err := read(w.world)
				w.set(nil)
				if err != nil || got != want {
					t.Fatalf("merge installed before access %d: %q, %v, want %q", n, got, err, want)
				}
				if !reached && n < 2 {
					t.Fatalf("only %d accesses: the test reads from memory", n)
				}
			}
		})
	}
}

func TestErrorsOfTheCurrentViewAreReturned(t *testing.T) {
	w := newInterrupted(t)
	w.fill(100, "one")
	w.reopen()
	broken := errors.New("broken disk")
	w.set(func(op vfstest.Op) error { return broken })
	if _, err := w.get("k0001", w.seq); !errors.Is(err, broken) {
		t.Errorf("Get: %v, want the disk's error", err)
	}
	var c stepper
	ok(t, c.Open(w.s, bounds("", "", w.seq, false)))
	if c.Next() || !errors.Is(c.Err(), broken) || c.Next() {
		t.Errorf("Cursor: %v, want the disk's error", c.Err())
	}
	c.Close()
	w.set(nil)
	w.checkAll()
}

// Reads that pass over deleted rows make a flush due; not if these are in files, where a snapshot
// keeps them, are flushed by now, or are deleted by a transaction.
func TestLittered(t *testing.T) {
	for _, where := range []string{"active", "frozen", "file", "transaction"} {
		w := newWorld(t, vfs.NewMem())
		w.fill(2000, "one")
		w.snapshot()
		var own *memtable.Table
		if where == "transaction" {
			own = memtable.New(memtable.Options{Seed: seed})
		}
		for i := range 2000 {
			o := del(fmt.Sprintf("k%04d", i))
			if own == nil {
				w.commit(o)
				continue
			}
			e := o.entry(w.seq + 1)
			own.Put(e.Key, hashOf(e.Key), e.Seq, e.Kind, 0, nil, 0)
		}
		switch where {
		case "frozen":
			w.freeze()
		case "file":
			w.flush()
		}
		w.commit(del("k0000"))
		for range 200 {
			rows, err := w.scan(bounds("", "", w.seq, false), own)
			if ok(t, err); len(rows) > 0 {
				t.Fatalf("deleted: %q", rows)
			}
		}
		if due := w.s.Littered(w.s.View()); due != (where == "active") {
			t.Errorf("deletions in %s: a flush is due: %t", where, due)
		}
	}
}

// A file that was deleted may be recycled at once: what Get reads is then another
// file's bytes, which the checksum reports.
func TestGetOnARecycledFile(t *testing.T) {
	w := newInterrupted(t)
	w.env.Cache = cache.New(0)
	w.s.Init(stripeID, &w.env, nil)
	w.fill(100, "one")
	w.fill(5, "two")
	out, err := w.startCompaction(0, 2)
	ok(t, err)
	w.set(func(op vfstest.Op) error {
		w.set(nil)
		ok(t, w.install(out))
		return corrupt.New(op.Name, op.Offset, "data block", "its checksum", "another")
	})
	w.checkGets(w.seq)
	if len(w.gone) != 2 {
		t.Fatalf("gone is %v: the merge was not installed", w.gone)
	}
}

// Versions of a file that a checkpoint or verify holds by its view stay readable.
func TestAcquiredViewKeepsItsFiles(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.fill(10, "one")
	w.fill(10, "two")
	v := w.s.Acquire()
	w.compact(0, 2)
	for _, r := range v.Runs {
		for _, f := range r.Files {
			ok(t, f.Reader.Verify(ctx))
		}
	}
	v.Release()
	if len(w.gone) != 2 {
		t.Fatalf("gone is %v", w.gone)
	}
	if _, _, err := w.s.ChangedIn(nil, nil, base.MaxSeqNum); err != nil {
		t.Fatal(err)
	}
}

// A closed cursor and a group of lookups that has its answers keep nothing that they have read.
func TestWhatWasReadIsGarbage(t *testing.T) {
	for _, spans := range []stripe.Spans{nil, spanList{{"k0001", "k0003"}, {"k0005", "z"}}} {
		w := newWorld(t, vfs.NewMem())
		w.fill(50, "one")
		w.fill(50, "two")
		w.commit(put("k0002", "v"))
		w.commit(delRange("k0010", "k0020"))
		w.freeze()
		v := w.s.View()
		table, run := weak.Make(v.Frozen[0]), weak.Make(v.Runs[0])
		v = nil
		cursors := make([]stepper, 3)
		for i := range cursors {
			b := bounds("k0001", "z", w.seq, false)
			b.Spans = spans
			ok(t, cursors[i].Open(w.s, b))
			for range i * 20 {
				cursors[i].Next()
			}
			cursors[i].Close()
			cursors[i].rows = nil
		}
		var b stripe.Batch
		key := []byte("k0001")
		b.Add(w.s, 0, 1)
		ok(t, b.Get([]base.Lookup{{Key: key, Hash: hashOf(key)}}, w.seq))
		w.flush()
		w.compact(0, 3)
		runtime.GC()
		if table.Value() != nil {
			t.Errorf("spans %v: a flushed memtable is still there", spans)
		}
		if run.Value() != nil {
			t.Errorf("spans %v: a run that was merged is still there", spans)
		}
		runtime.KeepAlive(cursors)
		runtime.KeepAlive(&b)
		w.s.Close()
	}
}

// TestFollowedStripesGo: the files that a later state still has do not keep the stripe of the state
// that they came with.
func TestFollowedStripesGo(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.commit(put("a", "1"))
	w.flush()
	next := new(stripe.Stripe)
	next.Follow(w.s, w.runs, w.seq)
	old := weak.Make(w.s)
	w.s.Close()
	w.s = next
	if runtime.GC(); old.Value() != nil {
		t.Error("the stripe is in memory")
	}
	if got, err := w.get("a", w.seq); err != nil || got == "" {
		t.Errorf("a: %q, %v", got, err)
	}
	w.s.Close()
}
