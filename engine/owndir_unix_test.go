//go:build linux || darwin

package engine_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// A moved database goes on working, also after the working directory has changed.
//
// Promise (durability): A moved database goes on working; one that has been removed acknowledges
// nothing more at `Sync` and says why. Also `TestRemovedDatabaseTurnsReadOnly`,
// `TestRemovedDatabaseInMemory`; `TestRemovedDir` in `internal/vfs`.
func TestMovedDatabaseGoesOn(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	t.Chdir(t.TempDir())
	o := engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 2}
	db := openDir(t, "db", &o)
	want := map[string]string{}
	write := func(round int) {
		t.Helper()
		for i := range 300 {
			k, v := pk(fmt.Sprint(i)), fmt.Sprint(round, strings.Repeat("x", 100))
			ok(t, db.Put(k, []byte(v), engine.Process))
			want[id(k)] = v
		}
		ok(t, db.Flush(ctx))
	}
	write(0)
	ok(t, os.Mkdir("below", 0o777))
	ok(t, os.Rename("db", "below/moved"))
	t.Chdir("below")
	for round := range 3 {
		write(round)
	}
	ok(t, db.Compact(ctx))
	ok(t, db.Checkpoint(ctx, "copy", nil))
	ok(t, db.SetProperty("p", []byte("v")))
	ok(t, db.Put(pk("last"), []byte("one")))
	ok(t, second(db.Verify(ctx, nil)))
	mustClose(t, db)
	if entries, err := os.ReadDir(".."); err != nil || len(entries) != 1 {
		t.Errorf("%d entries at the old place, want none but the new one (%v)", len(entries), err)
	}
	for dir, n := range map[string]int{"moved": 301, "copy": 300} {
		db := openDir(t, dir, &o)
		got := content(t, db)
		if len(got) != n {
			t.Errorf("%s: %d items, want %d", dir, len(got), n)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s is %.20q, want %.20q", dir, k, got[k], v)
			}
		}
		mustClose(t, db)
	}
}

// After rm -rf no write at Sync is acknowledged, and the error says why.
func TestRemovedDatabaseTurnsReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	for name, write := range map[string]func(*engine.DB) error{
		"put":      func(db *engine.DB) error { return db.Put(pk("b"), []byte("v")) },
		"flush":    func(db *engine.DB) error { return db.Flush(ctx) },
		"property": func(db *engine.DB) error { return db.SetProperty("p", []byte("v")) },
		"close":    func(db *engine.DB) error { return db.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := engine.Open(dir, nil)
			ok(t, err)
			defer db.Close()
			ok(t, db.Put(pk("a"), []byte("v")))
			ok(t, os.RemoveAll(dir))
			err = write(db)
			wantIs(t, err, engine.ErrRemoved)
			if !strings.Contains(err.Error(), "the database directory "+dir+" was removed") {
				t.Errorf("%v does not say that %s was removed", err, dir)
			}
			if name == "close" {
				return
			}
			wantIs(t, err, engine.ErrReadOnly)
			err = db.Put(pk("c"), []byte("v"))
			wantIs(t, err, engine.ErrReadOnly)
			wantIs(t, err, engine.ErrRemoved)
			wantValue(t, db, pk("a"), []byte("v"))
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory is there again: %v", err)
			}
		})
	}
}

// The same on a file system in memory.
func TestRemovedDatabaseInMemory(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{})
	defer db.Close()
	names, err := mem.List("db")
	ok(t, err)
	for _, name := range names {
		ok(t, mem.Remove(filepath.Join("db", name)))
	}
	ok(t, mem.Remove("db"))
	err = db.Put(pk("a"), []byte("v"))
	wantIs(t, err, engine.ErrReadOnly)
	wantIs(t, err, engine.ErrRemoved)
}

// specialFiles make something at a name that is not a regular file.
var specialFiles = map[string]func(victim, name string) error{
	"a symbolic link": os.Symlink,
	"a named pipe":    func(_, name string) error { return unix.Mkfifo(name, 0o666) },
}

