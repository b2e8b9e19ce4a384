//go:build linux || darwin

package vfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/internal/vfs"
)

// A Dir is the directory that was opened: not what is at its path now, nor at the same
// relative path of another working directory.
func TestDirIsNotItsPath(t *testing.T) {
	for name, swap := range map[string]func(){
		"moved": func() { ok(t, os.Rename("db", "old")) },
		"chdir": func() {
			ok(t, os.Mkdir("other", 0o777))
			ok(t, os.Chdir("other"))
		},
		"symlink": func() {
			ok(t, os.Rename("db", "old"))
			ok(t, os.Mkdir("new", 0o777))
			ok(t, os.Symlink("new", "db"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			ok(t, os.Mkdir("db", 0o777))
			d := openDir(t, vfs.OS(), "db")
			for _, f := range []string{"db/a", "db/b", "db/c", "db/LOCK"} {
				create(t, d, f, "first")
			}
			swap()
			ok(t, os.MkdirAll("db", 0o777))
			before := []string{"LOCK", "a", "b", "c"}
			for _, f := range before {
				create(t, vfs.OS(), filepath.Join("db", f), "second")
			}
			create(t, d, "db/a", "third")
			ok(t, d.Rename("db/b", "db/d"))
			ok(t, d.Remove("db/c"))
			ok(t, d.Link("db/d", "db/e"))
			ok(t, d.SyncDir("db"))
			l, err := d.Lock("db/LOCK", "me", false)
			ok(t, err)
			f, err := d.OpenReadWrite("db/e")
			ok(t, err)
			ok(t, f.Truncate(2))
			ok(t, f.Close())
			wantContent(t, d, "db/d", "fi")
			wantList(t, d, "LOCK", "a", "d", "e")
			other, err := vfs.OS().Lock("db/LOCK", "", true) // that of another directory
			ok(t, err)
			ok(t, other.Close())
			ok(t, l.Close())
			wantList(t, vfs.OS(), before...)
			for _, f := range before {
				wantContent(t, vfs.OS(), filepath.Join("db", f), "second")
			}
		})
	}
}

func wantList(t *testing.T, fsys vfs.FS, want ...string) {
	t.Helper()
	names, err := fsys.List("db")
	ok(t, err)
	if !slices.Equal(names, want) {
		t.Errorf("it holds %q, want %q", names, want)
	}
}

// Only regular files are opened and locked: nothing else is followed, waited for or changed.
func TestDirOpensRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	d := openDir(t, vfs.OS(), dir)
	create(t, d, victim, "content")
	for kind, mk := range map[string]func(name string) error{
		"a symbolic link": func(name string) error { return os.Symlink("victim", name) },
		"a named pipe":    func(name string) error { return unix.Mkfifo(name, 0o666) },
		"a socket": func(name string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
		"a directory": func(name string) error { return os.Mkdir(name, 0o777) },
		"a device": func(name string) error {
			return unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 7))) // /dev/full
		},
	} {
		t.Run(kind, func(t *testing.T) {
			name := filepath.Join(dir, "x")
			if err := mk(name); errors.Is(err, fs.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			for op, err := range map[string]error{
				"open": second(d.Open(name)), "open for writing": second(d.OpenReadWrite(name)),
				"lock":        second(d.Lock(name, "owner", false)),
				"shared lock": second(d.Lock(name, "", true)),
			} {
				var special *vfs.NotRegularError
				want := fmt.Sprintf("open %s: it is %s, and only a regular file is opened here: "+
					"remove it, or put the file itself in its place", name, kind)
				if !errors.As(err, &special) || err.Error() != want {
					t.Errorf("%s: %v", op, err)
				}
			}
			if kind == "a directory" {
				if _, err := d.Create(name); err == nil {
					t.Error("created over a directory")
				}
				ok(t, os.Remove(name))
				return
			}
			create(t, d, name, "new") // in place of it
			wantContent(t, d, name, "new")
			ok(t, d.Remove(name))
		})
	}
	wantContent(t, d, victim, "content")
	ok(t, os.Symlink("nothing", filepath.Join(dir, "LOCK")))
	if _, err := d.Lock(filepath.Join(dir, "LOCK"), "owner", false); err == nil {
		t.Error("locked what a symbolic link points to")
	}
	wantIs(t, second(os.Stat(filepath.Join(dir, "nothing"))), fs.ErrNotExist)
	l, err := d.Lock(victim, "", false) // failed attempts hold nothing
	ok(t, err)
	ok(t, l.Close())
}

// Removing the lock file does not end the lock.
func TestLockFileRemoved(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "LOCK")
	for _, shared := range []bool{false, true} {
		a, b := openDir(t, vfs.OS(), dir), openDir(t, vfs.OS(), dir)
		l, err := a.Lock(name, "first", shared)
		ok(t, err)
		ok(t, os.Remove(name))
		for _, fsys := range []vfs.FS{a, b, vfs.OS()} {
			var locked *vfs.LockedError
			if _, err := fsys.Lock(name, "second", false); !errors.As(err, &locked) {
				t.Errorf("locked twice: %v", err)
			}
		}
		ok(t, l.Close())
		l, err = b.Lock(name, "third", false)
		ok(t, err)
		ok(t, l.Close())
	}
}

// A copy of a directory by hard links shares its lock.
func TestLockOfALinkedCopy(t *testing.T) {
	dir, twin := t.TempDir(), t.TempDir()
	name, copied := filepath.Join(dir, "LOCK"), filepath.Join(twin, "LOCK")
	l, err := vfs.OS().Lock(name, "first", false)
	ok(t, err)
	ok(t, os.Link(name, copied))
	var locked *vfs.LockedError
	if _, err := vfs.OS().Lock(copied, "", false); !errors.As(err, &locked) ||
		locked.Owner != "first" {
		t.Errorf("locked twice: %v", err)
	}
	ok(t, l.Close())
}

// Errors of a directory that is gone say so.
func TestRemovedDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	ok(t, os.Mkdir(dir, 0o777))
	d := openDir(t, vfs.OS(), dir)
	name := filepath.Join(dir, "a")
	create(t, d, name, "x")
	wantIs(t, second(d.Open(name+"b")), fs.ErrNotExist)
	if _, err := d.Open(name + "b"); errors.Is(err, vfs.ErrRemoved) {
		t.Errorf("the directory is there: %v", err)
	}
	f, err := d.OpenReadWrite(name)
	ok(t, err)
	defer f.Close()
	ok(t, vfs.SyncNamed(f))
	ok(t, os.RemoveAll(dir))
	ok(t, os.Mkdir(dir, 0o777))
	for _, err := range []error{
		second(d.Create(name)), second(d.Open(name)), d.Rename(name, name+"2"),
		d.Link(name, name+"2"), d.Remove(name), second(d.Stat(name)), second(d.Stat(dir)),
		second(d.Lock(name, "", false)), vfs.SyncNamed(f),
	} {
		wantIs(t, err, vfs.ErrRemoved)
		wantIs(t, err, fs.ErrNotExist)
	}
}

// A lock ends with its Close, although a process that is just being started has copies of
// all descriptors.
func TestLockEndsWhileProcessesStart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	l, err := vfs.OS().Lock(name, "first", false)
	ok(t, err)
	var copies []int
	for fd := 3; fd < 64; fd++ { // what fork does
		if c, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			copies = append(copies, c)
		}
	}
	ok(t, l.Close())
	l, err = vfs.OS().Lock(name, "second", false)
	ok(t, err)
	ok(t, l.Close())
	for _, c := range copies {
		ok(t, unix.Close(c))
	}
}
