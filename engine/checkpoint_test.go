package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// copyWriters is the number of partitions that TestCheckpointWhileWriting fills.
const copyWriters = 4

// copied is a checkpoint with what it must hold.
type copied struct {
	dir    string
	before [copyWriters]int64 // acknowledged before it was taken
	items  int                // as of the last check
}

// check opens the checkpoint: it verifies, misses nothing in between, and is what it was.
func (c *copied) check(t *testing.T, fsys vfs.FS, o engine.Options) {
	t.Helper()
	db, err := engine.OpenFS(fsys, c.dir, &o)
	ok(t, err)
	ok(t, second(db.Verify(ctx, nil)))
	items := 0
	for w := range copyWriters {
		n, err := db.Count(ctx, engine.Query{PK: []byte(fmt.Sprint(w))})
		ok(t, err)
		last, err := db.Has(pksk(fmt.Sprint(w), fmt.Sprintf("%09d", n-1)))
		if n < c.before[w] || err != nil || n > 0 && !last {
			t.Fatalf("%s: writer %d has %d items, %d were acknowledged; last %v, %v",
				c.dir, w, n, c.before[w], last, err)
		}
		items += int(n)
	}
	if c.items != 0 && items != c.items {
		t.Fatalf("%s has %d items now, and had %d", c.dir, items, c.items)
	}
	c.items = items
	mustClose(t, db)
}

// Checkpoints are taken while writers write: each opens, verifies, and holds what was
// acknowledged before it, without a gap; and it stays as it is whatever happens to the
// original.
//
// Promise (durability): A checkpoint taken under writes opens, verifies, and holds what was
// acknowledged before; a failed one is no half database. Also `TestCheckpointKeepsItsLog`,
// `TestCheckpointFails`, on other file systems `TestCheckpointCopies`,
// `TestCheckpointOnAnotherFileSystem`; from memory `TestCheckpointOfMemory`.
func TestCheckpointWhileWriting(t *testing.T) {
	fsys := vfs.NewMem()
	o := engine.Options{
		Durability: engine.Process, MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 2,
		FlushRecords: 200,
	}
	db := openOn(t, fsys, o)
	const writers = copyWriters
	copies := testutil.Effort(4, 8)
	var acked [writers]atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			value := make([]byte, 1000)
			for n := int64(0); !stop.Load(); n++ {
				k := pksk(fmt.Sprint(w), fmt.Sprintf("%09d", n))
				if err := db.Put(k, value); err != nil {
					t.Error(err)
					return
				}
				acked[w].Store(n + 1)
			}
		})
	}
	var all []copied
	for i := range copies {
		c := copied{dir: fmt.Sprintf("copies/%d", i)}
		eventually(t, "writes", func() bool { return acked[0].Load() > int64(200*i) })
		for w := range acked {
			c.before[w] = acked[w].Load()
		}
		ok(t, db.Checkpoint(ctx, c.dir, nil))
		all = append(all, c)
	}
	stop.Store(true)
	wg.Wait()
	for i := range all {
		all[i].check(t, fsys, engine.Options{ReadOnly: true})
	}
	for w := range writers { // the original loses everything
		ok(t, db.DeleteRange([]byte(fmt.Sprint(w)), engine.SKCondition{}))
	}
	ok(t, db.Compact(ctx))
	mustClose(t, db)
	for i := range all {
		all[i].check(t, fsys, o)
	}
}

