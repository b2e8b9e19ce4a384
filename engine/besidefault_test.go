package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// besidePair is a file system with a database that has a writer, and one that shows the same to
// readers and calls a hook before each of their operations.
type besidePair struct {
	t      *testing.T
	mem    vfs.FS
	writer *engine.DB
	n      int
}

func newBesidePair(t *testing.T, fsys vfs.FS, o engine.Options) *besidePair {
	o.Compression = engine.NoCompression
	p := &besidePair{t: t, mem: fsys, writer: openOn(t, fsys, o)}
	t.Cleanup(func() { _ = p.writer.Close() })
	return p
}

// put commits n items, each of them synced.
func (p *besidePair) put(n int) {
	p.t.Helper()
	for range n {
		p.n++
		key := pksk(fmt.Sprint(p.n%4), fmt.Sprintf("%04d", p.n%200))
		ok(p.t, p.writer.Put(key, fmt.Appendf(nil, "%0500d", p.n)))
	}
}

func (p *besidePair) compact() {
	p.t.Helper()
	ok(p.t, p.writer.Compact(ctx))
}

// reader opens a reader whose operations are shown to hook, and reads everything. Open must not
// have to try again.
func (p *besidePair) reader(hook func(vfstest.Op)) (*engine.DB, error) {
	var leases atomic.Int64
	fsys := vfstest.NewFault(p.mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpenReadWrite && filepath.Base(op.Name) == "READERS" {
			if leases.Add(1) > 1 {
				p.t.Error("Open was tried again")
			}
		}
		hook(op)
		return nil
	})
	db, err := engine.OpenFS(fsys, "db", &engine.Options{ReadOnly: true, CacheBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	return db, scanAll(db)
}

func scanAll(r engine.Reader) error {
	for _, err := range r.Scan(context.Background(), engine.Scan{Unordered: true}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// A reader publishes its lease before it loads the manifest: whatever the writer replaces from
// then on, at any operation of Open, stays until the reader has read it.
//
// Promise (readers): Files of the state that a reader loads stay from before it is loaded, at
// whichever moment the writer merges and flushes.
func TestLeaseBeforeTheState(t *testing.T) {
	for at := 0; ; at++ {
		p := newBesidePair(t, vfs.NewMem(), engine.Options{LogBytes: 8 << 20})
		p.put(100)
		p.compact()
		p.put(20)
		ok(t, p.writer.Flush(ctx))
		p.put(5)
		var ops atomic.Int64
		db, err := p.reader(func(op vfstest.Op) {
			if ops.Add(1) == int64(at+1) {
				p.put(20)
				p.compact()
				p.put(20)
				p.compact() // files that were replaced are reused
			}
		})
		if err != nil {
			t.Fatalf("the writer merges at operation %d of a reader: %v", at, err)
		}
		mustClose(t, db)
		mustClose(t, p.writer)
		if ops.Load() <= int64(at) {
			return
		}
		at += 4 / testutil.Effort(1, 5)
	}
}

// Records that are appended while Open reads the log are no damage: it finds them beyond what it
// takes for the end.
//
// Promise (readers): What a writer appends while a reader reads the log is no damage.
func TestLogGrowsWhileItIsRead(t *testing.T) {
	for at := 1; ; at++ {
		p := newBesidePair(t, vfs.NewMem(), engine.Options{})
		p.put(30)
		var reads atomic.Int64
		db, err := p.reader(func(op vfstest.Op) {
			if op.Kind == vfstest.OpReadAt && strings.Contains(op.Name, "wal-") &&
				reads.Add(1) == int64(at) {
				p.put(3)
			}
		})
		if err != nil {
			t.Fatalf("the writer appends before read %d of the log: %v", at, err)
		}
		mustClose(t, db)
		mustClose(t, p.writer)
		if reads.Load() < int64(at) {
			return
		}
	}
}

// Beyond the limits the writer lets go of what readers need. A read that comes too late says so,
// and the next one works.
//
// Promise (readers): Beyond ReaderBytes or ReaderAge, and on a full disk, a reader gets ErrStale
// and no wrong value; its next read finds the present.
func TestStaleReaders(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"bytes": {ReaderBytes: 1}, "age": {ReaderAge: time.Nanosecond},
	} {
		p := newBesidePair(t, vfs.NewMem(), o)
		p.put(300)
		p.compact()
		db, err := p.reader(func(vfstest.Op) {})
		ok(t, err)
		mustClose(t, db)
		db = openOn(t, p.mem, engine.Options{ReadOnly: true, CacheBytes: 1 << 20})
		s := snapshotOf(t, db)
		p.put(100)
		p.compact()
		err = scanAll(s)
		if !errors.Is(err, engine.ErrStale) || errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%s: a snapshot whose files are gone: %v", name, err)
		}
		ok(t, s.Close())
		ok(t, db.Refresh())
		if err := scanAll(db); err != nil {
			t.Errorf("%s: the next read: %v", name, err)
		}
		if got, want := db.Metrics().LastVersion, p.writer.Metrics().LastVersion; got != want {
			t.Errorf("%s: version %d, want %d", name, got, want)
		}
		mustClose(t, db)
	}
}

// Each operation of a refresh that begins again fails once: what that one has read of the log is
// read again by the next. What fails until then keeps the reader from following by itself.
//
// Promise (readers): A refresh that fails loses nothing: the next one shows every commit.
func TestRefreshFailsWithItsOperations(t *testing.T) {
	testutil.SlowUnderRace(t, "writes 12 MiB for each operation that fails")
	for at, more := int64(1), true; more; at++ {
		p := newBesidePair(t, vfs.NewMem(), engine.Options{ReaderBytes: 1, LogBytes: 8 << 20})
		p.put(30)
		// A sync that fails is not tried again: what is not said to be durable is not shown.
		plan := &vfstest.FailPlan{At: at, Err: errDisk, Match: func(op vfstest.Op) bool {
			return op.Kind != vfstest.OpSync && op.Kind != vfstest.OpOpenReadWrite
		}}
		var hook atomic.Pointer[func(vfstest.Op) error]
		set := func(f func(vfstest.Op) error) { hook.Store(&f) }
		set(func(vfstest.Op) error { return nil })
		db := openOn(t, vfstest.NewFault(p.mem, func(op vfstest.Op) error {
			return (*hook.Load())(op)
		}), engine.Options{ReadOnly: true})
		set(func(vfstest.Op) error { return errDisk })
		for range 12 { // the log goes on, and lets go of what the reader is at
			ok(t, p.writer.Put(pk("large"), make([]byte, 1<<20)))
			p.put(3)
		}
		p.compact()
		p.put(30)
		set(plan.Hook)
		_ = db.Refresh()
		set(func(vfstest.Op) error { return nil })
		p.put(5)
		ok(t, db.Refresh())
		var op vfstest.Op
		op, more = plan.Failed()
		got, want := itemsOf(t, db), itemsOf(t, p.writer)
		if !maps.EqualFunc(got, want, sameItem) {
			t.Fatalf("operation %d, %v %s: %d items, or others, instead of %d", at, op.Kind,
				op.Name, len(got), len(want))
		}
		mustClose(t, db)
		mustClose(t, p.writer)
	}
}

// A leased file stays, and goes when its reader has gone on.
func TestLeasedFilesGo(t *testing.T) {
	mem := vfs.NewMem()
	p := newBesidePair(t, mem, engine.Options{})
	p.put(300)
	p.compact()
	db, err := engine.OpenFS(mem, "db", &engine.Options{ReadOnly: true})
	ok(t, err)
	s := snapshotOf(t, db)
	before := sstFiles(t, mem, "")
	p.put(300)
	p.compact()
	there := map[string]bool{}
	for _, f := range sstFiles(t, mem, "") {
		there[filepath.Base(f)] = true
	}
	for _, f := range before {
		if !there[filepath.Base(f)] {
			t.Fatalf("%s went while a snapshot reads it", f)
		}
	}
	ok(t, scanAll(s))
	ok(t, s.Close())
	ok(t, db.Refresh())
	ok(t, db.Refresh()) // the lease moves on after the last reader of the state has ended
	p.put(1)
	ok(t, p.writer.Flush(ctx))
	mustClose(t, p.writer)
	if n, live := len(sstFiles(t, mem, "")), db.Metrics().Total.Files; n > live+1 {
		t.Errorf("%d SSTs, %d of them in use", n, live)
	}
	mustClose(t, db)
}

// A writer that comes to rest removes what waits for reuse, and what a lease needs when that ends.
//
// Promise (readers): A writer at rest removes nothing that a reader needs.
func TestLeasedFilesStayAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBesidePair(t, vfs.NewMem(), engine.Options{})
		p.put(300)
		p.compact()
		db := openOn(t, p.mem, engine.Options{ReadOnly: true, CacheBytes: 1 << 20})
		s := snapshotOf(t, db)
		p.put(300)
		p.compact()
		time.Sleep(5 * time.Minute)
		if err := scanAll(s); err != nil {
			t.Errorf("a snapshot beside a writer at rest: %v", err)
		}
		ok(t, s.Close())
		mustClose(t, db)
		time.Sleep(5 * time.Minute)
		if n, live := len(sstFiles(t, p.mem, "")), p.writer.Metrics().Total.Files; n != live {
			t.Errorf("%d SSTs, %d of them in use", n, live)
		}
		mustClose(t, p.writer)
	})
}

