package wal_test

import (
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

// bentFS fails what a fault hook does not see, and lists files backwards.
type bentFS struct {
	vfs.FS
	sizeErr, linksErr error
}

func (b *bentFS) List(dir string) ([]string, error) {
	names, err := b.FS.List(dir)
	slices.Reverse(names)
	return names, err
}

func (b *bentFS) Open(name string) (vfs.File, error) { return b.bend(b.FS.Open(name)) }

func (b *bentFS) OpenReadWrite(name string) (vfs.File, error) {
	return b.bend(b.FS.OpenReadWrite(name))
}

func (b *bentFS) bend(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return bentFile{f, b, b.linksErr}, nil
}

type bentFile struct {
	vfs.File
	fs       *bentFS
	linksErr error // of the time when it was opened: the sync of a log in use is not meant
}

func (f bentFile) Size() (int64, error) {
	if f.fs.sizeErr != nil {
		return 0, f.fs.sizeErr
	}
	return f.File.Size()
}

func (f bentFile) Links() (int, error) {
	if f.linksErr != nil {
		return 0, f.linksErr
	}
	return f.File.Links()
}

// Segments are read in the order of their numbers, whatever that of the directory is.
func TestOrderOfTheDirectoryDoesNotMatter(t *testing.T) {
	o, img := closedImage(t)
	o = img.restore(t, o)
	o.FS = &bentFS{FS: o.FS}
	if _, n := replay(t, o, 0, 1); n != 30 {
		t.Errorf("%d records are recovered", n)
	}
	var seqs []base.SeqNum
	_, err := wal.Salvage(o, 0, func(seq base.SeqNum, _ []byte) error {
		seqs = append(seqs, seq)
		return nil
	})
	ok(t, err)
	wantSeqs(t, "salvage", seqs, upTo(30))
}

// An unknown size is an error of every reader, which closes its file.
func TestUnknownSize(t *testing.T) {
	o, img := closedImage(t)
	o = img.restore(t, o)
	mem := o.FS.(*vfs.MemFS)
	bent := &bentFS{FS: mem, sizeErr: fs.ErrPermission}
	o.FS = bent
	_, _, err := tryReplay(o, 0, 1)
	wantIs(t, err, fs.ErrPermission)
	_, err = wal.Salvage(o, 0, func(base.SeqNum, []byte) error { return nil })
	wantIs(t, err, fs.ErrPermission)
	f, err := bent.Open("db/wal-0000000001.log")
	ok(t, err)
	wantIs(t, wal.Describe(f, io.Discard), fs.ErrPermission)
	ok(t, f.Close())
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
}

// A segment that may have a second name is neither resumed nor used
// again.
func TestUnknownLinks(t *testing.T) {
	o, img := closedImage(t)
	o = img.restore(t, o)
	mem := o.FS.(*vfs.MemFS)
	bent := &bentFS{FS: mem, linksErr: errBoom}
	o.FS = bent
	tail, _ := replay(t, o, 0, 1)
	_, err := wal.Open(o, tail)
	wantIs(t, err, errBoom)
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	bent.linksErr = nil
	synctest.Test(t, func(t *testing.T) {
		l, err := wal.Open(o, tail)
		ok(t, err)
		fill(t, l, 60)
		ok(t, l.Sync(60))
		ok(t, l.Release(60))
		synctest.Wait()
		bent.linksErr = errBoom
		for err == nil {
			_, err = l.Append(payload(l.LastSeq() + 1))
			synctest.Wait()
		}
		wantIs(t, err, errBoom)
		bent.linksErr = nil
		last := l.LastSeq() + 50
		fill(t, l, last)
		ok(t, l.Close())
		if tail := mustTailFrom(t, o, last); tail.LastSeq != last {
			t.Errorf("the log ends at %d, want %d", tail.LastSeq, last)
		}
	})
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
}

func mustTailFrom(t *testing.T, o wal.Options, seq base.SeqNum) wal.Tail {
	t.Helper()
	tail, err := wal.Recover(o, 0, seq, count(new(base.SeqNum)))
	ok(t, err)
	return tail
}

// The header of a segment has 32 bits for how far it is from the one before.
func TestNumbersFarApart(t *testing.T) {
	for _, tt := range []struct {
		highest wal.SegmentNum
		ok      bool
	}{{1<<32 - 1, true}, {1 << 32, false}} {
		o := memOptions(512)
		l := openNew(t, o)
		fill(t, l, 5)
		ok(t, l.Close())
		img := snapshot(t, o.FS, o.Dir)
		img[tt.highest.FileName()] = nil
		o = img.restore(t, o)
		tail, _ := replay(t, o, 0, 1)
		l, err := wal.Open(o, tail)
		if !tt.ok {
			wantIs(t, err, corrupt.ErrCorrupt)
			what := "want segment numbers close together, got 1 and 4294967296"
			if !strings.Contains(err.Error(), what) {
				t.Errorf("error %q", err)
			}
			continue
		}
		ok(t, err)
		fill(t, l, 100)
		ok(t, l.Close())
		if _, n := replay(t, o, 0, 1); n != 100 {
			t.Errorf("%d records after number %d", n, tt.highest)
		}
	}
}

// A failed sync answers an Append that waits for a segment, and so does Close.
func TestWaitersAreAnswered(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := memOptions(512)
			failing, _ := faulty(&o, vfstest.OpSync, errBoom)
			armed, gate := gated(&o, vfstest.OpAllocate, 0, nil)
			l := openNew(t, o)
			synctest.Wait()
			fill(t, l, 1)
			armed.Store(true)
			answers := make(chan error, 3)
			go func() {
				_, err := l.Append(make([]byte, 5000))
				answers <- err
			}()
			go func() { answers <- l.MakeRoom(5000) }()
			synctest.Wait()
			if len(answers) > 0 {
				t.Fatalf("a record of 5000 bytes has room: %v", <-answers)
			}
			want := errBoom
			if closes {
				want = wal.ErrClosed
				go func() { answers <- l.Close() }()
			} else {
				failing.Store(true)
				wantIs(t, l.Sync(1), errBoom)
			}
			synctest.Wait()
			if len(answers) != 2 {
				t.Errorf("%d of 2 are answered", len(answers))
			}
			for range len(answers) {
				wantIs(t, <-answers, want)
			}
			armed.Store(false)
			close(gate)
			_ = l.Close()
		})
	}
}

