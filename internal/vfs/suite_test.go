package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

var ok, wantIs = testutil.OK, testutil.WantIs

// forEach runs a test over every implementation, in an empty directory.
func forEach(t *testing.T, fn func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("os", func(t *testing.T) { fn(t, vfs.OS(), t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		m := vfs.NewMem()
		ok(t, m.MkdirAll("/db"))
		fn(t, m, filepath.FromSlash("/db"))
	})
	t.Run("crash", func(t *testing.T) {
		c := vfstest.NewCrash()
		ok(t, c.MkdirAll("/db"))
		fn(t, c, filepath.FromSlash("/db"))
	})
	t.Run("fault", func(t *testing.T) {
		fn(t, vfstest.NewFault(vfs.OS(), func(vfstest.Op) error { return nil }), t.TempDir())
	})
}

// forEachFlat is forEach for tests that need no directory within the directory: on a Dir, too.
func forEachFlat(t *testing.T, fn func(t *testing.T, fsys vfs.FS, dir string)) {
	forEach(t, fn)
	t.Run("dir", func(t *testing.T) {
		dir := t.TempDir()
		fn(t, openDir(t, vfs.OS(), dir), dir)
	})
	t.Run("dir of mem", func(t *testing.T) {
		m := vfs.NewMem()
		ok(t, m.MkdirAll("db"))
		fn(t, openDir(t, m, "db"), "db")
	})
}

func openDir(t *testing.T, fsys vfs.FS, dir string) *vfs.Dir {
	t.Helper()
	d, err := vfs.OpenDir(fsys, dir)
	ok(t, err)
	t.Cleanup(func() { ok(t, d.Close()) })
	return d
}

func create(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	ok(t, vfstest.WriteFile(fsys, name, []byte(content)))
}

func read(t *testing.T, f vfs.File) string {
	t.Helper()
	n, err := f.Size()
	ok(t, err)
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return string(b)
}

func wantContent(t *testing.T, fsys vfs.FS, name, want string) {
	t.Helper()
	got, err := vfstest.ReadFile(fsys, name)
	ok(t, err)
	if string(got) != want {
		t.Fatalf("%s contains %q, want %q", name, got, want)
	}
}

func TestReadWrite(t *testing.T) {
	forEachFlat(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		f, err := fsys.Create(name)
		ok(t, err)
		if f.Name() != name {
			t.Fatalf("name %q, want %q", f.Name(), name)
		}
		for _, s := range []string{"hello ", "world"} {
			_, err := f.Write([]byte(s))
			ok(t, err)
		}
		_, err = f.WriteAt([]byte("W"), 6)
		ok(t, err)
		_, err = f.Write([]byte("!")) // WriteAt has not moved the position
		ok(t, err)
		ok(t, f.Sync())
		if got := read(t, f); got != "hello World!" {
			t.Fatalf("got %q", got)
		}
		_, err = f.WriteAt([]byte("z"), 20<<10) // leaves a hole of zeros
		ok(t, err)
		b := make([]byte, 20<<10)
		n, err := f.ReadAt(b, 12)
		if n != 20<<10-11 || err != io.EOF {
			t.Fatalf("short read: %d, %v", n, err)
		}
		if !bytes.Equal(b[:n-1], make([]byte, n-1)) || b[n-1] != 'z' {
			t.Fatal("a hole must read as zeros")
		}
		if n, err := f.ReadAt(b, 1<<20); n != 0 || err != io.EOF {
			t.Fatalf("read past the end: %d, %v", n, err)
		}
		ok(t, f.Close())
	})
}

