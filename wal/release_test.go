package wal_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

func countStates(l *wal.Log) map[wal.SegmentState]int {
	n := map[wal.SegmentState]int{}
	for _, s := range l.Segments() {
		n[s.State]++
	}
	return n
}

// Releasing as one goes keeps the log at a few files for ever, and at each moment a
// recovery from FirstSegment finds what is needed.
//
// Promise (durability): Records of a former use of a segment are never taken for new. Also
// `TestOldSegmentAfterTheEnd` in `wal`.
func TestReleaseRecycles(t *testing.T) {
	eachKind(t, 1<<10, func(t *testing.T, o wal.Options) {
		o.RecycleSegments = 2
		l := openNew(t, o)
		for seq := base.SeqNum(5); seq <= 400; seq += 5 {
			fill(t, l, seq)
			ok(t, l.Sync(seq))
			needed := seq - 3
			from := l.FirstSegment(needed)
			ok(t, l.Release(needed))
			if _, last, ok := l.Oldest(); ok && last < needed {
				t.Fatalf("at %d the oldest segment ends at %d and was not released", seq, last)
			}
			if tail, n := replay(t, o, from, needed); n != 4 || tail.LastSeq != seq {
				t.Fatalf("recovered %d records up to %d", n, tail.LastSeq)
			}
			if n := countStates(l); n[wal.SegmentSpare] > 2 || n[wal.SegmentClosed] > 2 {
				t.Fatalf("states %v", n)
			}
			if size := l.SizeBytes(); size > 6<<10 {
				t.Fatalf("the log takes %d bytes", size)
			}
		}
		ok(t, l.Close())
		names, err := o.FS.List(o.Dir)
		ok(t, err)
		if len(names) > 6 {
			t.Fatalf("files left: %q", names)
		}
		l = reopen(t, o, l.FirstSegment(398), 398)
		fill(t, l, 450)
		ok(t, l.Close())
		replay(t, o, 0, 399)
	})
}

// A segment that has a second name, in a copy of the database by hard links, is not used
// again: the copy keeps its content.
func TestLinkedSegmentsAreNotReused(t *testing.T) {
	eachKind(t, 1<<10, func(t *testing.T, o wal.Options) {
		l := openNew(t, o)
		copied := map[string]string{}
		for seq := base.SeqNum(5); seq <= 200; seq += 5 {
			fill(t, l, seq)
			ok(t, l.Sync(seq))
			for _, s := range l.Segments() {
				name := filepath.Join(o.Dir, s.Num.FileName())
				twin := filepath.Join(o.Dir, fmt.Sprint("copy", s.Num))
				if s.State == wal.SegmentClosed && copied[twin] == "" {
					ok(t, o.FS.Link(name, twin))
					copied[twin] = contentOf(t, o.FS, name)
				}
			}
			ok(t, l.Release(seq-3))
		}
		ok(t, l.Close())
		if len(copied) < 10 {
			t.Errorf("only %d segments had two names", len(copied))
		}
		for twin, content := range copied {
			if contentOf(t, o.FS, twin) != content {
				t.Errorf("%s has changed", twin)
			}
		}
	})
}

func contentOf(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfstest.ReadFile(fsys, name)
	ok(t, err)
	return string(b)
}

func TestReleaseKeepsWhatIsNeeded(t *testing.T) {
	o := memOptions(512)
	o.RecycleSegments = -1
	l := openNew(t, o)
	fill(t, l, 60)
	infos := l.Segments()
	for _, s := range infos {
		if s.State != wal.SegmentClosed {
			break
		}
		if got := l.FirstSegment(s.FirstSeq); got > s.Num {
			t.Fatalf("FirstSegment(%d) = %d, the record is in %d", s.FirstSeq, got, s.Num)
		}
		ok(t, l.Release(s.LastSeq)) // the last record is still needed
		if num, _, ok := l.Oldest(); !ok || num != s.Num {
			t.Fatalf("oldest is %d, want %d", num, s.Num)
		}
		if got := l.FirstSegment(s.LastSeq); got != s.Num {
			t.Fatalf("FirstSegment(%d) = %d, want %d", s.LastSeq, got, s.Num)
		}
		ok(t, l.Release(s.LastSeq+1))
		if num, _, ok := l.Oldest(); ok && num == s.Num {
			t.Fatalf("segment %d was not released", num)
		}
	}
	ok(t, l.Release(base.MaxSeqNum))
	ok(t, l.Close())
	if _, n := replay(t, o, l.FirstSegment(61), 61); n != 0 {
		t.Fatalf("%d records", n)
	}
}

