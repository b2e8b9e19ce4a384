package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Goal: files are reused only when no other database has them. Method: a checkpoint shares
// files by hard links; the source then merges and flushes many times over, which reuses
// its obsolete files. The checkpoint must stay what it was, and the directory must hold
// no more files than the manifest names once the database is closed.
//
// Promise (durability): A reused SST is nobody else's; one that waits is an orphan after a
// crash. Also `TestWaitingFilesAreOrphansAfterAKill`; `TestGetOnARecycledFile` in `stripe`.
func TestReusedFilesAreNobodyElses(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	dir := t.TempDir()
	src, dest := filepath.Join(dir, "src"), filepath.Join(dir, "dest")
	o := engine.Options{Durability: engine.Process, MaxRuns: 2}
	db, err := engine.Open(src, &o)
	ok(t, err)
	write := func(round int) {
		for i := range 80 {
			key := engine.Key{PK: fmt.Appendf(nil, "k%d", i)}
			ok(t, db.Put(key, fmt.Appendf(nil, "round %d", round)))
		}
		ok(t, db.Flush(ctx))
	}
	write(0)
	ok(t, db.Checkpoint(ctx, dest, nil))
	for round := range 6 {
		write(round + 1)
		ok(t, db.Compact(ctx))
	}
	ok(t, second(db.Verify(ctx, nil)))
	files := db.Metrics().Total.Files
	ok(t, db.Close())
	onDisk, err := filepath.Glob(filepath.Join(src, "*.sst"))
	if err != nil || len(onDisk) != files {
		t.Errorf("%d files on disk, the manifest names %d (%v)", len(onDisk), files, err)
	}
	checkRound(t, src, 6)
	checkRound(t, dest, 0)
}

func checkRound(t *testing.T, dir string, round int) {
	t.Helper()
	db := openDir(t, dir, &engine.Options{ReadOnly: true})
	defer db.Close()
	ok(t, second(db.Verify(ctx, nil)))
	n := 0
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		if want := fmt.Sprintf("round %d", round); string(it.Value) != want {
			t.Fatalf("%s: %s is %q, want %q", dir, it.Key.PK, it.Value, want)
		}
		n++
	}
	if n != 80 {
		t.Errorf("%s: %d items, want 80", dir, n)
	}
}

// An obsolete file that still waits for reuse when the process dies is an orphan.
func TestWaitingFilesAreOrphansAfterAKill(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	src, copied := t.TempDir(), t.TempDir()
	db, err := engine.Open(src, &engine.Options{Durability: engine.Sync, MaxRuns: 2})
	ok(t, err)
	for round := range 4 {
		for i := range 50 {
			key := engine.Key{PK: fmt.Appendf(nil, "k%d", i)}
			ok(t, db.Put(key, fmt.Appendf(nil, "round %d", round)))
		}
		ok(t, db.Compact(ctx))
	}
	files := db.Metrics().Total.Files
	copyDir(t, src, copied) // what a kill would leave
	ok(t, db.Close())
	db = openDir(t, copied, nil)
	defer db.Close()
	onDisk, err := filepath.Glob(filepath.Join(copied, "*.sst"))
	if err != nil || len(onDisk) != files {
		t.Errorf("%d files on disk after open, the manifest names %d (%v)", len(onDisk), files, err)
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	ok(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "LOCK") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		ok(t, err)
		ok(t, os.WriteFile(filepath.Join(to, e.Name()), b, 0o600))
	}
}

// Compacting what is compact already writes nothing.
func TestCompactTwiceWritesOnce(t *testing.T) {
	db := openMemory(t, engine.Options{})
	for i := range 200 {
		ok(t, db.Put(pk(fmt.Sprintf("k%d", i%150)), []byte("v")))
	}
	ok(t, db.Compact(ctx))
	before := db.Metrics().Compactions
	ok(t, db.Compact(ctx))
	if n := db.Metrics().Compactions - before; n != 0 {
		t.Errorf("%d merges of runs with nothing to drop", n)
	}
	ok(t, db.Delete(pk("k1")))
	ok(t, db.Compact(ctx))
	if n := db.Metrics().Compactions - before; n != 1 {
		t.Errorf("%d merges after one delete, want 1", n)
	}
}

// A file whose reuse fails after it got its new name does not stay, even if no other file can
// be made in its place.
func TestReuseThatFailsLeavesNothing(t *testing.T) {
	mem := vfs.NewMem()
	var failing atomic.Bool
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if failing.Load() && strings.HasSuffix(op.Name, ".sst") &&
			(op.Kind == vfstest.OpOpenReadWrite || op.Kind == vfstest.OpCreate) {
			return syscall.EMFILE
		}
		return nil
	})
	db := openOn(t, fsys, engine.Options{MaxRuns: 2})
	for round := range 4 {
		ok(t, db.Put(pk("k"), fmt.Appendf(nil, "round %d", round)))
		ok(t, db.Compact(ctx))
	}
	before, err := mem.List("db")
	ok(t, err)
	failing.Store(true)
	ok(t, db.Put(pk("k"), []byte("later")))
	wantIs(t, db.Flush(ctx), syscall.EMFILE)
	failing.Store(false)
	after, err := mem.List("db")
	ok(t, err)
	for _, name := range after {
		if !slices.Contains(before, name) && strings.HasSuffix(name, ".sst") {
			t.Errorf("%s is left", name)
		}
	}
	ok(t, db.Flush(ctx))
	wantValue(t, db, pk("k"), []byte("later"))
	mustClose(t, db)
}