// A flush that commits while a checkpoint copies must not take away the log that the
// checkpoint's state needs.
func TestCheckpointKeepsItsLog(t *testing.T) {
	mem := vfs.NewMem()
	var db *engine.DB
	var once sync.Once
	fill := func(from int) {
		value := make([]byte, 64<<10)
		for i := range 100 { // more segments than are kept for their next use
			ok(t, db.Put(pk(fmt.Sprint(from+i)), value))
		}
		ok(t, db.Flush(ctx))
	}
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && strings.HasPrefix(op.Name, "db/wal-") {
			once.Do(func() {
				fill(100)
				fill(200)
			})
		}
		return nil
	})
	db = openOn(t, fsys, engine.Options{LogBytes: 8 << 20, Durability: engine.Process})
	fill(0)
	ok(t, db.Checkpoint(ctx, "copy", nil))
	// What was held back meanwhile goes now, so that writers never wait for it.
	eventually(t, "release of the log", func() bool { return db.Metrics().LogSegments <= 2+4 })
	within(t, 2*time.Minute, "writes after the checkpoint", func() {
		for from := 300; from <= 500; from += 100 {
			fill(from)
		}
	})
	mustClose(t, db)
	c, err := engine.OpenFS(mem, "copy", nil)
	ok(t, err)
	for i := range 100 {
		ok(t, second(c.Get(pk(fmt.Sprint(i)))))
	}
	ok(t, second(c.Verify(ctx, nil)))
	mustClose(t, c)
}

// The destination must be new or empty; anything else is refused and left alone.
func TestCheckpointDestination(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{})
	defer mustClose(t, db)
	ok(t, db.Put(pk("k"), []byte("v")))
	ok(t, db.Flush(ctx))
	ok(t, db.Checkpoint(ctx, "full", nil))
	ok(t, vfstest.WriteFile(fsys, "file", nil))
	before := snapshotFiles(t, fsys, "full")
	for _, dest := range []string{
		"full", "db", "file", "file/below", "", "db/inside", "./new/../db/deep/inside",
		"db/wal-0000000099.log",
	} {
		if err := db.Checkpoint(ctx, dest, nil); err == nil {
			t.Errorf("a checkpoint into %q succeeded", dest)
		} else if dest != "file/below" {
			wantIs(t, err, engine.ErrInvalid)
		}
	}
	if !maps.Equal(before, snapshotFiles(t, fsys, "full")) {
		t.Error("the directory has changed")
	}
	ok(t, fsys.MkdirAll("empty"))
	func() {
		defer func() { _ = recover() }()
		_ = db.Checkpoint(ctx, "left", &engine.CheckpointOptions{
			Progress: func(engine.CheckpointProgress) { panic("in the callback") },
		})
	}()
	for _, dest := range []string{"empty", "new/deep", "left"} {
		ok(t, db.Checkpoint(ctx, dest, nil))
		c, err := engine.OpenFS(fsys, dest, &engine.Options{ReadOnly: true})
		ok(t, err)
		wantValue(t, c, pk("k"), []byte("v"))
		mustClose(t, c)
	}
}

// A checkpoint needs nothing written into it to be opened read-only, not even a lock file.
func TestCheckpointOnReadOnlyMedium(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(filepath.Join(dir, "db"), nil)
	ok(t, err)
	ok(t, db.Put(pk("k"), []byte("v")))
	dest := filepath.Join(dir, "copy")
	ok(t, db.Checkpoint(ctx, dest, nil))
	mustClose(t, db)
	before := readDir(t, dest)
	c := openDir(t, dest, &engine.Options{ReadOnly: true})
	wantValue(t, c, pk("k"), []byte("v"))
	mustClose(t, c)
	after := readDir(t, dest)
	delete(after, "READERS") // where the medium takes it
	if !maps.Equal(before, after) {
		t.Errorf("%d files before, %d after", len(before), len(after))
	}
}

// Whatever fails on the way, the source stays writable unless its own files are
// concerned, the destination is no half database, and the next attempt works; with links and
// where there are none.
func TestCheckpointFails(t *testing.T) {
	t.Run("links", func(t *testing.T) { failCheckpoints(t, vfs.NewMem()) })
	t.Run("copies", func(t *testing.T) { failCheckpoints(t, noLinks{vfs.NewMem()}) })
}

// noLinks is a file system without links, or one that cannot link into another one.
type noLinks struct{ vfs.FS }

func (noLinks) Link(oldName, newName string) error {
	return &os.LinkError{Op: "link", Old: oldName, New: newName, Err: syscall.ENOTSUP}
}