// Log that a lease needs goes when that is too old or has ended, also if nothing is flushed.
//
// Promise (readers): Log is kept for a reader for ReaderAge at most, and not after its end, also by
// a writer at rest.
func TestLeasedLogGoesAtRest(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"age": {ReaderAge: 10 * time.Minute}, "end": {},
		"end, with versions of the past": {RetainVersions: time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			o.LogBytes = 8 << 20
			mem := vfs.NewMem()
			p := newBesidePair(t, mem, o)
			p.put(30)
			stopped, db := stuckReader(t, mem, p, 20)
			time.Sleep(5 * time.Minute)
			if kept := p.writer.Metrics().RetainedBytes; kept < 10<<20 {
				t.Errorf("%s: %d bytes of log are kept for the reader", name, kept)
			}
			stopped.Store(name == "age")
			if name != "age" {
				mustClose(t, db)
			}
			time.Sleep(7 * time.Minute)
			if kept := p.writer.Metrics().RetainedBytes; kept > 0 {
				t.Errorf("%s: %d bytes of log are kept for no reader", name, kept)
			}
			if stopped.Swap(false) {
				mustClose(t, db)
			}
			mustClose(t, p.writer)
		})
	}
}

// stuckReader opens a reader whose operations fail while stopped is set, as it is: the reader and
// its lease stay where they are, while the writer writes so many MiB and merges.
func stuckReader(t *testing.T, mem vfs.FS, p *besidePair, size int) (stopped *atomic.Bool,
	db *engine.DB) {
	t.Helper()
	stopped = new(atomic.Bool)
	db = openOn(t, vfstest.NewFault(mem, func(vfstest.Op) error {
		if stopped.Load() {
			return errDisk
		}
		return nil
	}), engine.Options{ReadOnly: true})
	stopped.Store(true)
	for range size {
		ok(t, p.writer.Put(pk("large"), make([]byte, 1<<20)))
	}
	p.compact()
	return stopped, db
}