// The current segment is relied upon (by a manifest, or because all before it went)
// only once its name and header are durable. What releases nothing waits for no sync.
func TestReleaseSyncsTheSuccessorFirst(t *testing.T) {
	o := memOptions(512)
	const next = "wal-0000000002.log"
	var headed, durable atomic.Bool // whether its header is written, and synced
	syncs := make(chan struct{})    // closed once syncs are allowed
	o.FS = vfstest.NewFault(o.FS, func(op vfstest.Op) error {
		name := filepath.Base(op.Name)
		switch {
		case op.Kind == vfstest.OpWriteAt && name == next && op.Offset == 0:
			headed.Store(true)
		case op.Kind == vfstest.OpSync && headed.Load():
			<-syncs
			if name == next {
				durable.Store(true)
			}
		case op.Kind == vfstest.OpRemove && !durable.Load():
			return errors.New("removed before the next segment was synced")
		}
		return nil
	})
	o.RecycleSegments = -1
	l := openNew(t, o)
	for len(l.Segments()) == 0 || l.Segments()[0].State != wal.SegmentClosed {
		fill(t, l, l.LastSeq()+1)
	}
	last := l.Segments()[0].LastSeq
	ok(t, l.Release(last)) // which is still needed
	close(syncs)
	ok(t, l.Release(last+1))
	if n := countStates(l); n[wal.SegmentClosed] != 0 {
		t.Fatalf("states %v", n)
	}
	ok(t, l.Close())
}

// What cannot be removed is tried again, after pauses that grow. It does not count as held,
// and holds up no other file.
func TestRemovalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := memOptions(512)
		o.RecycleSegments = -1
		boom, stuck, tries := errors.New("boom"), "wal-0000000002.log", 0
		o.FS = vfstest.NewFault(o.FS, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpRemove && filepath.Base(op.Name) == stuck {
				tries++
				return boom
			}
			return nil
		})
		l := openNew(t, o)
		fill(t, l, 60)
		ok(t, l.Sync(60))
		held := l.HeldBytes()
		wantIs(t, l.Release(40), boom)
		if n := countStates(l)[wal.SegmentSpare]; n != 1 {
			t.Errorf("%d files could not be removed, want 1", n)
		}
		if l.HeldBytes() >= held || l.SizeBytes() != l.HeldBytes()+512 {
			t.Errorf("%d bytes are held, %d before; the files have %d", l.HeldBytes(), held,
				l.SizeBytes())
		}
		for start := time.Now(); time.Since(start) < time.Hour; time.Sleep(10 * time.Millisecond) {
			if err := l.Release(40); err != nil {
				wantIs(t, err, boom)
			}
		}
		if tries < 60 || tries > 75 {
			t.Errorf("%d attempts in an hour, want about one a minute", tries)
		}
		if l.RemovalDue() {
			t.Error("the next attempt is due at once")
		}
		l.DropSpares(0) // for a full disk
		if tries < 61 {
			t.Error("a full disk does not try at once")
		}
		stuck = ""
		time.Sleep(time.Minute)
		if !l.RemovalDue() {
			t.Error("the next attempt is not due after a minute")
		}
		ok(t, l.Release(0))
		if n := countStates(l)[wal.SegmentSpare]; n != 0 || l.RemovalDue() {
			t.Errorf("%d files are left", n)
		}
		ok(t, l.Close())
	})
}

// A file that another program has removed counts as removed.
func TestRemovedFilesAreGone(t *testing.T) {
	o := memOptions(512)
	o.RecycleSegments = -1
	l := openNew(t, o)
	fill(t, l, 60)
	ok(t, l.Sync(60))
	ok(t, o.FS.Remove(filepath.Join(o.Dir, "wal-0000000002.log")))
	ok(t, l.Release(40))
	ok(t, l.Close())
}

