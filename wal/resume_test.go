package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

// active returns the number of the segment that gets the records.
func active(t *testing.T, l *wal.Log) wal.SegmentInfo {
	t.Helper()
	for _, s := range l.Segments() {
		if s.State == wal.SegmentActive {
			return s
		}
	}
	t.Fatal("no segment is active")
	return wal.SegmentInfo{}
}

// A log that is opened again and again stays one file, and takes what its records take: also
// if every second process is killed.
func TestManyOpensAreOneSegment(t *testing.T) {
	for _, kill := range []bool{false, true} {
		o := memOptions(1 << 20)
		records := int64(0)
		for seq := base.SeqNum(1); seq <= 500; seq++ {
			l := reopen(t, o, 0, 1)
			fill(t, l, seq)
			records += (24 + int64(len(payload(seq))) + 7) &^ 7
			killed := snapshot(t, o.FS, o.Dir)
			ok(t, l.Close())
			if kill && seq%2 == 0 {
				o = killed.restore(t, o)
			}
			img := snapshot(t, o.FS, o.Dir)
			size := int64(0)
			for _, b := range img {
				size += int64(len(b))
			}
			room := int64(24)
			if kill && seq%2 == 0 {
				room = 24 + 20<<10 // allocated in advance
			}
			if len(img) != 1 || size > 64+records+room {
				t.Fatalf("%d files and %d bytes after %d records of %d bytes, killed: %v",
					len(img), size, seq, records, kill)
			}
		}
		if _, n := replay(t, o, 0, 1); n != 500 {
			t.Fatalf("%d records", n)
		}
	}
}

// A last segment that has a second name, in a copy of the database by hard links, stays as it
// is: the log goes on in a new one.
func TestLinkedSegmentIsNotResumed(t *testing.T) {
	eachKind(t, 64<<10, func(t *testing.T, o wal.Options) {
		l := openNew(t, o)
		fill(t, l, 20)
		ok(t, l.Close())
		name, twin := filepath.Join(o.Dir, "wal-0000000001.log"), filepath.Join(o.Dir, "copy")
		ok(t, o.FS.Link(name, twin))
		before := contentOf(t, o.FS, twin)
		l = reopen(t, o, 0, 1)
		fill(t, l, 30)
		ok(t, l.Close())
		if contentOf(t, o.FS, twin) != before {
			t.Error("the copy has changed")
		}
		if _, n := replay(t, o, 0, 1); n != 30 {
			t.Errorf("%d records", n)
		}
	})
}

// Opening and closing without a record changes nothing, and a read-only recovery never does.
func TestOpenAndCloseChangeNothing(t *testing.T) {
	eachKind(t, 64<<10, func(t *testing.T, o wal.Options) {
		l := openNew(t, o)
		fill(t, l, 20)
		ok(t, l.Close())
		before := snapshot(t, o.FS, o.Dir)
		for range 3 {
			ok(t, reopen(t, o, 0, 1).Close())
		}
		for name, b := range snapshot(t, o.FS, o.Dir) {
			if !bytes.Equal(b, before[name]) {
				t.Errorf("%s has changed from %d to %d bytes", name, len(before[name]), len(b))
			}
		}
	})
}

// The segment of Open grows with its records, of all sizes, up to the size from which on
// segments are made whole; the log that comes of it is recovered.
func TestSegmentGrows(t *testing.T) {
	for _, n := range []int{0, 100, 5000, 40_000, 100_000, 300_000} {
		o := memOptions(1 << 20)
		var sizes []int64
		count := 0
		l := openNew(t, o)
		for i := 0; i < 3000 && len(l.Segments()) < 3; i++ {
			ok(t, second(l.Append(make([]byte, n))))
			count++
			s := active(t, l)
			if s.UsedBytes > s.SizeBytes {
				t.Fatalf("%d bytes in a segment of %d", s.UsedBytes, s.SizeBytes)
			}
			if s.Num > 1 && s.SizeBytes != 1<<20 {
				t.Fatalf("segment %d has %d bytes", s.Num, s.SizeBytes)
			}
			if s.Num == 1 && !slices.Contains(sizes, s.SizeBytes) {
				sizes = append(sizes, s.SizeBytes)
			}
		}
		if len(sizes) > 0 && slices.Max(sizes) > 256<<10 || n == 5000 && len(sizes) < 5 {
			t.Errorf("records of %d bytes: sizes %v", n, sizes)
		}
		ok(t, l.Close())
		got := 0
		_, err := wal.Recover(o, 0, 1, func(wal.SegmentNum, base.SeqNum, []byte) error {
			got++
			return nil
		})
		ok(t, err)
		if got != count {
			t.Errorf("records of %d bytes: %d of %d", n, got, count)
		}
	}
}