func TestCreateReplaces(t *testing.T) {
	forEach(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		create(t, fsys, name, "old")
		ok(t, fsys.Link(name, other))
		old, err := fsys.Open(name)
		ok(t, err)
		create(t, fsys, name, "n")
		wantContent(t, fsys, name, "n")
		wantContent(t, fsys, other, "old")
		if got := read(t, old); got != "old" {
			t.Fatalf("the open file changed to %q", got)
		}
		ok(t, old.Close())
		ok(t, fsys.MkdirAll(filepath.Join(dir, "d")))
		if _, err := fsys.Create(filepath.Join(dir, "d")); err == nil {
			t.Fatal("create over a directory succeeded")
		}
		if info, err := fsys.Stat(filepath.Join(dir, "d")); err != nil || !info.IsDir {
			t.Fatalf("the directory is gone: %v", err)
		}
	})
}

func TestTruncateAllocate(t *testing.T) {
	forEachFlat(t, func(t *testing.T, fsys vfs.FS, dir string) {
		f, err := fsys.Create(filepath.Join(dir, "a"))
		ok(t, err)
		defer f.Close()
		wantSize := func(want int64) {
			t.Helper()
			if n, err := f.Size(); err != nil || n != want {
				t.Fatalf("size %d, %v, want %d", n, err, want)
			}
		}
		_, err = f.WriteAt(bytes.Repeat([]byte("x"), 40<<10), 0)
		ok(t, err)
		ok(t, f.Truncate(5))
		ok(t, f.Allocate(100<<10))
		wantSize(100 << 10)
		if got := read(t, f); got[:5] != "xxxxx" || got[5:] != string(make([]byte, 100<<10-5)) {
			t.Fatal("bytes cut off must come back as zeros")
		}
		ok(t, f.Allocate(7)) // never shrinks
		wantSize(100 << 10)
		ok(t, f.Allocate(0))
		ok(t, f.Truncate(200<<10))
		wantSize(200 << 10)
		ok(t, f.Truncate(0))
		wantSize(0)
	})
}

func TestOpenErrors(t *testing.T) {
	forEach(t, func(t *testing.T, fsys vfs.FS, dir string) {
		missing := filepath.Join(dir, "missing")
		for _, err := range []error{
			second(fsys.Open(missing)), second(fsys.OpenReadWrite(missing)),
			second(fsys.Stat(missing)),
			second(fsys.List(missing)), second(fsys.Create(filepath.Join(missing, "a"))),
			second(fsys.Lock(filepath.Join(missing, "LOCK"), "", false)),
			second(vfs.OpenDir(fsys, missing)),
			fsys.Remove(missing), fsys.Rename(missing, missing+"2"),
			fsys.Link(missing, missing+"2"),
			fsys.Rename(missing, filepath.Join(missing, "x")),
		} {
			wantIs(t, err, fs.ErrNotExist)
		}
		name := filepath.Join(dir, "a")
		create(t, fsys, name, "a")
		wantIs(t, fsys.Link(name, name), fs.ErrExist)
		r, err := fsys.Open(name)
		ok(t, err)
		if _, err := r.WriteAt([]byte("x"), 0); err == nil {
			t.Fatal("write to a file opened for reading succeeded")
		}
		ok(t, r.Close())
		w, err := fsys.OpenReadWrite(name)
		ok(t, err)
		_, err = w.Write([]byte("b"))
		ok(t, err)
		ok(t, w.Close())
		wantContent(t, fsys, name, "b")
	})
}

func second[T any](_ T, err error) error { return err }

func TestClosedFile(t *testing.T) {
	forEachFlat(t, func(t *testing.T, fsys vfs.FS, dir string) {
		f, err := fsys.Create(filepath.Join(dir, "a"))
		ok(t, err)
		ok(t, f.Close())
		b := make([]byte, 1)
		for _, err := range []error{
			second(f.ReadAt(b, 0)), second(f.WriteAt(b, 0)), second(f.Write(b)),
			f.Sync(), f.Truncate(1), f.Allocate(1), second(f.Size()), second(f.Links()),
			f.Close(),
		} {
			wantIs(t, err, fs.ErrClosed)
		}
		if m, ok := f.(vfs.Mapper); ok {
			wantIs(t, second(m.Map(1)), fs.ErrClosed)
		}
	})
}

