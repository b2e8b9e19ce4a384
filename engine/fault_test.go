package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

var errDisk = errors.New("disk is broken")

// breaker is a file system on which chosen operations fail while it is broken.
type breaker struct {
	broken atomic.Bool
	hits   atomic.Int64
	match  func(vfstest.Op) bool
	err    error
}

func (b *breaker) hook(op vfstest.Op) error {
	if b.broken.Load() && b.match(op) {
		b.hits.Add(1)
		return b.err
	}
	return nil
}

func onFile(part string, kinds ...vfstest.OpKind) func(vfstest.Op) bool {
	return func(op vfstest.Op) bool {
		for _, k := range kinds {
			if op.Kind == k && strings.Contains(op.Name, part) {
				return true
			}
		}
		return false
	}
}

// A write or a sync that fails is final: the database is read-only from then on, with
// the cause, and even if the disk recovers. Reads go on, Close works and frees the
// directory, and the next Open finds everything acknowledged.
//
// Promise (disks): A failed write or sync is final: read-only with the cause, no later success.
// Also `TestFailedBackgroundSyncIsNoticed`; `TestFailedSyncIsFinal`, `TestFailedWriteIsFinal`,
// `TestWriteFailsDuringSync`, `TestFailedDirectorySyncIsFinal` in `wal`.
func TestFailedWriteIsFinal(t *testing.T) {
	put := func(db *engine.DB) error { return db.Put(pk("new"), []byte("new")) }
	flush := func(db *engine.DB) error { return db.Flush(ctx) }
	compact := func(db *engine.DB) error { return db.Compact(ctx) }
	property := func(db *engine.DB) error { return db.SetProperty("p", []byte("v")) }
	for name, c := range map[string]struct {
		match func(vfstest.Op) bool
		call  func(*engine.DB) error
	}{
		"log write":         {onFile("wal-", vfstest.OpWriteAt), put},
		"log sync":          {onFile("wal-", vfstest.OpSync), put},
		"log sync in flush": {onFile("wal-", vfstest.OpSync), flush},
		"log sync in Sync": {onFile("wal-", vfstest.OpSync),
			func(db *engine.DB) error { return db.Sync(ctx) }},
		"SST create":             {onFile(".sst", vfstest.OpCreate), flush},
		"SST write":              {onFile(".sst", vfstest.OpWriteAt, vfstest.OpWrite), flush},
		"SST sync":               {onFile(".sst", vfstest.OpSync), flush},
		"directory sync":         {onFile("db", vfstest.OpSyncDir), flush},
		"manifest write":         {onFile("MANIFEST", vfstest.OpWriteAt), flush},
		"manifest sync":          {onFile("MANIFEST", vfstest.OpSync), flush},
		"SST write in merge":     {onFile(".sst", vfstest.OpWriteAt, vfstest.OpWrite), compact},
		"manifest sync in merge": {onFile("MANIFEST", vfstest.OpSync), compact},
		"property write":         {onFile("MANIFEST", vfstest.OpWriteAt), property},
		"property sync":          {onFile("MANIFEST", vfstest.OpSync), property},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, 2*time.Minute, name, func() { failFinally(t, c.match, c.call) })
		})
	}
}

