package wal_test

import (
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// When the disk has no room for a segment, the log asks for some and goes on in smaller
// ones; what it asks for is enough. The segments are recovered like others.
func TestSmallerSegmentsOnAFullDisk(t *testing.T) {
	for _, n := range []int{10, 50 << 10, 300 << 10} { // the last is larger than a small segment
		o := memOptions(1 << 20)
		mem := o.FS.(*vfs.MemFS)
		left := int64(3 << 20)
		var given []int64
		var mu sync.Mutex // guards left and given
		o.MoreSpace = func(n int64) bool {
			mu.Lock()
			defer mu.Unlock()
			if n > left {
				return false
			}
			left -= n
			given = append(given, n)
			mem.SetCapacity(mem.UsedBytes() + n)
			return true
		}
		l := openNew(t, o)
		ok(t, second(l.Append(nil)))
		ok(t, l.MakeRoom(1<<20)) // beyond the first segment: then nothing of it is left over
		mem.SetCapacity(mem.UsedBytes())
		record := make([]byte, n)
		var err error
		for err == nil && l.LastSeq() < 200_000 {
			_, err = l.Append(record)
		}
		wantIs(t, err, vfs.ErrNoSpace)
		mu.Lock()
		if len(given) == 0 || left > 1<<20 {
			t.Fatalf("records of %d bytes: %d bytes were asked for in %d pieces", n, 3<<20-left,
				len(given))
		}
		mu.Unlock()
		wantIs(t, l.MakeRoom(int64(n)), vfs.ErrNoSpace)
		last := l.LastSeq()
		ok(t, l.Sync(last))
		mu.Lock()
		left = 0
		mem.SetCapacity(0)
		mu.Unlock()
		if l.MakeRoom(int64(n)) != nil { // an attempt that began before there was space
			ok(t, l.MakeRoom(int64(n)))
		}
		ok(t, second(l.Append(record)))
		ok(t, l.Close())
		count := base.SeqNum(0)
		_, err = wal.Recover(o, 0, 1, func(_ wal.SegmentNum, seq base.SeqNum, p []byte) error {
			count++
			return nil
		})
		ok(t, err)
		if count != last+1 {
			t.Errorf("%d records come back, want %d", count, last+1)
		}
	}
}

// Room that was made for a large record that never came is open to others.
func TestMakeRoomKeepsNobodyOut(t *testing.T) {
	l := openNew(t, memOptions(64<<10))
	for i := range 20 {
		ok(t, l.MakeRoom(int64(i)<<16))
		fill(t, l, l.LastSeq()+2000)
	}
	before := len(l.Segments())
	ok(t, l.Release(l.LastSeq()))
	l.DropSpares(1)
	spares := 0
	for _, s := range l.Segments() {
		if s.State == wal.SegmentSpare {
			spares++
		}
	}
	if spares != 1 {
		t.Errorf("%d spares of %d segments", spares, before)
	}
	ok(t, l.Close())
	wantIs(t, l.MakeRoom(1), wal.ErrClosed)
}
