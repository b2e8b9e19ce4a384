package vfs_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

func TestMemCapacity(t *testing.T) {
	m := vfs.NewMem()
	m.SetCapacity(100)
	f, err := m.Create("a")
	ok(t, err)
	ok(t, f.Allocate(60))
	wantIs(t, f.Allocate(101), vfs.ErrNoSpace)
	wantIs(t, f.Truncate(101), vfs.ErrNoSpace)
	g, err := m.Create("b")
	ok(t, err)
	n, err := g.Write(make([]byte, 50))
	wantIs(t, err, vfs.ErrNoSpace)
	if n != 40 {
		t.Fatalf("wrote %d bytes, want the 40 that fit", n)
	}
	if n, err = g.Write([]byte("x")); n != 0 || !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatalf("full: wrote %d, %v", n, err)
	}
	_, err = f.WriteAt(make([]byte, 60), 0) // overwriting needs no space
	ok(t, err)
	ok(t, m.Remove("a"))
	if got := m.UsedBytes(); got != 100 {
		t.Fatalf("a removed but open file holds its space: used %d", got)
	}
	ok(t, f.Close())
	if got := m.UsedBytes(); got != 40 {
		t.Fatalf("used %d, want 40", got)
	}
	_, err = g.Write([]byte("x"))
	ok(t, err)
	m.SetCapacity(0)
	ok(t, g.Truncate(1<<30))
	if m.OpenFiles() != 1 {
		t.Fatalf("%d open files, want 1", m.OpenFiles())
	}
	ok(t, g.Close())
}

func TestMemFilesAreNotMapped(t *testing.T) {
	f, err := vfs.NewMem().Create("a")
	ok(t, err)
	if _, ok := f.(vfs.Mapper); ok {
		t.Fatal("memory files must not implement Mapper")
	}
	ok(t, f.Close())
}

func TestMemRenameOntoOwnLink(t *testing.T) {
	m := vfs.NewMem()
	create(t, m, "a", "x")
	ok(t, m.Link("a", "b"))
	ok(t, m.Rename("a", "b")) // POSIX: two names of one file, nothing happens
	wantContent(t, m, "a", "x")
	wantContent(t, m, "b", "x")
}

func TestFaultHook(t *testing.T) {
	boom := errors.New("boom")
	var fail vfstest.OpKind
	var seen []string
	m := vfs.NewMem()
	fsys := vfstest.NewFault(m, func(op vfstest.Op) error {
		seen = append(seen, op.Kind.String())
		if op.Kind == fail {
			return boom
		}
		if op.Kind == vfstest.OpWriteAt && op.Offset == 3 {
			return &vfstest.ShortWriteError{N: 2, Err: boom}
		}
		return nil
	})
	f, err := fsys.Create("a")
	ok(t, err)
	_, err = f.Write([]byte("abc"))
	ok(t, err)
	n, err := f.WriteAt([]byte("defg"), 3)
	if wantIs(t, err, boom); n != 2 {
		t.Fatalf("short write of %d, want 2", n)
	}
	if got := read(t, f); got != "abcde" {
		t.Fatalf("content %q", got)
	}
	want := []string{"create", "write", "write-at", "read-at"}
	if !slices.Equal(seen, want) {
		t.Fatalf("hook saw %q, want %q", seen, want)
	}
	ops := map[vfstest.OpKind]func() error{
		vfstest.OpCreate: func() error { return second(fsys.Create("x")) },
		vfstest.OpOpen:   func() error { return second(fsys.Open("a")) },
		vfstest.OpOpenReadWrite: func() error {
			return second(fsys.OpenReadWrite("a"))
		},
		vfstest.OpRemove:   func() error { return fsys.Remove("a") },
		vfstest.OpRename:   func() error { return fsys.Rename("a", "b") },
		vfstest.OpLink:     func() error { return fsys.Link("a", "b") },
		vfstest.OpMkdirAll: func() error { return fsys.MkdirAll("d") },
		vfstest.OpSyncDir:  func() error { return fsys.SyncDir(".") },
		vfstest.OpList:     func() error { return second(fsys.List(".")) },
		vfstest.OpStat:     func() error { return second(fsys.Stat("a")) },
		vfstest.OpLock:     func() error { return second(fsys.Lock("l", "", false)) },
		vfstest.OpReadAt:   func() error { return second(f.ReadAt(make([]byte, 1), 0)) },
		vfstest.OpWriteAt:  func() error { return second(f.WriteAt([]byte("x"), 0)) },
		vfstest.OpWrite:    func() error { return second(f.Write([]byte("x"))) },
		vfstest.OpSync:     f.Sync,
		vfstest.OpTruncate: func() error { return f.Truncate(0) },
		vfstest.OpAllocate: func() error { return f.Allocate(9) },
	}
	for kind, op := range ops {
		fail = kind
		wantIs(t, op(), boom)
	}
	fail = 0
	wantContent(t, m, "a", "abcde")
	fail = vfstest.OpClose
	wantIs(t, f.Close(), boom)
	if m.OpenFiles() != 0 {
		t.Fatal("a failing close must still close")
	}
}
