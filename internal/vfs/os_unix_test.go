//go:build linux || darwin

package vfs_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
)

func TestMap(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	f, err := vfs.OS().Create(name)
	ok(t, err)
	mapper := f.(vfs.Mapper)
	for _, size := range []int64{0, -1, 1} {
		if _, err := mapper.Map(size); err == nil {
			t.Fatalf("mapped %d bytes of an empty file", size)
		}
	}
	ok(t, f.Allocate(8192))
	m, err := mapper.Map(8192)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the file system of the temporary directory cannot reserve blocks")
	}
	ok(t, err)
	copy(m.Bytes()[5000:], "mapped")
	ok(t, f.Sync())
	b := make([]byte, 6)
	_, err = f.ReadAt(b, 5000)
	ok(t, err)
	if string(b) != "mapped" {
		t.Fatalf("read %q through the file", b)
	}
	if w, writesBack := f.(vfs.Writebacker); writesBack {
		ok(t, w.StartWriteback(0, 8192))
	}
	ok(t, f.Close())
	copy(m.Bytes(), "after close") // a mapping outlives the handle
	ok(t, m.Unmap())
	ok(t, m.Unmap())
	if m.Bytes() != nil {
		t.Fatal("bytes of an ended mapping")
	}
	g, err := vfs.OS().Open(name)
	ok(t, err)
	if got := read(t, g); got[:11] != "after close" {
		t.Fatalf("got %q", got[:11])
	}
	if _, err := g.(vfs.Mapper).Map(8192); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("writable mapping of a file opened for reading: %v", err)
	}
	ok(t, g.Close())
}

// /dev/full gives a genuine ENOSPC.
func TestNoSpaceIsRecognised(t *testing.T) {
	f, err := vfs.OS().OpenReadWrite("/dev/full")
	if err != nil {
		t.Skipf("no /dev/full: %v", err)
	}
	defer f.Close()
	_, err = f.Write([]byte("x"))
	wantIs(t, err, vfs.ErrNoSpace)
	var pe *fs.PathError
	if !errors.As(err, &pe) {
		t.Fatalf("%v hides the system's error", err)
	}
}