func failFinally(t *testing.T, match func(vfstest.Op) bool, call func(*engine.DB) error) {
	mem := vfs.NewMem()
	b := &breaker{match: match, err: errDisk}
	events := make(chan error, 10)
	o := engine.Options{Events: &engine.Events{ReadOnly: func(err error) { events <- err }}}
	db := openOn(t, vfstest.NewFault(mem, b.hook), o)
	want := map[string]string{}
	put := func(k, v string) {
		ok(t, db.Put(pk(k), []byte(v), engine.Process))
		want[id(pk(k))] = v
	}
	put("a", "in a file")
	ok(t, db.Flush(ctx))
	put("a", "in two files")
	ok(t, db.Flush(ctx))
	put("b", "in memory")
	b.broken.Store(true)
	err := call(db)
	wantIs(t, err, engine.ErrReadOnly)
	wantIs(t, err, errDisk)
	b.broken.Store(false) // too late
	if cause := <-events; !errors.Is(cause, errDisk) {
		t.Errorf("event with %v", cause)
	}
	for _, again := range []error{
		call(db), db.Put(pk("c"), nil), db.Delete(pk("a")), db.Flush(ctx),
		db.Compact(ctx),
		db.SetProperty("x", nil), db.Sync(ctx), db.Checkpoint(ctx, "copy", nil),
		db.Update(ctx, func(*engine.Tx) error { return nil }),
	} {
		wantIs(t, again, engine.ErrReadOnly)
		wantIs(t, again, errDisk)
	}
	for k, v := range want {
		if got := content(t, db)[k]; got != v {
			t.Errorf("%q is %q after the failure", k, got)
		}
	}
	ok(t, second(db.Verify(ctx, nil)))
	if m := db.Metrics(); !errors.Is(m.ReadOnlyCause, errDisk) {
		t.Errorf("metrics tell %v", m.ReadOnlyCause)
	}
	if err := db.Close(); err != nil && !errors.Is(err, errDisk) {
		t.Errorf("Close: %v", err)
	}
	if len(events) > 0 {
		t.Error("the event fired twice")
	}
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
	db = openOn(t, mem, engine.Options{})
	got := content(t, db)
	delete(got, id(pk("new"))) // its outcome is unknown
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%q is %q after reopening", k, got[k])
		}
	}
	ok(t, second(db.Verify(ctx, nil)))
	ok(t, db.Put(pk("d"), nil))
	mustClose(t, db)
}

// A sync that no caller waits for fails, too: the database turns read-only at once rather
// than at the next write.
func TestFailedBackgroundSyncIsNoticed(t *testing.T) {
	b := &breaker{match: onFile("wal-", vfstest.OpSync), err: errDisk}
	noticed := make(chan struct{})
	db := openOn(t, vfstest.NewFault(vfs.NewMem(), b.hook), engine.Options{
		Durability: engine.Process, LogBytes: 8 << 20,
		Events: &engine.Events{ReadOnly: func(error) { close(noticed) }},
	})
	b.broken.Store(true)
	value := make([]byte, 100<<10)
	for i := range 15 { // past the end of a segment
		if err := db.Put(pk(fmt.Sprint(i)), value); err != nil {
			wantIs(t, err, engine.ErrReadOnly)
			break
		}
	}
	select {
	case <-noticed:
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was noticed")
	}
	_ = db.Close()
}

// Files that are not needed any more and cannot be removed are no reason to stop.
func TestFailedRemovalIsHarmless(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	b := &breaker{match: onFile("", vfstest.OpRemove, vfstest.OpRename), err: fs.ErrPermission}
	fsys := vfstest.NewFault(mem, b.hook)
	db := smallDisk(t, fsys)
	b.match = func(op vfstest.Op) bool {
		return op.Kind == vfstest.OpRemove || op.Kind == vfstest.OpRename &&
			strings.HasSuffix(op.NewName, ".sst")
	}
	b.broken.Store(true)
	value := make([]byte, 10<<10)
	for i := range 1500 {
		ok(t, db.Put(pk(fmt.Sprint(i%100)), value))
	}
	ok(t, db.Compact(ctx))
	if b.hits.Load() == 0 {
		t.Error("nothing was to be removed: the test is too small")
	}
	b.broken.Store(false)
	mustClose(t, db)
	db = smallDisk(t, fsys)
	if n := len(content(t, db)); n != 100 {
		t.Errorf("%d items", n)
	}
	live := 0
	for _, s := range db.Metrics().Stripes {
		live += s.Files
	}
	if n := len(sstFiles(t, mem, "")); n != live {
		t.Errorf("%d SSTs, %d of them in use: orphans were left", n, live)
	}
	mustClose(t, db)
}