func TestOpenFileSurvivesRemoveAndRename(t *testing.T) {
	forEachFlat(t, func(t *testing.T, fsys vfs.FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		create(t, fsys, a, "first")
		create(t, fsys, b, "second")
		fa, err := fsys.Open(a)
		ok(t, err)
		fb, err := fsys.Open(b)
		ok(t, err)
		ok(t, fsys.Rename(a, b))
		wantContent(t, fsys, b, "first")
		wantIs(t, second(fsys.Stat(a)), fs.ErrNotExist)
		ok(t, vfs.SyncNamed(fa))
		wantIs(t, vfs.SyncNamed(fb), vfs.ErrRemoved)
		wantIs(t, vfs.SyncNamed(fb), fs.ErrNotExist)
		ok(t, fsys.Remove(b))
		wantIs(t, second(fsys.Open(b)), fs.ErrNotExist)
		if got := read(t, fa) + read(t, fb); got != "firstsecond" {
			t.Fatalf("open files changed to %q", got)
		}
		ok(t, fa.Close())
		ok(t, fb.Close())
	})
}

func TestDirectories(t *testing.T) {
	forEach(t, func(t *testing.T, fsys vfs.FS, dir string) {
		sub := filepath.Join(dir, "x", "y")
		ok(t, fsys.MkdirAll(sub))
		ok(t, fsys.MkdirAll(sub))
		create(t, fsys, filepath.Join(sub, "f"), "content")
		create(t, fsys, filepath.Join(dir, "b"), "")
		create(t, fsys, filepath.Join(dir, "a"), "")
		names, err := fsys.List(dir)
		ok(t, err)
		if !slices.Equal(names, []string{"a", "b", "x"}) {
			t.Fatalf("list: %q", names)
		}
		if fsys.Remove(sub) == nil {
			t.Fatal("removed a directory that has a file")
		}
		ok(t, fsys.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "z")))
		wantContent(t, fsys, filepath.Join(dir, "z", "y", "f"), "content")
		ok(t, fsys.Remove(filepath.Join(dir, "z", "y", "f")))
		ok(t, fsys.Remove(filepath.Join(dir, "z", "y")))
		wantIs(t, second(fsys.Stat(filepath.Join(dir, "z", "y"))), fs.ErrNotExist)
		ok(t, fsys.SyncDir(dir))
		wantIs(t, fsys.SyncDir(sub), fs.ErrNotExist)
		if fsys.MkdirAll(filepath.Join(dir, "a", "b")) == nil {
			t.Fatal("made a directory below a file")
		}
	})
}

func TestLock(t *testing.T) {
	forEachFlat(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		conflict := func(shared bool, owner string) {
			t.Helper()
			_, err := fsys.Lock(name, "second", shared)
			var locked *vfs.LockedError
			if !errors.As(err, &locked) || locked.Name != name || locked.Owner != owner {
				t.Fatalf("got %v, want a lock held by %q", err, owner)
			}
		}
		ex, err := fsys.Lock(name, "first", false)
		ok(t, err)
		conflict(false, "first")
		conflict(true, "first")
		ok(t, ex.Close())
		wantIs(t, ex.Close(), fs.ErrClosed)
		if _, err := fsys.Stat(name); err != nil {
			t.Fatalf("the lock file must stay: %v", err)
		}
		s1, err := fsys.Lock(name, "", true)
		ok(t, err)
		s2, err := fsys.Lock(name, "", true)
		ok(t, err)
		conflict(false, "") // the former owner is not blamed
		ok(t, s1.Close())
		conflict(false, "")
		ok(t, s2.Close())
		ex, err = fsys.Lock(name, "third", false)
		ok(t, err)
		conflict(true, "third")
		ok(t, ex.Close())
	})
}

