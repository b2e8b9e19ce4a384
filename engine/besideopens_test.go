package engine_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// A database is opened again and again while its writer commits, flushes and merges as fast as it
// can: no Open fails, and each reader sees one state, none older than what it has seen before.
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
	go func() { written <- writeBeside(w, done) }()
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
				at, err := openBeside(fsys)
				if err != nil || at < last {
					t.Errorf("open %d: commit %d after %d: %v", n, at, last, err)
				}
				if last = at; n%100_000 == 0 {
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

// writeBeside makes commits and merges until done is closed.
func writeBeside(db *engine.DB, done <-chan struct{}) error {
	for n := 1; ; n++ {
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
		select {
		case <-done:
			return nil
		default:
		}
	}
}

// openBeside opens a database, reads everything, and returns the number of the last commit.
func openBeside(fsys vfs.FS) (n int, err error) {
	db, err := engine.OpenFS(fsys, "db", &engine.Options{ReadOnly: true, CacheBytes: 1 << 20})
	if err != nil {
		return 0, err
	}
	if n, err = besideNumber(db); err != nil {
		return n, err
	}
	return n, db.Close()
}