// Too many open files in the process are no failure of the disk: what needed one more
// fails or waits, and works when there is one again.
func TestTooManyOpenFilesPass(t *testing.T) {
	b := &breaker{
		match: onFile("", vfstest.OpCreate, vfstest.OpOpen, vfstest.OpOpenReadWrite),
		err:   syscall.EMFILE,
	}
	db := openOn(t, vfstest.NewFault(vfs.NewMem(), b.hook), engine.Options{
		MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 2, Durability: engine.Process,
		Events: &engine.Events{ReadOnly: func(err error) { t.Errorf("read-only: %v", err) }},
	})
	n := 0
	put := func() error {
		err := db.Put(pk(fmt.Sprint(n)), make([]byte, 10<<10))
		if err == nil {
			n++
		}
		return err
	}
	for range 50 {
		ok(t, put())
	}
	b.broken.Store(true)
	wantIs(t, db.Flush(ctx), syscall.EMFILE)
	var err error
	for i := 0; i < 2000 && err == nil; i++ {
		err = put()
	}
	wantIs(t, err, syscall.EMFILE)
	wantValue(t, db, pk("7"), make([]byte, 10<<10))
	b.broken.Store(false)
	eventually(t, "writes", func() bool { return put() == nil })
	ok(t, db.Compact(ctx))
	if got := len(content(t, db)); got != n {
		t.Errorf("%d items, want %d", got, n)
	}
	mustClose(t, db)
}

// A context that ends in the middle of a call ends the call, never the database.
func TestCanceledCallsAreNoFailures(t *testing.T) {
	why := errors.New("changed my mind")
	for name, call := range map[string]func(*engine.DB, context.Context) error{
		"Flush":   (*engine.DB).Flush,
		"Compact": (*engine.DB).Compact,
		"Sync":    (*engine.DB).Sync,
		"Checkpoint": func(db *engine.DB, ctx context.Context) error {
			return db.Checkpoint(ctx, "copy", nil)
		},
		"Verify": func(db *engine.DB, ctx context.Context) error {
			return second(db.Verify(ctx, nil))
		},
	} {
		canceled, step := 0, int64(max(1, 9/testutil.Effort(1, 3)))
		for n := int64(1); n < 400; n += step {
			c, cancel := context.WithCancelCause(ctx)
			var count atomic.Int64
			var on atomic.Bool
			fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
				if on.Load() && count.Add(1) == n {
					cancel(why)
				}
				return nil
			})
			db := openOn(t, fsys, engine.Options{
				BlockBytes: 1 << 10, CacheBytes: 1, CompactionBytesPerSecond: 1 << 30,
				Events: &engine.Events{ReadOnly: func(err error) { t.Errorf("%s: %v", name, err) }},
			})
			for i := range 20 {
				ok(t, db.Put(pk(fmt.Sprint(i)), make([]byte, 1<<10),
					engine.Process))
				if i == 10 {
					ok(t, db.Flush(ctx))
				}
			}
			on.Store(true)
			err := call(db, c)
			on.Store(false)
			cancel(nil)
			if err != nil {
				wantIs(t, err, why)
				canceled++
			}
			ok(t, db.Put(pk("still"), []byte("alive")))
			if n := len(content(t, db)); n != 21 {
				t.Fatalf("%s: %d items", name, n)
			}
			mustClose(t, db)
			if count.Load() < n {
				break
			}
		}
		if canceled == 0 && name != "Sync" && name != "Flush" {
			t.Errorf("%s was never canceled in the middle", name)
		}
	}
}

// Deadlines behave like cancellations, in a merge that waits for its rate limit.
func TestDeadlineOfThrottledCompact(t *testing.T) {
	db := openMemory(t, engine.Options{
		CompactionBytesPerSecond: 1, Compression: engine.NoCompression,
	})
	for i := range 3 {
		ok(t, db.Put(pk("k"), make([]byte, 600<<10)))
		ok(t, db.Put(pk("l"), []byte{byte(i)}))
		ok(t, db.Flush(ctx))
	}
	c, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	wantIs(t, db.Compact(c), context.DeadlineExceeded)
	ok(t, db.Put(pk("k"), nil))
}

// stuckFlushes returns a file system on which the sync of an SST waits, while stuck is
// set, until release is closed.
func stuckFlushes() (fsys vfs.FS, stuck *atomic.Bool, release chan struct{}) {
	stuck, release = new(atomic.Bool), make(chan struct{})
	return vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".sst") && stuck.Load() {
			<-release
		}
		return nil
	}), stuck, release
}