// On a full disk a segment does not grow; what fits goes on, and it grows when there is
// space.
func TestSegmentGrowsOnAFullDisk(t *testing.T) {
	o := memOptions(1 << 20)
	mem := o.FS.(*vfs.MemFS)
	l := openNew(t, o)
	mem.SetCapacity(mem.UsedBytes())
	var err error
	for err == nil {
		_, err = l.Append(payload(l.LastSeq() + 1))
	}
	wantIs(t, err, vfs.ErrNoSpace)
	if s := active(t, l); s.SizeBytes-s.UsedBytes > 100 {
		t.Errorf("%d of %d bytes are used", s.UsedBytes, s.SizeBytes)
	}
	last := l.LastSeq()
	ok(t, l.Sync(last))
	mem.SetCapacity(0)
	fill(t, l, last+1000)
	ok(t, l.Close())
	if _, n := replay(t, o, 0, 1); base.SeqNum(n) != last+1000 {
		t.Errorf("%d records", n)
	}
}

// A log that is opened on a full disk has its records, and goes on when there is space.
func TestOpenOnAFullDisk(t *testing.T) {
	for _, closed := range []bool{false, true} {
		o := memOptions(64 << 10)
		l := openNew(t, o)
		fill(t, l, 20)
		killed := snapshot(t, o.FS, o.Dir)
		ok(t, l.Close())
		if !closed {
			o = killed.restore(t, o)
		}
		mem := o.FS.(*vfs.MemFS)
		tail, _ := replay(t, o, 0, 1)
		used := mem.UsedBytes()
		mem.SetCapacity(used)
		l, err := wal.Open(o, tail)
		ok(t, err)
		mem.SetCapacity(used + 1<<20)
		fill(t, l, 30)
		ok(t, l.Close())
		if _, n := replay(t, o, 0, 1); n != 30 {
			t.Errorf("%d records", n)
		}
	}
}

// What was torn never comes back. Method: of the records after the end of the log the first
// is lost and the second is whole; after Open a record of the length of the first is appended,
// so that the second would follow. Power cuts during Open and after it.
//
// Promise (durability): A torn record never comes back after a new one.
func TestTornRecordsDoNotComeBack(t *testing.T) {
	for _, marked := range []bool{false, true} {
		o, img := tornImage(t, marked)
		for stop := 0; !tornStopped(t, img.restore(t, o), stop); stop++ {
		}
	}
}

// tornRecord has the same length for every name.
func tornRecord(name string) []byte { return fmt.Appendf(nil, "%-40s", name) }

// tornImage is a log with the records "one" and "two", a marker or not, a gap, and "torn".
func tornImage(t *testing.T, marked bool) (wal.Options, image) {
	t.Helper()
	var o wal.Options
	write := func(names ...string) (killed, closed []byte) {
		o = memOptions(64 << 10)
		l := openNew(t, o)
		for _, name := range names {
			ok(t, second(l.Append(tornRecord(name))))
		}
		img := snapshot(t, o.FS, o.Dir)
		ok(t, l.Close())
		const file = "wal-0000000001.log"
		return img[file], snapshot(t, o.FS, o.Dir)[file]
	}
	const end, size = 64 + 2*64, 64
	b, _ := write("one", "two", "lost", "torn")
	clear(b[end : end+size])
	if marked {
		_, closed := write("one", "two")
		copy(b[end:], closed[end:])
	}
	return o, image{"wal-0000000001.log": b}
}

// tornStopped opens the log, appends a record, and lets every operation fail after some. It
// looks at what a kill and power cuts leave, and reports whether no operation failed.
func tornStopped(t *testing.T, o wal.Options, stop int) bool {
	t.Helper()
	whole := vfstest.CrashOf(o.FS.(*vfs.MemFS))
	n := 0
	o.FS = vfstest.NewFault(whole, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpTruncate, vfstest.OpWriteAt, vfstest.OpSync, vfstest.OpAllocate:
			if n++; n > stop {
				return errBoom
			}
		}
		return nil
	})
	done := appendAfterOpen(o, tornRecord("new"))
	for seed := range uint64(20) { // of the changes that were not synced: all, none, some
		cut := o
		if cut.FS = whole; seed > 0 {
			cut.FS = whole.PowerCut(rand.New(rand.NewPCG(seed, uint64(stop))), 0.5)
		}
		got := recovered(t, cut)
		if !slices.Equal(got, []string{"one", "two"}) &&
			!slices.Equal(got, []string{"one", "two", "new"}) {
			t.Fatalf("stopped at %d, seed %d: records %q", stop, seed, got)
		}
	}
	return done
}

// recovered returns the records of a log, without trailing spaces.
func recovered(t *testing.T, o wal.Options) (all []string) {
	t.Helper()
	_, err := wal.Recover(o, 0, 1, func(_ wal.SegmentNum, _ base.SeqNum, p []byte) error {
		all = append(all, strings.TrimRight(string(p), " "))
		return nil
	})
	ok(t, err)
	return all
}

// appendAfterOpen recovers, opens and appends one record, without a Close. It reports whether
// all of that succeeded.
func appendAfterOpen(o wal.Options, record []byte) bool {
	tail, err := wal.Recover(o, 0, 1, func(wal.SegmentNum, base.SeqNum, []byte) error {
		return nil
	})
	if err != nil {
		return false
	}
	l, err := wal.Open(o, tail)
	if err != nil {
		return false
	}
	_, err = l.Append(record)
	err = errors.Join(err, l.Sync(base.MaxSeqNum))
	_ = l.Close()
	return err == nil
}