func TestSharedFile(t *testing.T) {
	forEachFlat(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "shared")
		open := func() vfs.SharedFile {
			f, err := fsys.OpenShared(name)
			ok(t, err)
			return f
		}
		lock := func(f vfs.SharedFile, off int64, want bool) {
			t.Helper()
			if ok, err := f.TryLock(off, 8); ok != want || err != nil {
				t.Fatalf("lock at %d: %v, %v, want %v", off, ok, err, want)
			}
		}
		held := func(f vfs.SharedFile, off int64, want bool) {
			t.Helper()
			if ok, err := f.Locked(off, 8); ok != want || err != nil {
				t.Fatalf("locked at %d: %v, %v, want %v", off, ok, err, want)
			}
		}
		a := open()
		ok(t, second(a.WriteAt([]byte("0123456789abcdef"), 0)))
		b := open() // nothing is replaced
		got := make([]byte, 16)
		if _, err := b.ReadAt(got, 0); err != nil || string(got) != "0123456789abcdef" {
			t.Fatalf("read %q, %v", got, err)
		}
		lock(a, 0, true)
		lock(b, 0, false)
		lock(b, 8, true)
		held(a, 0, false) // its own
		held(a, 8, true)
		held(b, 0, true)
		held(a, 16, false)
		if _, err := b.ReadAt(got, 0); err != nil { // a lock stops no reader
			t.Fatal(err)
		}
		ok(t, a.Close())
		held(b, 0, false)
		lock(b, 0, true)
		ok(t, b.Close())
	})
}

func TestConcurrentUse(t *testing.T) {
	forEachFlat(t, func(t *testing.T, fsys vfs.FS, dir string) {
		shared, err := fsys.Create(filepath.Join(dir, "shared"))
		ok(t, err)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 20 {
					name := filepath.Join(dir, fmt.Sprintf("%d-%d", g, i))
					f, err := fsys.Create(name)
					if err != nil {
						t.Error(err)
						return
					}
					off := int64(g*20+i) * 8
					err = errors.Join(
						second(shared.WriteAt([]byte("12345678"), off)), shared.Sync(),
						second(shared.ReadAt(make([]byte, 8), off)), second(f.Write([]byte("x"))),
						fsys.Rename(name, name+"r"), fsys.Remove(name+"r"), f.Close(),
						second(fsys.List(dir)))
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := read(t, shared); got != string(bytes.Repeat([]byte("12345678"), 160)) {
			t.Fatal("lost a write")
		}
		ok(t, shared.Close())
	})
}

func TestCopyFile(t *testing.T) {
	forEachFlat(t, func(t *testing.T, fsys vfs.FS, dir string) {
		src, dst := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		content := strings.Repeat("content ", 100_000)
		create(t, fsys, src, content)
		for _, n := range []int{len(content), 300_000, 1, 0} {
			create(t, fsys, dst, "what was there")
			ok(t, vfs.CopyFile(fsys, src, fsys, dst, int64(n), nil))
			f, err := fsys.Open(dst)
			ok(t, err)
			if got := read(t, f); got != content[:n] {
				t.Errorf("%d bytes copied: %d are there", n, len(got))
			}
			ok(t, f.Close())
		}
		long := int64(len(content) + 1)
		wantIs(t, vfs.CopyFile(fsys, src, fsys, dst, long, nil), io.ErrUnexpectedEOF)
		wantIs(t, vfs.CopyFile(fsys, dst+"2", fsys, dst, 1, nil), fs.ErrNotExist)
		paced := int64(0)
		stop := errors.New("stop")
		wantIs(t, vfs.CopyFile(fsys, src, fsys, dst, long-1, func(n int64) error {
			if paced += n; paced > long/2 {
				return stop
			}
			return nil
		}), stop)
		if paced <= long/2 || paced >= long-1 {
			t.Errorf("%d of %d bytes were copied until it was stopped", paced, long-1)
		}
	})
}

func TestCannotLink(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, fs.ErrExist: false, fs.ErrNotExist: false, vfs.ErrNoSpace: false,
		errors.ErrUnsupported: true,
		&os.LinkError{Op: "link", Err: errors.ErrUnsupported}: true,
	} {
		if got := vfs.CannotLink(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
