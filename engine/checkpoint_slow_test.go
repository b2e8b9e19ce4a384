package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// heldUp is a file system without links on which making a file of the copy waits.
type heldUp struct {
	vfs.FS
	arrived, let chan struct{}
}

// holdUp returns a heldUp that waits at the first file in directory copy with that ending.
func holdUp(inner vfs.FS, ending string) *heldUp {
	h := &heldUp{arrived: make(chan struct{}), let: make(chan struct{})}
	var once sync.Once
	h.FS = vfstest.NewFault(noLinks{inner}, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate && filepath.Dir(op.Name) == "copy" &&
			strings.HasSuffix(op.Name, ending) {
			once.Do(func() {
				close(h.arrived)
				<-h.let
			})
		}
		return nil
	})
	return h
}

// Writers do not wait for a copy, however slow it is: while the first segment, or the first
// SST, is held up, many times the log's budget is written. The copy is whole nevertheless.
//
// Promise (durability): Writers do not wait for a checkpoint, however slow the copy is; a
// context ends it anywhere, and nothing is left. Also `TestCheckpointIsCanceled`;
// `TestPinnedSegments` in `wal`; by signals `TestStoppedBackup`.
func TestCheckpointDoesNotHoldUpWriters(t *testing.T) {
	for _, ending := range []string{".log", ".sst"} {
		t.Run(ending[1:], func(t *testing.T) {
			mem := vfs.NewMem()
			fsys := holdUp(mem, ending)
			o := engine.Options{
				Durability: engine.Process, MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 2,
			}
			db := openOn(t, fsys, o)
			value := make([]byte, 64<<10)
			fill := func(mib int) {
				for i := range mib * 16 {
					ok(t, db.Put(pk(fmt.Sprint(i)), value))
				}
			}
			fill(4)
			done := make(chan error)
			go func() { done <- db.Checkpoint(ctx, "copy", nil) }()
			<-fsys.arrived
			copy(value, "later")
			within(t, 2*time.Minute, "puts while the copy is held up", func() { fill(6 * 8) })
			if m := db.Metrics(); m.LogBytes > 2*m.LogBudgetBytes {
				t.Errorf("the log has %d bytes, its budget is %d", m.LogBytes, m.LogBudgetBytes)
			}
			close(fsys.let)
			ok(t, <-done)
			eventually(t, "release of the log", func() bool {
				return db.Metrics().LogBytes <= o.LogBytes
			})
			mustClose(t, db)
			c, err := engine.OpenFS(mem, "copy", nil)
			ok(t, err)
			for i := range 4 * 16 {
				ok(t, second(c.Get(pk(fmt.Sprint(i)))))
			}
			ok(t, second(c.Verify(ctx, nil)))
			mustClose(t, c)
		})
	}
}

// checkpointSource is a database with several SSTs and some log, on a file system without
// links.
func checkpointSource(t *testing.T) (*engine.DB, *vfs.MemFS) {
	mem := vfs.NewMem()
	db := openOn(t, noLinks{mem}, engine.Options{})
	for i := range 4 {
		value := make([]byte, 400<<10)
		for j := range value {
			value[j] = byte(j * j >> (i + 3)) // does not compress well
		}
		ok(t, db.Put(pk(fmt.Sprint(i)), value))
		ok(t, db.Flush(ctx))
	}
	return db, mem
}

// A context that ends stops the copying between two files, in the middle of one, and while it
// waits for its rate. Nothing is left, and the next attempt works.
func TestCheckpointIsCanceled(t *testing.T) {
	db, mem := checkpointSource(t)
	why := errors.New("no time")
	for name, o := range map[string]engine.CheckpointOptions{
		"full speed": {}, "slow": {BytesPerSecond: 1},
	} {
		for stopAt := int64(0); stopAt < 1<<20; stopAt += 100 << 10 {
			canceled, cancel := context.WithCancelCause(ctx)
			o.Progress = func(p engine.CheckpointProgress) {
				if p.Bytes > stopAt {
					go cancel(why)
					if name != "slow" {
						<-canceled.Done()
					}
				}
			}
			if name == "slow" && stopAt > 256<<10 {
				cancel(why) // it would not come that far
			}
			within(t, 2*time.Minute, "the end of the copy", func() {
				wantIs(t, db.Checkpoint(canceled, "copy", &o), why)
			})
			cancel(nil)
			if names, _ := mem.List("copy"); len(names) > 0 {
				t.Fatalf("%s, stopped after %d bytes: %v are left", name, stopAt, names)
			}
		}
	}
	ok(t, db.Checkpoint(ctx, "copy", nil))
	mustClose(t, db)
}

// Progress counts every file and byte once, ends at the totals, which do not change, and never goes
// back; whether files are copied or get a second name.
func TestCheckpointProgress(t *testing.T) {
	for _, links := range []bool{false, true} {
		db, mem := checkpointSource(t)
		if links {
			mustClose(t, db)
			db = openOn(t, mem, engine.Options{})
		}
		var last engine.CheckpointProgress
		calls := 0
		o := engine.CheckpointOptions{Progress: func(p engine.CheckpointProgress) {
			if calls++; calls > 1 && (p.Files < last.Files || p.Bytes < last.Bytes ||
				p.FilesTotal != last.FilesTotal || p.BytesTotal != last.BytesTotal) {
				t.Errorf("%+v after %+v", p, last)
			}
			last = p
		}}
		ok(t, db.Checkpoint(ctx, "copy", &o))
		mustClose(t, db)
		if last.Files != last.FilesTotal || last.Bytes != last.BytesTotal ||
			!links && calls <= last.Files {
			t.Errorf("links %v: %d calls, the last with %+v", links, calls, last)
		}
		var bytes int64
		names, err := mem.List("copy")
		ok(t, err)
		for _, name := range names {
			if ext := filepath.Ext(name); ext == ".sst" || ext == ".log" {
				st, err := mem.Stat(filepath.Join("copy", name))
				ok(t, err)
				bytes += st.SizeBytes
				last.Files--
			}
		}
		if last.Files != 0 || last.Bytes != bytes {
			t.Errorf("links %v: %+v is reported; the files have %d bytes", links, last, bytes)
		}
	}
	wantIs(t, openMemory(t, engine.Options{}).Checkpoint(ctx, "other",
		&engine.CheckpointOptions{BytesPerSecond: -1}), engine.ErrInvalid)
}

// A database in memory is copied to the disk, where any program can open it.
func TestCheckpointOfMemory(t *testing.T) {
	dir := t.TempDir()
	// The label is not a directory: one of that name on the disk has nothing to do with it.
	db, err := engine.Open(dir, &engine.Options{InMemory: true})
	ok(t, err)
	ok(t, db.Put(pk("flushed"), []byte("1")))
	ok(t, db.Flush(ctx))
	ok(t, db.Put(pk("logged"), []byte("2")))
	dest := filepath.Join(dir, "copy")
	ok(t, db.Checkpoint(ctx, dest, nil))
	ok(t, db.Put(pk("later"), nil))
	mustClose(t, db)
	c := openDir(t, dest, &engine.Options{MustExist: true})
	wantValue(t, c, pk("flushed"), []byte("1"))
	wantValue(t, c, pk("logged"), []byte("2"))
	wantValue(t, c, pk("later"), nil)
	ok(t, second(c.Verify(ctx, nil)))
	mustClose(t, c)
}