func TestLargeRecords(t *testing.T) {
	eachKind(t, 1<<10, func(t *testing.T, o wal.Options) {
		o.MaxRecordBytes = 600 << 10
		l := openNew(t, o)
		sizes := []int{10, 5000, 1, 0, 600 << 10, 900, 300 << 10, 299 << 10, 20}
		for i, n := range sizes {
			seq, err := l.Append(make([]byte, n))
			ok(t, err)
			if seq != base.SeqNum(i+1) {
				t.Fatalf("seq %d for record %d", seq, i+1)
			}
			wantIs(t, second(l.Append(make([]byte, 600<<10+1))), wal.ErrRecordTooLarge)
		}
		ok(t, l.Close())
		i := 0
		_, err := wal.Recover(o, 0, 1, func(_ wal.SegmentNum, _ base.SeqNum, p []byte) error {
			if len(p) != sizes[i] {
				t.Fatalf("record %d has %d bytes, want %d", i+1, len(p), sizes[i])
			}
			i++
			return nil
		})
		ok(t, err)
		if i != len(sizes) {
			t.Fatalf("%d records, want %d", i, len(sizes))
		}
		l, err = wal.Open(o, mustTail(t, o))
		ok(t, err)
		ok(t, l.Release(base.SeqNum(len(sizes))+1))
		if n := l.SizeBytes(); n > 8<<10 {
			t.Fatalf("%d bytes are left: large segments must not be recycled", n)
		}
		ok(t, l.Close())
	})
}

func mustTail(t *testing.T, o wal.Options) wal.Tail {
	t.Helper()
	tail, err := wal.Recover(o, 0, 1, count(new(base.SeqNum)))
	ok(t, err)
	return tail
}

// Segments that are being copied are not released, and so not written over.
func TestReleaseDuringCopy(t *testing.T) {
	o := memOptions(512)
	l := openNew(t, o)
	fill(t, l, 60)
	ok(t, l.Sync(60))
	dst := o
	mem := vfs.NewMem()
	ok(t, mem.MkdirAll("db"))
	dst.FS = vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate {
			ok(t, l.Release(l.LastSeq()))
			fill(t, l, l.LastSeq()+60)
			ok(t, l.Sync(l.LastSeq()))
		}
		return nil
	})
	last, err := copyLog(l, dst.FS, "db", 0)
	ok(t, err)
	if _, n := replay(t, dst, 0, 1); n != 60 || last != 60 {
		t.Fatalf("%d records in the copy, last %d, want 60", n, last)
	}
	ok(t, l.Release(l.LastSeq()))
	if n := countStates(l); n[wal.SegmentClosed] > 1 {
		t.Fatalf("states after the copy: %v", n)
	}
	ok(t, l.Close())
}

// What is pinned stays, however much is written and released meanwhile; it does not count
// in what keeps the log from growing, and goes at the end. After a kill it is not part of the
// log, and the next Open removes it.
func TestPinnedSegments(t *testing.T) {
	o := memOptions(512)
	o.RecycleSegments = 1
	l := openNew(t, o)
	fill(t, l, 60)
	p, twin := l.Pin(0), l.Pin(0)
	pinned := p.Files()
	held := int64(0)
	for range 20 {
		fill(t, l, l.LastSeq()+60)
		ok(t, l.Sync(l.LastSeq()))
		ok(t, l.Release(l.LastSeq()))
		held = max(held, l.HeldBytes())
	}
	if held > 4*o.SegmentBytes {
		t.Errorf("%d bytes are held beside %d pinned segments", held, pinned)
	}
	if n, want := l.SizeBytes(), int64(pinned)*o.SegmentBytes; n < want {
		t.Errorf("%d bytes of files, want %d at least", n, want)
	}
	killed := snapshot(t, o.FS, o.Dir).restore(t, o)
	last := l.LastSeq()
	l2 := reopen(t, killed, l.FirstSegment(last), last)
	if n := l2.SizeBytes(); n != l2.HeldBytes() || n > 4*o.SegmentBytes {
		t.Errorf("%d bytes of files after a kill, %d are held", n, l2.HeldBytes())
	}
	ok(t, l2.Close())
	if n := len(snapshot(t, killed.FS, killed.Dir)); n > 3 {
		t.Errorf("%d files after a kill and an orderly end", n)
	}

	ok(t, twin.Unpin())
	mem := vfs.NewMem()
	ok(t, mem.MkdirAll("db"))
	ok(t, p.CopyTo(mem, "db", nil))
	ok(t, p.Unpin())
	dst := o
	dst.FS = mem
	if _, n := replay(t, dst, 0, 1); n != 60 || p.LastSeq() != 60 {
		t.Errorf("%d records in the copy, last %d, want 60", n, p.LastSeq())
	}
	if n := l.SizeBytes(); n != l.HeldBytes() || n > 4*o.SegmentBytes {
		t.Errorf("%d bytes of files after the copy, %d are held", n, l.HeldBytes())
	}
	ok(t, l.Close())
}

