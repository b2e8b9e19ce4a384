package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// A database is opened again and again while its writer commits, flushes and merges, a commit for
// each open: no Open fails, and each reader sees one state, none older than what it has seen.
//
// Promise (readers): Any number of opens beside a writer that merges find no damage that does not
// exist, and no half of a commit.
func TestOpensBesideTheWriter(t *testing.T) {
	testutil.SlowUnderRace(t, "opens a database many times")
	fsys := vfs.NewMem()
	w := openOn(t, fsys, engine.Options{
		Durability: engine.Process, MemtableBytes: 1 << 20, LogBytes: 8 << 20, FlushRecords: 40,
		MaxRuns: 2,
	})
	done := make(chan struct{})
	written := make(chan error, 1)
	next := make(chan struct{}, 8)
	go func() { written <- writeBeside(w, next, done) }()
	opens := int64(testutil.Effort(100, 1_000_000))
	var opened atomic.Int64
	var readers sync.WaitGroup
	begin := time.Now()
	for range 4 {
		readers.Go(func() {
			last := 0
			for !t.Failed() {
				n := opened.Add(1)
				if n > opens {
					return
				}
				select {
				case next <- struct{}{}:
				default: // it is late
				}
				at, err := openBeside(fsys, n%8 == 0)
				if err != nil || at < last {
					t.Errorf("open %d: commit %d after %d: %v", n, at, last, err)
				}
				if last = at; n%20_000 == 0 {
					t.Logf("%d opens in %v, commit %d", n, time.Since(begin).Round(time.Second), at)
				}
			}
		})
	}
	readers.Wait()
	close(done)
	ok(t, <-written)
	mustClose(t, w)
}

// writeBeside makes commits and merges, one for each request, until done is closed.
func writeBeside(db *engine.DB, next, done <-chan struct{}) error {
	for n := 1; ; n++ {
		select {
		case <-next:
		case <-done:
			return nil
		}
		err := db.Apply(ctx, besideCommit(n))
		if err == nil && n%5 == 0 {
			err = db.CompactPartition(ctx, fmt.Appendf(nil, "counter%d", n/5%besideCounters))
		}
		if err == nil && n%50 == 0 {
			err = db.CompactPartition(ctx, []byte("window"))
		}
		if err != nil {
			return err
		}
	}
}

// openBeside opens a database, reads one item or everything, and returns the number of the last
// commit.
func openBeside(fsys vfs.FS, all bool) (n int, err error) {
	db, err := engine.OpenFS(fsys, "db", &engine.Options{ReadOnly: true, CacheBytes: 1 << 20})
	if err != nil {
		return 0, err
	}
	if all {
		n, err = besideNumber(db)
	} else if v, gerr := db.Get(pk("counter0")); !errors.Is(gerr, engine.ErrNotFound) {
		n, err = strconv.Atoi(string(v))
		err = errors.Join(gerr, err)
	}
	return n, errors.Join(err, db.Close())
}

// A reader that may not write to the directory, so that it has no lease, sees states of the writer
// or ErrStale, never damage, and goes on after it.
//
// Promise (readers): Where no lease can be had, a reader beside the writer gets ErrStale for what
// is gone, and finds the present with its next read.
func TestReaderWithoutALease(t *testing.T) {
	mem := vfs.NewMem()
	w := openOn(t, mem, engine.Options{
		Durability: engine.Process, MemtableBytes: 1 << 20, LogBytes: 8 << 20, FlushRecords: 40,
		MaxRuns: 2,
	})
	ok(t, w.Apply(ctx, besideCommit(1)))
	frozen := vfstest.NewFault(mem, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpOpen, vfstest.OpList, vfstest.OpStat, vfstest.OpLock, vfstest.OpReadAt,
			vfstest.OpClose:
			return nil
		}
		return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: fs.ErrPermission}
	})
	// What nobody has synced a reader that may not write cannot show, unless it is asked for.
	r := openOn(t, frozen, engine.Options{ReadOnly: true, Visible: true, CacheBytes: 1 << 20})
	stale, last := 0, 0
	for n := 2; n < testutil.Effort(300, 20_000) || stale == 0 && n < 10_000; n++ {
		ok(t, w.Apply(ctx, besideCommit(n)))
		if n%20 == 0 {
			ok(t, w.Compact(ctx))
		}
		at, err := besideNumber(r)
		if errors.Is(err, engine.ErrStale) {
			stale++
			at, err = besideNumber(r)
		}
		if err != nil || at < last {
			t.Fatalf("commit %d after %d: %v", at, last, err)
		}
		last = at
	}
	if stale == 0 {
		t.Error("nothing was gone")
	}
	mustClose(t, r)
	mustClose(t, w)
}

// brokenLeases is a file system on which leases cannot be written while broken is set.
type brokenLeases struct {
	vfs.FS
	broken *atomic.Bool
}

func (b brokenLeases) OpenShared(name string) (vfs.SharedFile, error) {
	f, err := b.FS.OpenShared(name)
	return brokenLease{f, b.broken}, err
}

type brokenLease struct {
	vfs.SharedFile
	broken *atomic.Bool
}

func (b brokenLease) WriteAt(p []byte, off int64) (int, error) {
	if b.broken.Load() {
		return 0, errDisk
	}
	return b.SharedFile.WriteAt(p, off)
}

// A reader that has to begin again and cannot write its lease leaves nothing of its attempts: the
// memory of its memtables is counted once.
func TestReadersBeginAgainWithoutALease(t *testing.T) {
	p := newBesidePair(t, vfs.NewMem(), engine.Options{ReaderBytes: 1, LogBytes: 8 << 20})
	p.put(30)
	var broken atomic.Bool
	db := openOn(t, brokenLeases{p.mem, &broken}, engine.Options{ReadOnly: true})
	broken.Store(true)
	for failed := 0; failed < 3; { // until the log lets go of what the reader is at
		if failed == 0 {
			for range 12 {
				ok(t, p.writer.Put(pk("large"), make([]byte, 1<<20)))
				p.put(3)
			}
			p.compact()
			p.put(30)
		}
		if err := db.Refresh(); errors.Is(err, errDisk) {
			failed++
		} else if err != nil || failed > 0 {
			t.Fatalf("a refresh without a lease: %v", err)
		}
	}
	broken.Store(false)
	ok(t, db.Refresh())
	fresh := openOn(t, p.mem, engine.Options{ReadOnly: true})
	got, want := db.Metrics(), fresh.Metrics()
	if got.MemtableBytes != want.MemtableBytes {
		t.Errorf("%d bytes in memtables, want %d", got.MemtableBytes, want.MemtableBytes)
	}
	mustClose(t, fresh)
	mustClose(t, db)
}
