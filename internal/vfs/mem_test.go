package vfs_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
)

func TestMemCapacity(t *testing.T) {
	m := vfs.NewMem()
	m.SetCapacity(100)
	f, err := m.Create("a")
	must(t, err)
	must(t, f.Allocate(60))
	wantIs(t, f.Allocate(101), vfs.ErrNoSpace)
	wantIs(t, f.Truncate(101), vfs.ErrNoSpace)
	g, err := m.Create("b")
	must(t, err)
	n, err := g.Write(make([]byte, 50))
	wantIs(t, err, vfs.ErrNoSpace)
	if n != 40 {
		t.Fatalf("wrote %d bytes, want the 40 that fit", n)
	}
	if n, err = g.Write([]byte("x")); n != 0 || !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatalf("full: wrote %d, %v", n, err)
	}
	_, err = f.WriteAt(make([]byte, 60), 0) // overwriting needs no space
	must(t, err)
	must(t, m.Remove("a"))
	if got := m.UsedBytes(); got != 100 {
		t.Fatalf("a removed but open file holds its space: used %d", got)
	}
	must(t, f.Close())
	if got := m.UsedBytes(); got != 40 {
		t.Fatalf("used %d, want 40", got)
	}
	_, err = g.Write([]byte("x"))
	must(t, err)
	m.SetCapacity(0)
	must(t, g.Truncate(1<<30))
	if m.OpenFiles() != 1 {
		t.Fatalf("%d open files, want 1", m.OpenFiles())
	}
	must(t, g.Close())
}

func TestMemFilesAreNotMapped(t *testing.T) {
	f, err := vfs.NewMem().Create("a")
	must(t, err)
	if _, ok := f.(vfs.Mapper); ok {
		t.Fatal("memory files must not implement Mapper")
	}
	must(t, f.Close())
}

func TestMemRenameOntoOwnLink(t *testing.T) {
	m := vfs.NewMem()
	create(t, m, "a", "x")
	must(t, m.Link("a", "b"))
	must(t, m.Rename("a", "b")) // POSIX: two names of one file, nothing happens
	wantContent(t, m, "a", "x")
	wantContent(t, m, "b", "x")
}

func TestFaultHook(t *testing.T) {
	boom := errors.New("boom")
	var fail vfs.OpKind
	var seen []string
	m := vfs.NewMem()
	fsys := vfs.NewFault(m, func(op vfs.Op) error {
		seen = append(seen, op.Kind.String())
		if op.Kind == fail {
			return boom
		}
		if op.Kind == vfs.OpWriteAt && op.Offset == 3 {
			return &vfs.ShortWriteError{N: 2, Err: boom}
		}
		return nil
	})
	f, err := fsys.Create("a")
	must(t, err)
	_, err = f.Write([]byte("abc"))
	must(t, err)
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
	ops := map[vfs.OpKind]func() error{
		vfs.OpCreate: func() error { return second(fsys.Create("x")) },
		vfs.OpOpen:   func() error { return second(fsys.Open("a")) },
		vfs.OpOpenReadWrite: func() error {
			return second(fsys.OpenReadWrite("a"))
		},
		vfs.OpRemove:   func() error { return fsys.Remove("a") },
		vfs.OpRename:   func() error { return fsys.Rename("a", "b") },
		vfs.OpLink:     func() error { return fsys.Link("a", "b") },
		vfs.OpMkdirAll: func() error { return fsys.MkdirAll("d") },
		vfs.OpSyncDir:  func() error { return fsys.SyncDir(".") },
		vfs.OpList:     func() error { return second(fsys.List(".")) },
		vfs.OpStat:     func() error { return second(fsys.Stat("a")) },
		vfs.OpLock:     func() error { return second(fsys.Lock("l", "", false)) },
		vfs.OpReadAt:   func() error { return second(f.ReadAt(make([]byte, 1), 0)) },
		vfs.OpWriteAt:  func() error { return second(f.WriteAt([]byte("x"), 0)) },
		vfs.OpWrite:    func() error { return second(f.Write([]byte("x"))) },
		vfs.OpSync:     f.Sync,
		vfs.OpTruncate: func() error { return f.Truncate(0) },
		vfs.OpAllocate: func() error { return f.Allocate(9) },
	}
	for kind, op := range ops {
		fail = kind
		wantIs(t, op(), boom)
	}
	fail = 0
	wantContent(t, m, "a", "abcde")
	fail = vfs.OpClose
	wantIs(t, f.Close(), boom)
	if m.OpenFiles() != 0 {
		t.Fatal("a failing close must still close")
	}
}