// Each read and each write of Describe fails in turn.
func TestDescribeStoppedAtEveryOperation(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	o := memOptions(1 << 20)
	l := openNew(t, o)
	fill(t, l, 20)
	ok(t, second(l.Append(make([]byte, 300_000))))
	ok(t, l.Close())
	for n := range 2 {
		name := wal.SegmentNum(n + 1).FileName()
		eachFailure(t, never, func(t *testing.T, p *vfstest.FailPlan) (*vfs.MemFS, error) {
			so := snapshot(t, o.FS, o.Dir).restore(t, o)
			mem := so.FS.(*vfs.MemFS)
			f, err := vfstest.NewFault(mem, p.Hook).Open("db/" + name)
			if err != nil {
				return mem, err
			}
			err = wal.Describe(f, io.Discard)
			if cerr := f.Close(); err == nil {
				err = cerr
			}
			return mem, err
		})
		f, err := o.FS.Open("db/" + name)
		ok(t, err)
		var whole strings.Builder
		ok(t, wal.Describe(f, &whole))
		for left := n * (whole.Len() - 1); left < whole.Len(); left++ {
			err := wal.Describe(f, &fullWriter{left})
			wantIs(t, err, errBoom)
		}
		ok(t, f.Close())
	}
}

// fullWriter takes so many bytes.
type fullWriter struct{ left int }

func (w *fullWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errBoom
	}
	return len(p), nil
}
