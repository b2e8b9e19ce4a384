//go:build linux

package wal_test

import (
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// readyFS notes which parts of mappings are made ready, and what happens to their files.
type readyFS struct {
	vfs.FS
	mu     sync.Mutex
	err    error
	all    []readyPart // Guarded by mu
	events []event     // Guarded by mu: of files that are mapped
}

type event struct{ file, what string }

// ready returns such a file system and the options of a log in it.
func ready(t *testing.T, segmentBytes int64) (*readyFS, wal.Options) {
	t.Helper()
	dir := t.TempDir()
	if !mapped(t, dir) {
		t.Skip("the temporary directory is on a file system without preallocation")
	}
	fsys := &readyFS{FS: vfs.OS()}
	return fsys, wal.Options{FS: fsys, Dir: dir, DBID: testDBID, SegmentBytes: segmentBytes,
		Mapped: true}
}

// lastEvents returns the last event of each file.
func (f *readyFS) lastEvents() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := map[string]string{}
	for _, e := range f.events {
		last[e.file] = e.what
	}
	return last
}

// letGo returns how often pages were let go.
func (f *readyFS) letGo() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.what == "let go" {
			n++
		}
	}
	return n
}

func (f *readyFS) note(file, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, event{file, what})
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

func (f *readyFile) Sync() error {
	f.fs.note(f.Name(), "sync")
	return f.File.Sync()
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
	return m.Mapping.(vfs.Pager).Populate(off, n)
}

func (m *readyMapping) LetGo(off, n int64) error {
	m.file.fs.note(m.file.Name(), "let go")
	return m.Mapping.(vfs.Pager).LetGo(off, n)
}

func (m *readyMapping) Unmap() error {
	m.file.fs.note(m.file.Name(), "unmap")
	return m.Mapping.Unmap()
}

// Records that are synced one by one find blocks that were written before: few syncs make
// blocks ready, each of them what is after the records and was not ready, and none in a
// segment that is used again.
func TestBlocksAreReadyBeforeTheirRecords(t *testing.T) {
	fsys, o := ready(t, 1<<20)
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
	fsys, o := ready(t, 4<<20)
	fsys.err = errBoom
	l := openNew(t, o)
	for i := range 300 {
		_, err := l.Append(make([]byte, 10_000))
		ok(t, err)
		if i%30 == 29 {
			ok(t, l.Sync(base.MaxSeqNum))
		}
	}
	for _, p := range fsys.parts() {
		if p.to-p.off > 100_000 {
			t.Errorf("rare syncs have made %v ready", p)
		}
	}
	rare := len(fsys.parts())
	for range 50 {
		seq, err := l.Append(make([]byte, 1000))
		ok(t, err)
		ok(t, l.Sync(seq))
	}
	if parts := fsys.parts()[rare:]; len(parts) != 1 {
		t.Errorf("after an error %v", parts)
	}
	ok(t, l.Close())
}

// A log that streams makes pages writable in steps, and lets them go before a sync would take them
// one by one. One that is synced often, or is short, does neither.
func TestPagesOfALogThatStreams(t *testing.T) {
	fsys, o := ready(t, 1<<20)
	l := openNew(t, o)
	write := func(n int) {
		for range n {
			_, err := l.Append(make([]byte, 1000))
			ok(t, err)
		}
	}
	for active(t, l).Num < 2 { // the first segment is not mapped
		write(1)
	}
	ok(t, l.Sync(base.MaxSeqNum))
	for range 60 {
		write(1)
		ok(t, l.Sync(base.MaxSeqNum))
	}
	parts := len(fsys.parts())
	write(50)
	if n := len(fsys.parts()) - parts; n > 0 {
		t.Errorf("%d parts of a short log are made writable", n)
	}
	write(4000)
	for i, p := range fsys.parts()[parts:] {
		if n := p.to - p.off; n > 70_000 && n < 250_000 || n < 60_000 && p.to != 1<<20 {
			t.Errorf("part %d: %v", i, p)
		}
	}
	if n := len(fsys.parts()) - parts; n < 50 || n > 90 {
		t.Errorf("%d parts are made writable for 4 MB", n)
	}
	for active(t, l).UsedBytes < 500_000 {
		write(1)
	}
	ok(t, l.Sync(base.MaxSeqNum))
	let := fsys.letGo()
	write(100)
	ok(t, l.Sync(base.MaxSeqNum))
	if fsys.letGo() == let {
		t.Error("100 KB are synced while they are mapped")
	}
	for file, what := range fsys.lastEvents() {
		if what == "unmap" {
			t.Errorf("%s was synced while it was mapped", file)
		}
	}
	last := l.LastSeq()
	ok(t, l.Close())
	if tail, _ := replay(t, o, 0, last+1); tail.LastSeq != last {
		t.Errorf("the log ends at %d, want %d", tail.LastSeq, last)
	}
}

// A log that streams keeps little of what it has written in its mapping, whenever it is synced.
func TestPagesWithoutSyncs(t *testing.T) {
	fsys, o := ready(t, 8<<20)
	l := openNew(t, o)
	for active(t, l).Num < 2 {
		_, err := l.Append(make([]byte, 1000))
		ok(t, err)
	}
	before := fsys.letGo()
	for range 5000 {
		_, err := l.Append(make([]byte, 1000))
		ok(t, err)
	}
	if n := fsys.letGo() - before; n < 3 || n > 5 {
		t.Errorf("pages of 5 MB are let go %d times, want once a MiB", n)
	}
	last := l.LastSeq()
	ok(t, l.Close())
	if tail, _ := replay(t, o, 0, last+1); tail.LastSeq != last {
		t.Errorf("the log ends at %d, want %d", tail.LastSeq, last)
	}
}
