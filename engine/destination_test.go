package engine_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Between the look at a destination and its lock somebody else may make a database there. The
// call that comes late fails, and what the other one has made stays.
//
// Promise (durability): A checkpoint or repair that fails removes its own files only, and never
// goes into its source. Also `TestFailureRemovesOnlyItsOwn`, `TestRepairThatCannotBeProved`,
// `TestDestinationInsideTheSource`.
func TestDestinationIsTakenMeanwhile(t *testing.T) {
	type call func(db *engine.DB, fsys vfs.FS) error
	checkpoint := func(db *engine.DB, _ vfs.FS) error { return db.Checkpoint(ctx, "copy", nil) }
	repair := func(_ *engine.DB, fsys vfs.FS) error {
		return second(engine.RepairFS(ctx, fsys, "damaged", "copy", nil))
	}
	open := func(_ *engine.DB, fsys vfs.FS) error {
		c, err := engine.OpenFS(fsys, "copy", nil)
		if err != nil {
			return err
		}
		return errors.Join(c.Put(pk("k"), []byte("v")), c.Close())
	}
	for lateName, late := range map[string]call{"Checkpoint": checkpoint, "Repair": repair} {
		for otherName, other := range map[string]call{
			"Checkpoint": checkpoint, "Repair": repair, "Open": open,
		} {
			t.Run(lateName+" after "+otherName, func(t *testing.T) {
				mem := vfs.NewMem()
				var locks atomic.Int64
				arrived, let := make(chan struct{}), make(chan struct{})
				fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
					if op.Kind == vfstest.OpLock && filepath.Dir(op.Name) == "copy" &&
						locks.Add(1) == 1 {
						close(arrived)
						<-let
					}
					return nil
				})
				db := openOn(t, fsys, engine.Options{})
				ok(t, db.Put(pk("k"), []byte("v")))
				ok(t, db.Checkpoint(ctx, "damaged", nil))
				failed := make(chan error)
				go func() { failed <- late(db, fsys) }()
				<-arrived
				ok(t, other(db, fsys))
				before := filesOf(t, mem, "copy")
				close(let)
				wantIs(t, <-failed, engine.ErrInvalid)
				if after := filesOf(t, mem, "copy"); !maps.EqualFunc(before, after, bytes.Equal) {
					t.Errorf("%d files before, %d after", len(before), len(after))
				}
				c, err := engine.OpenFS(fsys, "copy", &engine.Options{MustExist: true})
				ok(t, err)
				wantValue(t, c, pk("k"), []byte("v"))
				wantIs(t, late(db, fsys), engine.ErrInvalid) // it is not empty, and in use
				mustClose(t, c)
				mustClose(t, db)
			})
		}
	}
}

// What fails removes what it has made, and nothing that others have put there.
func TestFailureRemovesOnlyItsOwn(t *testing.T) {
	errDisk := errors.New("disk")
	for name, call := range map[string]func(db *engine.DB, fsys vfs.FS) error{
		"Checkpoint": func(db *engine.DB, _ vfs.FS) error {
			return db.Checkpoint(ctx, "copy", nil)
		},
		"Repair": func(_ *engine.DB, fsys vfs.FS) error {
			return second(engine.RepairFS(ctx, fsys, "damaged", "copy", nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			on := false
			fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
				if on && op.Kind == vfstest.OpRename && filepath.Dir(op.Name) == "copy" {
					ok(t, vfstest.WriteFile(mem, "copy/notes", nil))
					return errDisk
				}
				return nil
			})
			db := openOn(t, fsys, engine.Options{})
			defer mustClose(t, db)
			ok(t, db.Put(pk("k"), []byte("v")))
			ok(t, db.Checkpoint(ctx, "damaged", nil))
			on = true
			wantIs(t, call(db, fsys), errDisk)
			names, err := mem.List("copy")
			ok(t, err)
			if len(names) != 1 || names[0] != "notes" {
				t.Errorf("the directory has %v", names)
			}
		})
	}
}

// A new database that cannot be proved is removed, under the lock under which it was made.
func TestRepairThatCannotBeProved(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{})
	ok(t, db.Put(pk("k"), []byte("v")))
	ok(t, db.Flush(ctx))
	mustClose(t, db)
	errDisk := errors.New("disk")
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind != vfstest.OpOpen || filepath.Dir(op.Name) != "copy" ||
			!strings.HasSuffix(op.Name, ".sst") {
			return nil
		}
		_, err := engine.OpenFS(mem, "copy", nil)
		wantIs(t, err, engine.ErrLocked)
		return errDisk
	})
	wantIs(t, second(engine.RepairFS(ctx, fsys, "db", "copy", nil)), errDisk)
	if names, err := mem.List("copy"); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// A destination inside of the source is refused, however it is spelled, and nothing is made.
func TestDestinationInsideTheSource(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	db := openDir(t, "db", nil)
	ok(t, db.Put(pk("k"), []byte("v")))
	ok(t, db.Flush(ctx))
	ok(t, os.Mkdir("db/sub", 0o777))
	for name, target := range map[string]string{"link": "db", "deep": "db/sub", "out": "."} {
		if err := os.Symlink(target, name); err != nil {
			t.Skip(err)
		}
	}
	before := readDir(t, "db")
	inside := []string{
		"db", "db/", "db/new", "db/wal-0000000099.log", "db/sub", "db/sub/new/deep",
		"./x/../db/new", filepath.Join(top, "db/new"), "link", "link/new", "link/sub/new", "deep",
		"deep/new/deep", "out/db/new", "out/out/link/sub", "../" + filepath.Base(top) + "/db/new",
	}
	for _, dest := range inside {
		wantIs(t, db.Checkpoint(ctx, dest, nil), engine.ErrInvalid)
	}
	for _, dest := range []string{"out/copy1", "new/deep", filepath.Join(top, "copy2")} {
		ok(t, db.Checkpoint(ctx, dest, nil))
	}
	if after := readDir(t, "db"); !maps.Equal(before, after) {
		t.Errorf("%d files before, %d after", len(before), len(after))
	}
	mustClose(t, db)
	before = readDir(t, "db")
	for _, dest := range inside {
		wantIs(t, second(engine.Repair(ctx, "db", dest, nil, nil)), engine.ErrInvalid)
		wantIs(t, second(engine.Repair(ctx, "link", dest, nil, nil)), engine.ErrInvalid)
	}
	if after := readDir(t, "db"); !maps.Equal(before, after) {
		t.Errorf("%d files before, %d after", len(before), len(after))
	}
}