// Log that a lease needs goes on a full disk, as files do.
//
// Promise (readers): On a full disk log is not kept for readers.
func TestLeasedLogGoesOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	p := newBesidePair(t, mem, engine.Options{LogBytes: 8 << 20})
	p.put(30)
	stopped, db := stuckReader(t, mem, p, 40)
	before := p.writer.Metrics().RetainedBytes
	if before < 20<<20 {
		t.Fatalf("%d bytes of log are kept for the reader", before)
	}
	mem.SetCapacity(mem.UsedBytes())
	eventually(t, "log is given up", func() bool {
		_ = p.writer.Put(pk("large"), make([]byte, 1<<20))
		return p.writer.Metrics().RetainedBytes < before/2
	})
	mem.SetCapacity(0)
	stopped.Store(false)
	mustClose(t, db)
}

// What a reader shows survives a power cut, whatever the level of the writer.
//
// Promise (readers): What a reader sees of another process survives a power cut, unless it asks for
// what is visible.
func TestReadersSeeWhatSurvives(t *testing.T) {
	random := testutil.Rand(t)
	for range testutil.Effort(20, 2000) {
		disk := vfstest.NewCrash()
		p := newBesidePair(t, disk, engine.Options{Durability: engine.Process})
		p.put(1 + random.IntN(20))
		db := openOn(t, disk, engine.Options{ReadOnly: true})
		p.put(random.IntN(20))
		if random.IntN(2) == 0 {
			ok(t, db.Refresh())
		}
		seen := db.Metrics().LastVersion
		after := disk.PowerCut(random, 0)
		mustClose(t, db)
		w := openOn(t, after, engine.Options{})
		if got := w.Metrics().LastVersion; got < seen {
			t.Fatalf("a reader has seen version %d, a power cut left %d", seen, got)
		}
		mustClose(t, w)
	}
}

