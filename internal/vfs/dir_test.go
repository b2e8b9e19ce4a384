package vfs_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

func TestOpenDirOfAFile(t *testing.T) {
	forEach(t, func(t *testing.T, fsys vfs.FS, dir string) {
		create(t, fsys, filepath.Join(dir, "a"), "x")
		wantIs(t, second(vfs.OpenDir(fsys, filepath.Join(dir, "a"))), vfs.ErrNotDir)
	})
}

// A Dir of the operating system has nothing to do with names elsewhere.
func TestDirRefusesNamesOutside(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "db")
	ok(t, vfs.OS().MkdirAll(filepath.Join(dir, "sub")))
	create(t, vfs.OS(), filepath.Join(parent, "a"), "x")
	d := openDir(t, vfs.OS(), dir)
	create(t, d, filepath.Join(dir, "in"), "x")
	for _, name := range []string{
		filepath.Join(parent, "a"), "a", "", dir, filepath.Join(dir, "sub", "a"),
		dir + "/../a", filepath.Join(parent, "db2", "a"),
	} {
		in := filepath.Join(dir, "in")
		for op, err := range map[string]error{
			"create": second(d.Create(name)), "open": second(d.Open(name)),
			"open for writing": second(d.OpenReadWrite(name)), "remove": d.Remove(name),
			"rename": d.Rename(name, in), "rename to": d.Rename(in, name),
			"link": d.Link(name, in+"2"), "link to": d.Link(in, name),
			"lock": second(d.Lock(name, "", false)),
		} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s %q: %v", op, name, err)
			}
		}
	}
	for _, name := range []string{parent, filepath.Join(dir, "sub"), "."} {
		wantIs(t, second(d.List(name)), fs.ErrInvalid)
		wantIs(t, d.SyncDir(name), fs.ErrInvalid)
		wantIs(t, d.MkdirAll(name), fs.ErrInvalid)
	}
	wantContent(t, d, dir+"/./in", "x")
}

// Every way to write the name of a directory works.
func TestDirNames(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, vfs.OS().MkdirAll("a/b"))
	for _, dir := range []string{".", "a", "./a", "a/", "a//b/.", "a/b/..", "../" + base(t)} {
		d := openDir(t, vfs.OS(), dir)
		name := filepath.Join(dir, "f")
		create(t, d, name, dir)
		wantContent(t, vfs.OS(), name, dir)
		ok(t, d.SyncDir(dir))
		ok(t, d.MkdirAll(dir))
		names, err := d.List(dir)
		ok(t, err)
		if len(names) == 0 {
			t.Errorf("%s: nothing is listed", dir)
		}
		ok(t, d.Remove(name))
	}
}

func base(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	ok(t, err)
	return filepath.Base(dir)
}

// A failed sync of the directory is final; one that was not made is not.
func TestDirSyncFailsForGood(t *testing.T) {
	m := vfs.NewMem()
	ok(t, m.MkdirAll("db"))
	var fail error
	d := openDir(t, vfstest.NewFault(m, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSyncDir {
			return fail
		}
		return nil
	}), "db")
	for _, passing := range []error{fs.ErrPermission, vfs.ErrNoSpace, fs.ErrNotExist} {
		fail = passing
		wantIs(t, d.SyncDir("db"), passing)
		fail = nil
		ok(t, d.SyncDir("db"))
	}
	fail = errors.New("boom")
	wantIs(t, d.SyncDir("db"), fail)
	was := fail
	fail = nil
	wantIs(t, d.SyncDir("db"), was)
	ok(t, d.SyncDir("."))
}

// A file of one Dir gets a second name in another one, whatever their file system.
func TestLinkInto(t *testing.T) {
	forEach(t, func(t *testing.T, fsys vfs.FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		ok(t, fsys.MkdirAll(a))
		ok(t, fsys.MkdirAll(b))
		from, to := openDir(t, fsys, a), openDir(t, fsys, b)
		create(t, from, filepath.Join(a, "f"), "shared")
		ok(t, from.LinkInto(filepath.Join(a, "f"), to, filepath.Join(b, "g")))
		wantContent(t, to, filepath.Join(b, "g"), "shared")
		f, err := to.Open(filepath.Join(b, "g"))
		ok(t, err)
		if n, err := f.Links(); n != 2 || err != nil {
			t.Errorf("%d names, %v", n, err)
		}
		ok(t, f.Close())
		wantIs(t, from.LinkInto(filepath.Join(a, "f"), to, filepath.Join(b, "g")), fs.ErrExist)
		wantIs(t, from.LinkInto(filepath.Join(a, "x"), to, filepath.Join(b, "x")), fs.ErrNotExist)
	})
	os, mem := openDir(t, vfs.OS(), t.TempDir()), openDir(t, vfs.NewMem(), ".")
	if err := os.LinkInto("a", mem, "b"); !vfs.CannotLink(err) {
		t.Errorf("between file systems: %v", err)
	}
}

// With too many files open an operation is tried again after MoreFiles has closed some.
func TestDirAsksForMoreFiles(t *testing.T) {
	m := vfs.NewMem()
	ok(t, m.MkdirAll("db"))
	refuse := 0
	d := openDir(t, vfstest.NewFault(m, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpCreate, vfstest.OpOpen, vfstest.OpOpenReadWrite, vfstest.OpList:
			if refuse > 0 {
				refuse--
				return &fs.PathError{Op: "open", Path: op.Name, Err: syscall.EMFILE}
			}
		}
		return nil
	}), "db")
	create(t, d, "db/a", "x")
	for name, op := range map[string]func() error{
		"create": func() error { return closing(d.Create("db/b")) },
		"open":   func() error { return closing(d.Open("db/a")) },
		"write":  func() error { return closing(d.OpenReadWrite("db/a")) },
		"list":   func() error { return second(d.List("db")) },
	} {
		refuse, d.MoreFiles = 1, nil
		if err := op(); !vfs.IsTooManyFiles(err) {
			t.Errorf("%s: %v", name, err)
		}
		asked := 0
		refuse, d.MoreFiles = 3, func() bool { asked++; return true }
		if err := op(); err != nil || asked != 3 {
			t.Errorf("%s: asked %d times, %v", name, asked, err)
		}
		refuse, d.MoreFiles = 2, func() bool { return false } // others have closed some
		if err := op(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		refuse, d.MoreFiles = 1000, func() bool { return true }
		if err := op(); !vfs.IsTooManyFiles(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func closing(f vfs.File, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}