// Writers that wait for flushes give up when their context does, all of them; the others
// go on when the disk does.
//
// Promise (manners): Writers that wait heed their context; so does `Sync`. Also
// `TestSyncHeedsItsContext`.
func TestWaitingWritersHeedTheirContext(t *testing.T) {
	fsys, stuck, release := stuckFlushes()
	var stalls atomic.Int64
	db := openOn(t, fsys, engine.Options{
		MemtableBytes: 1 << 20, Durability: engine.Process,
		Events: &engine.Events{Stalled: func(time.Duration) { stalls.Add(1) }},
	})
	stuck.Store(true)
	c, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var acked atomic.Int64
	for w := range 4 {
		wg.Go(func() {
			b := engine.NewBatch()
			for n := 0; ; n++ {
				b.Reset()
				ok(t, b.Put(pksk(fmt.Sprint(w), fmt.Sprint(n)), make([]byte, 10<<10)))
				if err := db.Apply(c, b); err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				acked.Add(1)
			}
		})
	}
	eventually(t, "writers that wait", func() bool {
		m := db.Metrics()
		return float64(m.MemtableBytes) >= 1.75*float64(m.MemtableBudget)
	})
	cancel()
	within(t, 2*time.Minute, "canceled writers", wg.Wait)
	if m := db.Metrics(); m.MemtableBytes > 2*m.MemtableBudget+1<<20 {
		t.Errorf("%d bytes of memtables with a budget of %d", m.MemtableBytes, m.MemtableBudget)
	}
	stuck.Store(false)
	close(release)
	within(t, 2*time.Minute, "the next writer", func() { ok(t, db.Put(pk("last"), nil)) })
	if n := int64(len(content(t, db))); n != acked.Load()+1 {
		t.Errorf("%d items, %d acknowledged", n, acked.Load())
	}
	if stalls.Load() == 0 || db.Metrics().Stalls == 0 {
		t.Error("no stall was reported")
	}
	mustClose(t, db)
}

// A TTL runs from the moment when the write has got room, not from the call: an item that
// waited longer than it is to live must still be there.
func TestTTLBeginsBehindTheWait(t *testing.T) {
	fsys, stuck, release := stuckFlushes()
	var nowMs atomic.Int64
	nowMs.Store(1_000_000)
	db := openOn(t, fsys, engine.Options{
		MemtableBytes: 1 << 20, Durability: engine.Process,
		Clock: func() time.Time { return time.UnixMilli(nowMs.Load()) },
	})
	stuck.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 400 {
			ok(t, db.Put(pk(fmt.Sprint(i)), make([]byte, 10<<10)))
		}
	})
	eventually(t, "full buffers", func() bool {
		m := db.Metrics()
		return float64(m.MemtableBytes) >= 1.75*float64(m.MemtableBudget)
	})
	started := make(chan struct{})
	wg.Go(func() {
		close(started)
		ok(t, db.Put(pk("short"), []byte("v"), engine.TTL(time.Second)))
	})
	<-started
	for range 1000 { // the Put is now in front of the buffers, or was in time
		runtime.Gosched()
	}
	nowMs.Add(10_000)
	stuck.Store(false)
	close(release)
	within(t, 2*time.Minute, "the writers", wg.Wait)
	if _, err := db.Get(pk("short")); err != nil {
		t.Errorf("an item that waited: %v", err)
	}
	mustClose(t, db)
}

// Sync returns with its context although the disk does not answer; writes go on later.
func TestSyncHeedsItsContext(t *testing.T) {
	release := make(chan struct{})
	var stuck atomic.Bool
	db := openOn(t, vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && stuck.Load() {
			<-release
		}
		return nil
	}), engine.Options{Durability: engine.Process})
	ok(t, db.Put(pk("k"), nil))
	stuck.Store(true)
	c, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	wantIs(t, db.Sync(c), context.DeadlineExceeded)
	ok(t, db.Put(pk("l"), nil)) // Process durability does not wait
	stuck.Store(false)
	close(release)
	ok(t, db.Sync(ctx))
	mustClose(t, db)
}