func failCheckpoints(t *testing.T, mem vfs.FS) {
	var at, count atomic.Int64
	errDisk := errors.New("destination fails")
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if strings.Contains(op.Name+op.NewName, "copy") && op.Kind != vfstest.OpRemove &&
			op.Kind != vfstest.OpClose && op.Kind != vfstest.OpList && count.Add(1) == at.Load() {
			return errDisk
		}
		return nil
	})
	db := openOn(t, fsys, engine.Options{})
	defer mustClose(t, db)
	for n := int64(1); ; n++ {
		ok(t, db.Put(pk("k"), []byte{byte(n)}))
		count.Store(0)
		at.Store(n)
		err := db.Checkpoint(ctx, "copy", nil)
		at.Store(0)
		done := count.Load() < n
		if err != nil { // a look that fails does not matter
			wantIs(t, err, errDisk)
			_, err = engine.OpenFS(mem, "copy", &engine.Options{MustExist: true})
			wantIs(t, err, engine.ErrNotExist)
			ok(t, db.Checkpoint(ctx, "copy", nil))
		}
		c, err := engine.OpenFS(mem, "copy", nil)
		ok(t, err)
		wantValue(t, c, pk("k"), []byte{byte(n)})
		mustClose(t, c)
		names, err := mem.List("copy")
		ok(t, err)
		for _, name := range names {
			ok(t, mem.Remove(filepath.Join("copy", name)))
		}
		if done {
			return
		}
	}
}

// Where files cannot have two names they are copied, and the copies are durable: after a
// power cut that keeps nothing else the checkpoint is whole, whatever becomes of the original.
func TestCheckpointCopies(t *testing.T) {
	disk := vfstest.NewCrash()
	db := openOn(t, noLinks{disk}, engine.Options{FileBytes: 64 << 10, MaxRuns: 2})
	value := make([]byte, 1000)
	for i := range 500 {
		ok(t, db.Put(pk(fmt.Sprint(i)), value))
		if i%100 == 50 {
			ok(t, db.Flush(ctx))
		}
	}
	ok(t, db.Checkpoint(ctx, "copy", nil))
	after := disk.PowerCut(rand.New(rand.NewPCG(1, 2)), 0)
	ok(t, db.DeleteRange(pk("1").PK, engine.SKCondition{}))
	ok(t, db.Compact(ctx))
	mustClose(t, db)
	for _, fsys := range []vfs.FS{after, disk} {
		c, err := engine.OpenFS(fsys, "copy", nil)
		ok(t, err)
		for i := range 500 {
			wantValue(t, c, pk(fmt.Sprint(i)), value)
		}
		ok(t, second(c.Verify(ctx, nil)))
		mustClose(t, c)
	}
}

// The destination may be on another file system.
func TestCheckpointOnAnotherFileSystem(t *testing.T) {
	here, there := t.TempDir(), "/dev/shm"
	there, err := os.MkdirTemp(there, "kstone-test-")
	if err != nil {
		t.Skipf("no other file system: %v", err)
	}
	defer func() { ok(t, os.RemoveAll(there)) }()
	writeFiles(t, here, map[string]string{"file": "x"})
	err = os.Link(filepath.Join(here, "file"), filepath.Join(there, "file"))
	if !vfs.CannotLink(err) {
		t.Skipf("%s is not on another file system: %v", there, err)
	}
	db := openDir(t, filepath.Join(here, "db"), nil)
	ok(t, db.Put(pk("k"), []byte("v")))
	ok(t, db.Flush(ctx))
	dest := filepath.Join(there, "copy")
	ok(t, db.Checkpoint(ctx, dest, nil))
	mustClose(t, db)
	c := openDir(t, dest, &engine.Options{MustExist: true})
	wantValue(t, c, pk("k"), []byte("v"))
	ok(t, second(c.Verify(ctx, nil)))
	mustClose(t, c)
}
