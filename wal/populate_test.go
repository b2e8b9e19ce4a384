//go:build linux

package wal_test

import (
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// readyFS notes which parts of mappings are made ready.
type readyFS struct {
	vfs.FS
	mu  sync.Mutex
	err error
	all []readyPart // Guarded by mu
}

type readyPart struct {
	file    string
	off, to int64
}

func (f *readyFS) Create(name string) (vfs.File, error) { return f.wrap(f.FS.Create(name)) }

func (f *readyFS) OpenReadWrite(name string) (vfs.File, error) {
	return f.wrap(f.FS.OpenReadWrite(name))
}

func (f *readyFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &readyFile{file, f}, nil
}

func (f *readyFS) parts() []readyPart {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]readyPart(nil), f.all...)
}

type readyFile struct {
	vfs.File
	fs *readyFS
}

func (f *readyFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.(vfs.Mapper).Map(size)
	return &readyMapping{m, f}, err
}

type readyMapping struct {
	vfs.Mapping
	file *readyFile
}

func (m *readyMapping) Populate(off, n int64) error {
	fs := m.file.fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.all = append(fs.all, readyPart{m.file.Name(), off, off + n})
	if fs.err != nil {
		return fs.err
	}
	return m.Mapping.(vfs.Populator).Populate(off, n)
}

// Records that are synced one by one find blocks that were written before: few syncs make
// blocks ready, each of them what is after the records and was not ready, and none in a
// segment that is used again.
func TestBlocksAreReadyBeforeTheirRecords(t *testing.T) {
	dir := t.TempDir()
	if !mapped(t, dir) {
		t.Skip("the temporary directory is on a file system without preallocation")
	}
	fsys := &readyFS{FS: vfs.OS()}
	o := wal.Options{FS: fsys, Dir: dir, DBID: testDBID, SegmentBytes: 1 << 20, Mapped: true}
	l := openNew(t, o)
	record := make([]byte, 10_000)
	write := func(n int) {
		for range n {
			seq, err := l.Append(record)
			ok(t, err)
			ok(t, l.Sync(seq))
		}
	}
	for active(t, l).Num < 2 {
		write(1) // into the first segment, which is written, and into the first that is mapped
	}
	write(2)
	if n := len(fsys.parts()); n > 0 {
		t.Fatalf("%d parts are made ready for three syncs", n)
	}
	write(90)
	parts := fsys.parts()
	if len(parts) != 4 {
		t.Fatalf("%d parts are made ready for 0.9 MiB: %v", len(parts), parts)
	}
	for i, p := range parts[1:] {
		if last := parts[i]; p.off < last.to || p.off > last.to+11_000 || p.file != last.file {
			t.Errorf("%v follows %v", p, last)
		}
	}
	first := base.SeqNum(1)
	release := func(n int) {
		for range n {
			write(1)
			ok(t, l.Release(l.SyncedSeq()))
		}
		first = l.LastSeq() + 1
	}
	release(500) // the first segments are released, and from then on used again
	many := len(fsys.parts())
	release(500)
	if n := len(fsys.parts()); n != many {
		t.Errorf("%d parts of segments that are used again are made ready", n-many)
	}
	last := l.LastSeq()
	ok(t, l.Close())
	if tail, _ := replay(t, o, 0, first); tail.LastSeq != last {
		t.Errorf("the log ends at %d, want %d", tail.LastSeq, last)
	}
}

// Rare syncs make nothing ready, and its error is not an error of the log.
func TestBlocksNeedNotBeReady(t *testing.T) {
	dir := t.TempDir()
	if !mapped(t, dir) {
		t.Skip("the temporary directory is on a file system without preallocation")
	}
	fsys := &readyFS{FS: vfs.OS(), err: errBoom}
	o := wal.Options{FS: fsys, Dir: dir, DBID: testDBID, SegmentBytes: 4 << 20, Mapped: true}
	l := openNew(t, o)
	for i := range 300 {
		_, err := l.Append(make([]byte, 10_000))
		ok(t, err)
		if i%30 == 29 {
			ok(t, l.Sync(base.MaxSeqNum))
		}
	}
	if parts := fsys.parts(); len(parts) > 0 {
		t.Errorf("rare syncs have made %v ready", parts)
	}
	for range 50 {
		seq, err := l.Append(make([]byte, 1000))
		ok(t, err)
		ok(t, l.Sync(seq))
	}
	if parts := fsys.parts(); len(parts) != 1 {
		t.Errorf("after an error %v", parts)
	}
	ok(t, l.Close())
}