func TestCopyTo(t *testing.T) {
	eachKind(t, 1<<10, func(t *testing.T, o wal.Options) {
		l := openNew(t, o)
		fill(t, l, 120)
		ok(t, l.Release(0))
		dst := o
		mem := vfs.NewMem()
		ok(t, mem.MkdirAll("copy"))
		dst.FS, dst.Dir = mem, "copy"
		last, err := copyLog(l, dst.FS, dst.Dir, 0)
		ok(t, err)
		if last != 120 {
			t.Fatalf("copied up to %d", last)
		}
		fill(t, l, 150) // goes on, and the copy stays as it is
		ok(t, l.Sync(150))
		if _, n := replay(t, dst, 0, 1); n != 120 {
			t.Fatalf("%d records in the copy", n)
		}
		from := l.FirstSegment(100)
		ok(t, mem.MkdirAll("part"))
		dst.Dir = "part"
		ok(t, second(copyLog(l, dst.FS, dst.Dir, from)))
		if _, n := replay(t, dst, from, 100); n != 51 {
			t.Fatalf("%d records in the second copy", n)
		}
		// A copy is a log: it can be opened, and copied again.
		l2 := reopen(t, dst, from, 100)
		fill(t, l2, 160)
		ok(t, mem.MkdirAll("again"))
		ok(t, second(copyLog(l2, mem, "again", 0)))
		ok(t, l2.Close())
		dst.Dir = "again"
		replay(t, dst, from, 100)
		ok(t, l.Close())
		if n := mem.OpenFiles(); n != 0 {
			t.Fatalf("%d files are open", n)
		}
	})
}

// HasNext is what the states of the segments say, whatever happens to them.
func TestHasNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openNew(t, memOptions(1<<10))
		for i := base.SeqNum(1); i <= 60; i++ {
			fill(t, l, i)
			ok(t, l.Sync(i))
			if i%7 == 0 {
				ok(t, l.Release(i))
				l.DropSpares(int(i) % 2)
			}
			synctest.Wait()
			n := countStates(l)
			want := n[wal.SegmentPrepared]+n[wal.SegmentSpare] > 0
			if got := l.HasNext(); got != want {
				t.Fatalf("after %d records: %v, the segments are %v", i, got, n)
			}
		}
		ok(t, l.Close())
	})
}

// A segment goes when the next one is durable, also while the header of the current one is not.
func TestReleaseDoesNotWaitForTheCurrentSegment(t *testing.T) {
	o := memOptions(512)
	gate := make(chan struct{})
	o.FS = vfstest.NewFault(o.FS, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && filepath.Base(op.Name) == "wal-0000000003.log" {
			<-gate
		}
		return nil
	})
	l := openNew(t, o)
	closed := func(n int) {
		for countStates(l)[wal.SegmentClosed] < n {
			fill(t, l, l.LastSeq()+1)
		}
	}
	closed(1)
	ok(t, l.Sync(l.LastSeq()))
	closed(2)
	ok(t, l.Release(l.Segments()[0].LastSeq+1))
	if n := countStates(l)[wal.SegmentClosed]; n != 1 {
		t.Errorf("%d closed segments are left, want 1", n)
	}
	close(gate)
	ok(t, l.Close())
}