// What a reader cannot make durable it does not show, but with Visible. A sync that has failed is
// not tried again, as it may succeed for nothing: what the writer syncs is shown.
func TestReadersShowNothingUnsynced(t *testing.T) {
	mem := vfs.NewMem()
	p := newBesidePair(t, mem, engine.Options{Durability: engine.Process})
	p.put(10)
	ok(t, p.writer.Sync(ctx))
	var broken atomic.Bool
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".log") && broken.Load() {
			return errors.New("not synced")
		}
		return nil
	})
	for _, visible := range []bool{false, true} {
		broken.Store(true)
		db := openOn(t, fsys, engine.Options{ReadOnly: true, Visible: visible})
		before := db.Metrics().LastVersion
		p.put(5)
		ok(t, db.Refresh())
		after := db.Metrics().LastVersion
		broken.Store(false)
		ok(t, db.Refresh())
		again := db.Metrics().LastVersion
		if !visible && (before > 10 || after != 10 || again != 10) ||
			visible && (before != 15 || after != 20) {
			t.Errorf("visible %v: versions %d, then %d, %d", visible, before, after, again)
		}
		ok(t, p.writer.Sync(ctx))
		ok(t, db.Refresh())
		synced, written := db.Metrics().LastVersion, p.writer.Metrics().LastVersion
		if synced != written {
			t.Errorf("visible %v: version %d of %d", visible, synced, written)
		}
		mustClose(t, db)
	}
}

// A reader beside a writer that syncs each commit does not sync, although the last commit that it
// has read is never known to be durable.
//
// Promise (readers): Readers sync what nobody else syncs, and nothing else: a writer does not wait
// for their syncs.
func TestReadersDoNotSyncForAWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		w := openOn(t, mem, engine.Options{Durability: engine.Sync})
		ok(t, w.Put(pk("a"), nil))
		var syncs atomic.Int64
		r := openOn(t, vfstest.NewFault(mem, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpSync {
				syncs.Add(1)
			}
			return nil
		}), engine.Options{ReadOnly: true})
		for i := range 200 {
			time.Sleep(10 * time.Millisecond)
			ok(t, w.Put(pk(fmt.Sprint(i)), nil))
		}
		if n := syncs.Load(); n > 2 {
			t.Errorf("%d syncs beside a writer that syncs", n)
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := r.Get(pk("199")); err != nil {
			t.Errorf("the last commit: %v", err)
		}
		mustClose(t, r)
		mustClose(t, w)
	})
}

// A database is copied beside its writer, whatever that flushes and merges meanwhile.
//
// Promise (readers): A checkpoint of a database that another process writes is a database with one
// state of it. Also `TestReadersBesideTheWriter`.
func TestCheckpointBesideTheWriter(t *testing.T) {
	for at := range 40 {
		p := newBesidePair(t, vfs.NewMem(), engine.Options{})
		p.put(50)
		p.compact()
		p.put(10)
		var ops atomic.Int64
		var begun atomic.Bool
		db, err := p.reader(func(op vfstest.Op) {
			if begun.Load() && ops.Add(1) == int64(at+1) {
				p.put(10)
				p.compact()
				p.put(10)
			}
		})
		ok(t, err)
		begun.Store(true)
		if err := db.Checkpoint(ctx, "copy", nil); err != nil {
			t.Fatalf("the writer merges at operation %d: %v", at, err)
		}
		begun.Store(false)
		c, err := engine.OpenFS(p.mem, "copy", nil)
		ok(t, err)
		ok(t, second(c.Verify(ctx, nil)))
		if v := c.Metrics().LastVersion; v != 60 && v != 70 && v != 80 {
			t.Errorf("the copy has version %d", v)
		}
		ok(t, scanAll(c))
		mustClose(t, c)
		mustClose(t, db)
		mustClose(t, p.writer)
		if ops.Load() <= int64(at) {
			break
		}
	}
}

