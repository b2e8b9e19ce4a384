package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
	"go.uber.org/goleak"
)

var ok, wantIs = testutil.OK, testutil.WantIs

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testDBID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// memOptions is a log of small segments in a fresh memory file system.
func memOptions(segmentBytes int64) wal.Options {
	fsys := vfs.NewMem()
	_ = fsys.MkdirAll("db")
	var use atomic.Uint64 // a test may open two logs
	return wal.Options{FS: fsys, Dir: "db", DBID: testDBID, SegmentBytes: segmentBytes,
		UseID: func() uint64 { return use.Add(1) * 0x9e3779b97f4a7c15 }}
}

// eachKind runs a test over memory, over written files and over mapped ones.
func eachKind(t *testing.T, segmentBytes int64, fn func(t *testing.T, o wal.Options)) {
	t.Run("mem", func(t *testing.T) { fn(t, memOptions(segmentBytes)) })
	for _, mapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("os-mapped-%v", mapped), func(t *testing.T) {
			fn(t, wal.Options{FS: vfs.OS(), Dir: t.TempDir(), DBID: testDBID,
				SegmentBytes: segmentBytes, Mapped: mapped})
		})
	}
}

// payload is the content of record seq in tests: its length varies with seq.
func payload(seq base.SeqNum) []byte {
	return bytes.Repeat([]byte{byte(seq), byte(seq >> 8), 'x'}, int(seq%7)*3)
}

func openNew(t testing.TB, o wal.Options) *wal.Log {
	t.Helper()
	l, err := wal.Open(o, wal.Tail{})
	ok(t, err)
	return l
}

// reopen recovers everything from segment `from` on and opens the log for appending.
func reopen(t testing.TB, o wal.Options, from wal.SegmentNum, fromSeq base.SeqNum) *wal.Log {
	t.Helper()
	tail, _ := replay(t, o, from, fromSeq)
	l, err := wal.Open(o, tail)
	ok(t, err)
	return l
}

// replay recovers and checks that the records are fromSeq, fromSeq+1, ... with the
// right content.
func replay(t testing.TB, o wal.Options, from wal.SegmentNum, fromSeq base.SeqNum) (wal.Tail, int) {
	t.Helper()
	tail, n, err := tryReplay(o, from, fromSeq)
	ok(t, err)
	return tail, n
}

func tryReplay(o wal.Options, from wal.SegmentNum, fromSeq base.SeqNum) (wal.Tail, int, error) {
	n := 0
	apply := func(_ wal.SegmentNum, seq base.SeqNum, p []byte) error {
		if want := fromSeq + base.SeqNum(n); seq != want {
			return fmt.Errorf("record %d follows, want %d", seq, want)
		}
		if !bytes.Equal(p, payload(seq)) {
			return fmt.Errorf("record %d has payload %x", seq, p)
		}
		n++
		return nil
	}
	tail, err := wal.Recover(o, from, fromSeq, apply)
	if err == nil && tail.LastSeq != fromSeq+base.SeqNum(n)-1 {
		err = fmt.Errorf("tail says last is %d after %d records from %d", tail.LastSeq, n, fromSeq)
	}
	return tail, n, err
}

// fill appends records until the last is seq.
func fill(t testing.TB, l *wal.Log, seq base.SeqNum) {
	t.Helper()
	for l.LastSeq() < seq {
		got, err := l.Append(payload(l.LastSeq() + 1))
		ok(t, err)
		if got != l.LastSeq() {
			t.Fatalf("append returned %d, last is %d", got, l.LastSeq())
		}
	}
}

// image is the content of all files of a directory.
type image map[string][]byte

func snapshot(t testing.TB, fsys vfs.FS, dir string) image {
	t.Helper()
	img := image{}
	names, err := fsys.List(dir)
	ok(t, err)
	for _, name := range names {
		img[name], err = vfstest.ReadFile(fsys, filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) { // removed or renamed since
			return snapshot(t, fsys, dir)
		}
		ok(t, err)
	}
	return img
}

func (img image) clone() image {
	c := image{}
	for name, b := range img {
		c[name] = slices.Clone(b)
	}
	return c
}

// names returns the files of the image, sorted.
func (img image) names() []string {
	var names []string
	for name := range img {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// restore returns o with a fresh memory file system that holds the image.
func (img image) restore(t testing.TB, o wal.Options) wal.Options {
	t.Helper()
	fsys := vfs.NewMem()
	ok(t, fsys.MkdirAll("db"))
	for name, b := range img {
		ok(t, vfstest.WriteFile(fsys, filepath.Join("db", name), b))
	}
	o.FS, o.Dir = fsys, "db"
	return o
}

// copyLog copies the log from segment `from` on, as it is now, and returns the last sequence
// number in the copy.
func copyLog(l *wal.Log, fsys vfs.FS, dir string, from wal.SegmentNum) (base.SeqNum, error) {
	p := l.Pin(from)
	err := p.CopyTo(fsys, dir, nil)
	return p.LastSeq(), errors.Join(err, p.Unpin())
}

// wantCorrupt checks that the error is typed and names one of the log's files.
func wantCorrupt(t testing.TB, err error) *corrupt.Error {
	t.Helper()
	var c *corrupt.Error
	if !errors.As(err, &c) || !errors.Is(err, corrupt.ErrCorrupt) {
		t.Fatalf("got error %v, want a *corrupt.Error", err)
	}
	if c.File == "" || c.Offset < 0 {
		t.Fatalf("error %v does not name file and offset", c)
	}
	return c
}

func castagnoli(b []byte) uint32 { return updateCastagnoli(0, b) }

func updateCastagnoli(crc uint32, b []byte) uint32 {
	return crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), b)
}
