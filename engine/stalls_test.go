package engine_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// A writer that waits is seen in the metrics while it waits, and once when it is done.
//
// Promise (manners): A writer that waits is seen in the metrics while it waits.
func TestWaitingWritersAreSeen(t *testing.T) {
	fsys, stuck, release := stuckFlushes()
	db := openOn(t, fsys, engine.Options{MemtableBytes: 1 << 20, Durability: engine.Process})
	stuck.Store(true)
	c, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		b := engine.NewBatch()
		for n := 0; ; n++ {
			b.Reset()
			ok(t, b.Put(pk(fmt.Sprint(n)), make([]byte, 10<<10)))
			if db.Apply(c, b) != nil {
				return
			}
		}
	})
	var first engine.Metrics
	eventually(t, "a stall that lasts", func() bool { // pauses before it may be long, but end
		last := first
		first = db.Metrics()
		return first.LongestStall >= 500*time.Millisecond && first.Stalls == last.Stalls &&
			first.StallTime > last.StallTime && first.LongestStall > last.LongestStall
	})
	cancel()
	wg.Wait()
	close(release)
	m := db.Metrics()
	if m.Stalls != first.Stalls || m.LongestStall < first.LongestStall {
		t.Errorf("%d stalls, longest %v; while they lasted %d, %v", m.Stalls, m.LongestStall,
			first.Stalls, first.LongestStall)
	}
	mustClose(t, db)
}

// keptLogs does not let files of the log be removed.
type keptLogs struct {
	vfs.FS
	on    atomic.Bool
	tries atomic.Int32
}

func (f *keptLogs) Remove(name string) error {
	if f.on.Load() && strings.HasSuffix(name, ".log") {
		f.tries.Add(1)
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrPermission}
	}
	return f.FS.Remove(name)
}

func (f *keptLogs) logBytes(t *testing.T) (n int64) {
	t.Helper()
	names, err := f.List("db")
	ok(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			info, err := f.Stat(filepath.Join("db", name))
			ok(t, err)
			n += info.SizeBytes
		}
	}
	return n
}

// warnings counts what a database warns of.
type warnings struct {
	slog.Handler
	n atomic.Int32
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		w.n.Add(1)
	}
	return nil
}

// Log files that cannot be removed hold no writer up: they go on beyond the budget of the
// log, the metrics show what is there, and the attempts and warnings are few. When they can
// be removed they are.
//
// Promise (manners): Log files that cannot be removed hold up no writer, and are tried again.
// Also `TestRemovalIsTriedAgain`, `TestRemovedFilesAreGone` in `wal`.
func TestLogFilesThatStay(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fsys := &keptLogs{FS: vfs.NewMem()}
	log := &warnings{Handler: slog.DiscardHandler}
	db := openOn(t, fsys, engine.Options{
		MemtableBytes: 1 << 20, LogBytes: 8 << 20, Durability: engine.Process,
		Logger: slog.New(log),
	})
	fsys.on.Store(true)
	start := time.Now()
	within(t, 2*time.Minute, "puts", func() {
		v := make([]byte, 2<<20)
		for i := range 40 {
			ok(t, db.Put(pk(fmt.Sprint(i)), v))
		}
	})
	ok(t, db.Flush(ctx))
	m := db.Metrics()
	if m.LogBytes < 60<<20 || m.LogBytes != fsys.logBytes(t) {
		t.Errorf("the log has %d bytes of %d, its files %d", m.LogBytes, m.LogBudgetBytes,
			fsys.logBytes(t))
	}
	// Attempts come after 0, 100, 300, 700 ms and so on.
	most := 2
	for pause := 100 * time.Millisecond; pause < time.Since(start); pause *= 2 {
		most++
	}
	if n := int(log.n.Load()); n == 0 || n > most {
		t.Errorf("%d warnings, want a few", n)
	}
	fsys.on.Store(false)
	eventually(t, "the files are removed", func() bool {
		ok(t, db.Put(pk("x"), nil))
		ok(t, db.Flush(ctx))
		return fsys.logBytes(t) <= 8<<20
	})
	mustClose(t, db)
}