// A copy without links has each file as it was: the writing process, which keeps nothing for
// readers here, may give a file another name and content while it is copied.
//
// Promise (readers): What is copied beside the writing process is what was there, or an ErrStale.
func TestCopiesBesideTheWriter(t *testing.T) {
	stale := 0
	all := testutil.Effort(1, 4) > 1 // operations
	for at, more := int64(1), true; more; at++ {
		p := newBesidePair(t, vfs.NewMem(), engine.Options{ReaderBytes: 1})
		p.put(200)
		p.compact()
		p.put(10)
		var ops atomic.Int64
		var begun atomic.Bool
		db, err := engine.OpenFS(vfstest.NewFault(p.mem, func(op vfstest.Op) error {
			if begun.Load() && (all || op.Kind == vfstest.OpReadAt) && ops.Add(1) == at {
				for range 3 { // what is replaced is used again
					p.put(200)
					p.compact()
				}
			}
			if op.Kind == vfstest.OpLink {
				return errors.ErrUnsupported
			}
			return nil
		}), "db", &engine.Options{ReadOnly: true})
		ok(t, err)
		begun.Store(true)
		err = db.Checkpoint(ctx, "copy", nil)
		begun.Store(false)
		if errors.Is(err, engine.ErrStale) {
			stale++
		} else if err != nil {
			t.Fatalf("the writer goes on at operation %d: %v", at, err)
		} else {
			c, err := engine.OpenFS(p.mem, "copy", nil)
			if err != nil {
				t.Fatalf("the writer goes on at operation %d: the copy: %v", at, err)
			}
			if err := cmp.Or(second(c.Verify(ctx, nil)), scanAll(c)); err != nil {
				t.Fatalf("the writer goes on at operation %d: the copy: %v", at, err)
			}
			mustClose(t, c)
		}
		mustClose(t, db)
		mustClose(t, p.writer)
		more = ops.Load() >= at
	}
	if stale == 0 {
		t.Error("no file went while it was copied")
	}
}

// A reader shows what was there at one commit, also while it loads the database again because the
// log has gone on without it.
func TestReadersLoadAgainAtOnce(t *testing.T) {
	p := newBesidePair(t, vfs.NewMem(), engine.Options{ReaderBytes: 1, LogBytes: 8 << 20})
	put := func(size int) { // the number of each commit
		v := fmt.Appendf(nil, "%0*d", size, p.writer.Metrics().LastVersion+1)
		ok(t, p.writer.Put(pk("n"), v))
	}
	put(10)
	var gone, done atomic.Bool
	db := openOn(t, vfstest.NewFault(p.mem, func(vfstest.Op) error {
		if gone.Load() {
			return errDisk
		}
		return nil
	}), engine.Options{ReadOnly: true})
	var reading sync.WaitGroup
	reading.Go(func() {
		for !done.Load() {
			s := snapshotOf(t, db)
			v, err := s.Get(pk("n"))
			got := string(bytes.TrimLeft(v, "0"))
			if err == nil && got != fmt.Sprint(s.Version()) { // what it needs may be gone
				t.Errorf("version %d shows commit %s", s.Version(), got)
			}
			ok(t, s.Close())
		}
	})
	for range testutil.Effort(2, 500) {
		gone.Store(true)
		for range 12 {
			put(1_000_000)
		}
		ok(t, p.writer.Flush(ctx))
		gone.Store(false)
		ok(t, db.Refresh())
	}
	done.Store(true)
	reading.Wait()
	mustClose(t, db)
}