// Nothing but a regular file is opened in a database directory, on any kind of open, and
// nothing that a symbolic link points to changes.
//
// Promise (durability): What is not a regular file is not opened, followed or changed, on any
// kind of open. Also `TestDirOpensRegularFilesOnly` in `internal/vfs`.
func TestSpecialFilesInADatabase(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	db, err := engine.Open(src, nil)
	ok(t, err)
	ok(t, db.Put(pk("a"), []byte("v")))
	ok(t, db.Flush(ctx))
	ok(t, db.Put(pk("b"), []byte("v")))
	mustClose(t, db)
	db, err = engine.Open(src, &engine.Options{ReadOnly: true}) // it leaves READERS
	ok(t, err)
	mustClose(t, db)
	entries, err := os.ReadDir(src)
	ok(t, err)
	for _, e := range entries {
		for kind, mk := range specialFiles {
			t.Run(e.Name()+" is "+kind, func(t *testing.T) {
				dir := t.TempDir()
				ok(t, os.CopyFS(filepath.Join(dir, "db"), os.DirFS(src)))
				victim := filepath.Join(dir, "victim")
				ok(t, os.Rename(filepath.Join(dir, "db", e.Name()), victim))
				before := readDir(t, dir)["victim"]
				ok(t, mk(victim, filepath.Join(dir, "db", e.Name())))
				openSpecial(t, filepath.Join(dir, "db"), e.Name(), kind)
				if readDir(t, dir)["victim"] != before {
					t.Error("what the symbolic link points to has changed")
				}
			})
		}
	}
}

// openSpecial opens a database in each way; the file with that name is not a regular one.
func openSpecial(t *testing.T, dir, name, kind string) {
	t.Helper()
	for _, readOnly := range []bool{true, false} {
		db, err := engine.Open(dir, &engine.Options{ReadOnly: readOnly})
		if err == nil {
			err = errors.Join(second(db.Get(pk("a"))), second(db.Verify(ctx, nil)), db.Close())
		}
		named := err != nil && strings.Contains(err.Error(), name) &&
			strings.Contains(err.Error(), kind)
		if name == "RESERVE" || name == "LOCK" && readOnly { // not needed
			named = err == nil
		}
		if !named {
			t.Errorf("read-only %v: %v does not say that %s is %s", readOnly, err, name, kind)
		}
	}
	err := engine.InspectFile(filepath.Join(dir, name), io.Discard)
	notOurs := name == "LOCK" || name == "RESERVE" || name == "READERS" // unknown to InspectFile
	if err == nil || !notOurs && !strings.Contains(err.Error(), kind) {
		t.Errorf("inspect: %v does not say that %s is %s", err, name, kind)
	}
	rep, err := engine.Repair(ctx, dir, filepath.Join(filepath.Dir(dir), "repaired"), nil, nil)
	if name == "LOCK" && err != nil || notOurs && name != "LOCK" ||
		strings.HasPrefix(name, "CURRENT") {
		return
	}
	named := slices.ContainsFunc(rep.Lost, func(l engine.Loss) bool {
		return strings.Contains(l.Err.Error(), kind)
	})
	if err == nil && !named {
		t.Errorf("repair: %v does not say that %s is %s", rep.Lost, name, kind)
	}
}

// A copy by hard links of a closed database keeps its content, whatever the original does.
func TestCopyByHardLinks(t *testing.T) {
	root := t.TempDir()
	o := engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 2}
	open := func(dir string) *engine.DB {
		t.Helper()
		db := openDir(t, filepath.Join(root, dir), &o)
		return db
	}
	write := func(db *engine.DB, round int) {
		t.Helper()
		for i := range 60 {
			k := pksk(fmt.Sprint(i%4), fmt.Sprint(i))
			ok(t, db.Put(k, fmt.Append(nil, round, strings.Repeat("x", 2000))))
			if i == 30 {
				ok(t, db.Flush(ctx))
			}
		}
	}
	db := open("db")
	write(db, 0)
	mustClose(t, db)
	ok(t, os.Mkdir(root+"/copy", 0o777))
	entries, err := os.ReadDir(root + "/db")
	ok(t, err)
	for _, e := range entries {
		ok(t, os.Link(root+"/db/"+e.Name(), root+"/copy/"+e.Name()))
	}
	before := readDir(t, root+"/copy")
	for round := range 3 {
		db := open("db")
		write(db, round+1)
		_, err := engine.Open(root+"/copy", nil)
		wantIs(t, err, engine.ErrLocked)
		ok(t, db.Compact(ctx))
		mustClose(t, db)
	}
	for name, content := range readDir(t, root+"/copy") {
		if name != "RESERVE" && content != before[name] {
			t.Errorf("%s has changed", name)
		}
	}
	db = open("copy")
	ok(t, second(db.Verify(ctx, nil)))
	for k, v := range content(t, db) {
		if !strings.HasPrefix(v, "0") {
			t.Errorf("%s is of a later round", k)
		}
	}
	mustClose(t, db)
}
