package vfs_test

import (
	"bytes"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
)

// Pages are made ready and let go without a change of a byte, also while others store to them.
func TestPopulate(t *testing.T) {
	f, err := vfs.OS().Create(filepath.Join(t.TempDir(), "f"))
	ok(t, err)
	const size = 1 << 20
	ok(t, f.Allocate(size))
	want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	_, err = f.WriteAt(want[:size/2], 0)
	ok(t, err)
	m, err := f.(vfs.Mapper).Map(size)
	if err != nil {
		t.Skip("the temporary directory is on a file system without preallocation")
	}
	p := m.(vfs.Pager)
	var all sync.WaitGroup
	all.Go(func() { copy(m.Bytes()[size/2:], want[size/2:]) })
	for _, part := range [][2]int64{{0, 1}, {4095, 2}, {100, size}, {size - 1, 1}, {size, 10}} {
		if err := p.Populate(part[0], part[1]); err != nil {
			t.Skipf("the kernel does not: %v", err)
		}
	}
	for range 100 {
		ok(t, p.LetGo(0, size))
	}
	all.Wait()
	ok(t, f.Sync())
	got := make([]byte, size)
	_, err = f.ReadAt(got, 0)
	ok(t, err)
	if !bytes.Equal(got, want) {
		t.Error("the content has changed")
	}
	ok(t, m.Unmap())
	ok(t, p.Populate(0, size)) // nothing is left to do
	ok(t, f.Close())
}
