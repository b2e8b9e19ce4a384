package wal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

var errBoom = errors.New("boom")

// faulty wraps the file system of o so that operations of one kind fail while armed.
// Mem counts open files.
func faulty(o *wal.Options, kind vfstest.OpKind, err error) (armed *atomic.Bool, mem *vfs.MemFS) {
	armed = new(atomic.Bool)
	mem = o.FS.(*vfs.MemFS)
	o.FS = vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == kind && armed.Load() {
			return err
		}
		return nil
	})
	return armed, mem
}

func TestFailedSyncIsFinal(t *testing.T) {
	o := memOptions(4 << 10)
	armed, mem := faulty(&o, vfstest.OpSync, errBoom)
	var reports atomic.Int32
	var l *wal.Log
	o.OnFailure = func(err error) {
		reports.Add(1)
		wantIs(t, err, errBoom)
		wantIs(t, second(l.Append(nil)), errBoom) // no lock is held
	}
	l = openNew(t, o)
	fill(t, l, 5)
	ok(t, l.Sync(5))
	fill(t, l, 8)
	armed.Store(true)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := l.Sync(8); !errors.Is(err, errBoom) || !errors.Is(err, wal.ErrFailed) {
				t.Errorf("sync: %v", err)
			}
		})
	}
	wg.Wait()
	armed.Store(false) // the disk is well again: too late
	for range 2 {
		wantIs(t, l.Sync(8), errBoom)
		wantIs(t, l.Sync(3), errBoom)
		wantIs(t, second(l.Append(nil)), errBoom)
		wantIs(t, l.Err(), wal.ErrFailed)
		if l.SyncedSeq() != 5 {
			t.Fatalf("synced %d after a failed sync, want 5", l.SyncedSeq())
		}
	}
	wantIs(t, l.Close(), errBoom)
	wantIs(t, l.Close(), errBoom)
	wantIs(t, l.Sync(8), errBoom)
	if n := reports.Load(); n != 1 {
		t.Fatalf("OnFailure was called %d times", n)
	}
	if n := mem.OpenFiles(); n != 0 {
		t.Fatalf("%d files are open", n)
	}
	ok(t, reopen(t, o, 0, 1).Close())
}

func TestFailedWriteIsFinal(t *testing.T) {
	for _, short := range []int{0, 10, 30, 1000} {
		o := memOptions(4 << 10)
		armed, _ := faulty(&o, vfstest.OpWriteAt, &vfstest.ShortWriteError{N: short, Err: errBoom})
		var reports int
		o.OnFailure = func(error) { reports++ }
		l := openNew(t, o)
		fill(t, l, 5)
		armed.Store(true)
		wantIs(t, second(l.Append(payload(6))), errBoom)
		armed.Store(false)
		wantIs(t, second(l.Append(payload(6))), errBoom)
		wantIs(t, l.Sync(5), wal.ErrFailed)
		wantIs(t, l.Close(), wal.ErrFailed)
		if reports != 1 {
			t.Fatalf("OnFailure was called %d times", reports)
		}
		// A record that was placed as a whole may appear: its fate was unknown.
		want := 5
		if short == 1000 {
			want = 6
		}
		if _, n := replay(t, o, 0, 1); n != want {
			t.Fatalf("%d records after a short write of %d, want %d", n, short, want)
		}
	}
}

// A full disk in a sync, as opposed to an allocation, is a failed sync: space does not mend it.
func TestFailureDoesNotPromiseThatSpaceHelps(t *testing.T) {
	o := memOptions(4 << 10)
	armed, _ := faulty(&o, vfstest.OpSync, vfs.ErrNoSpace)
	l := openNew(t, o)
	fill(t, l, 1)
	armed.Store(true)
	err := l.Sync(1)
	if errors.Is(err, vfs.ErrNoSpace) || !errors.Is(err, wal.ErrFailed) {
		t.Fatalf("got %v", err)
	}
	wantIs(t, l.Close(), wal.ErrFailed)
}

func TestFailedDirectorySyncIsFinal(t *testing.T) {
	o := memOptions(512)
	armed, _ := faulty(&o, vfstest.OpSyncDir, errBoom)
	l := openNew(t, o)
	fill(t, l, 3)
	ok(t, l.Sync(3))
	armed.Store(true)
	var err error
	for err == nil {
		_, err = l.Append(payload(l.LastSeq() + 1))
	}
	wantIs(t, err, wal.ErrFailed)
	armed.Store(false)
	wantIs(t, second(l.Append(nil)), errBoom)
	wantIs(t, l.Close(), errBoom)
}

// Whatever fails while a segment is prepared, no byte has been placed: Append says so
// and works again afterwards.
func TestFailedPreparationIsNotFinal(t *testing.T) {
	kinds := []vfstest.OpKind{vfstest.OpCreate, vfstest.OpAllocate, vfstest.OpRename,
		vfstest.OpOpenReadWrite}
	for _, kind := range kinds {
		for _, fault := range []error{errBoom, vfs.ErrNoSpace} {
			o := memOptions(512)
			armed, mem := faulty(&o, kind, fault)
			l := openNew(t, o)
			fill(t, l, 40)
			ok(t, l.Sync(40))
			ok(t, l.Release(40)) // there are spares to rename
			armed.Store(true)
			failed := false
			for range 300 {
				if _, err := l.Append(payload(l.LastSeq() + 1)); err != nil {
					wantIs(t, err, fault)
					failed = true
				}
			}
			if !failed && (kind == vfstest.OpCreate || kind == vfstest.OpAllocate) {
				t.Fatalf("no append failed although every %v did", kind)
			}
			ok(t, l.Err())
			ok(t, l.Sync(l.LastSeq()))
			armed.Store(false)
			last := l.LastSeq()
			fill(t, l, last+100)
			ok(t, l.Close())
			if n := mem.OpenFiles(); n != 0 {
				t.Fatalf("%d files are open", n)
			}
			replay(t, o, 0, 40)
		}
	}
}

func TestDiskFull(t *testing.T) {
	o := memOptions(1 << 10)
	mem := o.FS.(*vfs.MemFS)
	l := openNew(t, o)
	fill(t, l, 10)
	mem.SetCapacity(6 << 10)
	var err error
	for err == nil {
		_, err = l.Append(payload(l.LastSeq() + 1))
	}
	wantIs(t, err, vfs.ErrNoSpace)
	last := l.LastSeq()
	ok(t, l.Sync(last)) // what was taken can be made durable
	wantIs(t, second(l.Append(make([]byte, 600))), vfs.ErrNoSpace)
	ok(t, l.Release(last)) // released segments are reused: no new space is needed
	fill(t, l, last+5)
	ok(t, l.Close())
	replay(t, o, 0, last)

	// Opening a full disk works; writing does when there is space.
	tail, _ := replay(t, o, 0, last)
	mem.SetCapacity(1)
	l, err = wal.Open(o, tail)
	ok(t, err)
	wantIs(t, second(l.Append(nil)), vfs.ErrNoSpace)
	ok(t, l.Sync(base.MaxSeqNum))
	ok(t, l.Release(last+5))
	if l.FirstSegment(last+6) == 0 {
		t.Fatal("no segment to start at")
	}
	mem.SetCapacity(0)
	fill(t, l, last+50)
	ok(t, l.Close())
	replay(t, o, l.FirstSegment(last+5), last+5)
}

// A large record that does not fit the disk does not keep small ones out.
func TestDiskFullForLargeRecordOnly(t *testing.T) {
	o := memOptions(1 << 10)
	o.FS.(*vfs.MemFS).SetCapacity(32 << 10)
	l := openNew(t, o)
	for range 5 {
		wantIs(t, second(l.Append(make([]byte, 64<<10))), vfs.ErrNoSpace)
		fill(t, l, l.LastSeq()+30)
		ok(t, l.Sync(l.LastSeq()))
		ok(t, l.Release(l.LastSeq()))
	}
	ok(t, l.Close())
	replay(t, o, 0, l.LastSeq())
}

// eachFailure runs do with each of its operations failing alone, and with each and all after
// it failing. The error must be that of the failure; if the operation is harmless, there may
// be none. Do returns the file system below, whose files must be closed.
func eachFailure(t *testing.T, harmless func(vfstest.Op) bool,
	do func(t *testing.T, p *vfstest.FailPlan) (*vfs.MemFS, error)) {
	t.Helper()
	eachFailureOf(t, errBoom, harmless, do)
}

// eachFailureOf is eachFailure with another error.
func eachFailureOf(t *testing.T, cause error, harmless func(vfstest.Op) bool,
	do func(t *testing.T, p *vfstest.FailPlan) (*vfs.MemFS, error)) {
	t.Helper()
	for _, lasting := range []bool{false, true} {
		for at := int64(1); ; at++ {
			p := &vfstest.FailPlan{At: at, Err: cause, Lasting: lasting}
			mem, err := do(t, p)
			op, failed := p.Failed()
			what := fmt.Sprintf("operation %d, %v %s, lasting %t", at, op.Kind, op.Name, lasting)
			if n := mem.OpenFiles(); n != 0 {
				t.Fatalf("%s: %d files are open", what, n)
			}
			if !failed {
				ok(t, err)
				break
			}
			if !errors.Is(err, cause) && (err != nil || !harmless(op)) {
				t.Fatalf("%s: got error %v", what, err)
			}
		}
	}
}

func never(vfstest.Op) bool { return false }

// A failure of each single operation of Open, and a stop at each, is an error and leaves a log
// that recovers to the same records. The log goes on in its last segment, after a torn tail,
// or in a new one, because there is none or the last is too large.
func TestOpenStoppedAtEveryOperation(t *testing.T) {
	o, torn := crashImage(t)
	clear(torn[torn.lastUsed()][200:]) // a torn tail, and a segment after it
	large := memOptions(512)
	l := openNew(t, large)
	fill(t, l, 5)
	ok(t, second(l.Append(make([]byte, 1000))))
	ok(t, l.Close())
	for _, img := range []image{torn, snapshot(t, large.FS, large.Dir), {}} {
		openStoppedAtEveryOperation(t, o, img)
	}
}

func openStoppedAtEveryOperation(t *testing.T, o wal.Options, img image) {
	want := base.SeqNum(0)
	_, err := wal.Recover(img.restore(t, o), 0, 1, count(&want))
	ok(t, err)
	highest := wal.SegmentNum(0)
	for _, name := range img.names() {
		highest, _ = wal.ParseFileName(name)
	}
	inAdvance := func(op vfstest.Op) bool { // Open needs one new segment
		n, ok := wal.ParseFileName(filepath.Base(op.Name))
		return ok && n > highest+1
	}
	eachFailure(t, inAdvance, func(t *testing.T, p *vfstest.FailPlan) (*vfs.MemFS, error) {
		so := img.restore(t, o)
		mem := so.FS.(*vfs.MemFS)
		var tail wal.Tail
		if len(img) > 0 {
			tail = mustTail(t, so)
		}
		var open atomic.Bool
		so.FS = vfstest.NewFault(mem, func(op vfstest.Op) error {
			if open.Load() {
				return nil
			}
			return p.Hook(op)
		})
		l, err := wal.Open(so, tail)
		if open.Store(true); err == nil {
			err = l.Close()
		}
		so.FS = mem
		if tail := mustTail(t, so); tail.LastSeq != want {
			t.Fatalf("the log ends at %d, want %d", tail.LastSeq, want)
		}
		return mem, err
	})
}

// longImage is a log that a Close leaves, with records that are longer than what is read at a
// time. The first is damaged.
func longImage(t *testing.T) (wal.Options, image) {
	o := memOptions(1 << 20)
	l := openNew(t, o)
	for range 3 {
		ok(t, second(l.Append(make([]byte, 280_000))))
		ok(t, l.Sync(base.MaxSeqNum))
	}
	ok(t, l.Close())
	img := snapshot(t, o.FS, o.Dir)
	img["wal-0000000002.log"][100]++
	return o, img
}

// A failure of each single operation of Recover, also of a close, is an error.
func TestRecoverStoppedAtEveryOperation(t *testing.T) {
	o, img := crashImage(t)
	clear(img[img.lastUsed()][:64]) // its tag has to be found
	_, long := longImage(t)
	for _, img := range []image{img, long} {
		eachFailure(t, never, func(t *testing.T, p *vfstest.FailPlan) (*vfs.MemFS, error) {
			so := img.restore(t, o)
			mem := so.FS.(*vfs.MemFS)
			so.FS = vfstest.NewFault(mem, p.Hook)
			_, err := wal.Recover(so, 0, 1, count(new(base.SeqNum)))
			if _, failed := p.Failed(); !failed && errors.Is(err, corrupt.ErrCorrupt) {
				err = nil
			}
			return mem, err
		})
	}
}

// A failure of each single operation of Salvage is an error, or damage if the device cannot
// give something back.
func TestSalvageStoppedAtEveryOperation(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	o, img := closedImage(t)
	_, long := longImage(t)
	headless := img.clone()
	clear(headless[img.names()[0]][:64])
	headless[img.names()[1]][0]++
	for _, cause := range []error{errBoom, fs.ErrPermission} {
		// It reads again, in pieces, if the device may be at fault.
		reads := func(op vfstest.Op) bool {
			return op.Kind == vfstest.OpReadAt && vfs.Unreadable(cause)
		}
		for i, img := range []image{img, headless, long} {
			eachFailureOf(t, cause, reads, func(
				t *testing.T, p *vfstest.FailPlan) (*vfs.MemFS, error) {
				so := img.restore(t, o)
				mem := so.FS.(*vfs.MemFS)
				so.FS = vfstest.NewFault(mem, p.Hook)
				rep, err := wal.Salvage(so, 0, func(base.SeqNum, []byte) error { return nil })
				if want := []int64{30, 30, 2}[i]; err == nil && rep.Records != want &&
					len(rep.Damage) == 0 {
					t.Fatalf("%d records, and no error", rep.Records)
				}
				all := errors.Join(append(rep.Damage, err)...)
				if vfs.Unreadable(cause) && errors.Is(all, cause) {
					err = all
				}
				return mem, err
			})
		}
	}
}

// A file that becomes shorter while it is read ends there.
func TestFilesThatBecomeShorter(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	o, img := longImage(t)
	const name = "db/wal-0000000002.log"
	for _, size := range []int64{0, 70, 400_000} {
		for at, reached := 1, true; reached; at++ {
			so := img.restore(t, o)
			mem := so.FS.(*vfs.MemFS)
			n := 0
			so.FS = vfstest.NewFault(mem, func(op vfstest.Op) error {
				if n++; n == at {
					f, err := mem.OpenReadWrite(name)
					ok(t, err)
					ok(t, f.Truncate(size))
					ok(t, f.Close())
				}
				return nil
			})
			_, err := wal.Recover(so, 0, 1, count(new(base.SeqNum)))
			if err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatal(err)
			}
			_, err = wal.Salvage(so, 0, func(base.SeqNum, []byte) error { return nil })
			ok(t, err)
			reached = n >= at
		}
	}
}

// A log whose Close has failed releases nothing that is not durable.
func TestReleaseAfterAFailedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := memOptions(512)
		armed, mem := faulty(&o, vfstest.OpSync, errBoom)
		l := openNew(t, o)
		synctest.Wait()
		armed.Store(true)
		for err := error(nil); err == nil; synctest.Wait() {
			_, err = l.Append(make([]byte, 100))
		}
		wantIs(t, l.Close(), errBoom)
		files := len(snapshot(t, mem, "db"))
		wantIs(t, l.Release(99), errBoom)
		if n := len(snapshot(t, mem, "db")); n != files {
			t.Errorf("%d files are left of %d", n, files)
		}
	})
}

func TestOpenRemovesWhatIsNotPartOfTheLog(t *testing.T) {
	o, img := crashImage(t)
	img["wal-0000000099.log"] = make([]byte, 512)
	img["unrelated.log"] = []byte("stays")
	so := img.restore(t, o)
	tail, _ := replay(t, so, 0, 1)
	l, err := wal.Open(so, tail)
	ok(t, err)
	fill(t, l, l.LastSeq()+20)
	for _, s := range l.Segments() {
		if s.Num > tail.Segment && s.Num < 100 {
			t.Fatalf("the new segment is %d, want 100: numbers are not used again", s.Num)
		}
	}
	ok(t, l.Close())
	known := map[string]bool{"unrelated.log": true}
	for _, s := range l.Segments() {
		known[s.Num.FileName()] = true
	}
	names := snapshot(t, so.FS, so.Dir).names()
	if len(names) != len(known) {
		t.Fatalf("files %q, known %v", names, known)
	}
}

// Open writes the end of the log again before it counts it as durable: the first fsync may
// have failed unseen, or never happened. A marker proves that it did not: it is written after
// the sync. Then nothing is written, cut or synced.
//
// Promise (durability): Records read back are not trusted to be durable.
func TestOpenRewritesWhatMayNotBeDurable(t *testing.T) {
	for _, closed := range []bool{false, true} {
		o, img := crashImage(t)
		if closed {
			o, img = closedImage(t)
		}
		so := img.restore(t, o)
		tail, _ := replay(t, so, 0, 1)
		name := filepath.Join("db", tail.Segment.FileName())
		rewritten, marked, synced := int64(0), false, false
		so.FS = vfstest.NewFault(so.FS, func(op vfstest.Op) error {
			switch op.Kind {
			case vfstest.OpOpen, vfstest.OpOpenReadWrite, vfstest.OpClose, vfstest.OpReadAt,
				vfstest.OpList:
			default:
				if closed {
					t.Errorf("after Close: %v %s", op.Kind, op.Name)
				}
			}
			if op.Name == name && op.Kind == vfstest.OpWriteAt {
				if op.Offset == rewritten && op.Offset < tail.Offset {
					rewritten += op.Len
				}
				marked = marked || op.Offset == tail.Offset
			}
			if op.Name == name && op.Kind == vfstest.OpSync {
				synced = rewritten == tail.Offset
			}
			return nil
		})
		l, err := wal.Open(so, tail)
		ok(t, err)
		ok(t, l.Close())
		if !closed && (rewritten != tail.Offset || !marked || !synced) {
			t.Fatalf("rewrote %d bytes of %d, a marker %v, synced after that %v",
				rewritten, tail.Offset, marked, synced)
		}
	}
}

// An fsync that fails for want of space is a failed fsync: Open must not go on.
func TestOpenFailsIfItsSyncDoes(t *testing.T) {
	for _, fault := range []error{errBoom, vfs.ErrNoSpace} {
		o := memOptions(512)
		armed, mem := faulty(&o, vfstest.OpSync, fault)
		armed.Store(true)
		if _, err := wal.Open(o, wal.Tail{}); !errors.Is(err, wal.ErrFailed) {
			t.Fatalf("got %v", err)
		}
		if mem.OpenFiles() != 0 {
			t.Fatal("files are open")
		}
	}
}

func TestOpenRefusesWhatWasNotRecovered(t *testing.T) {
	o := memOptions(512)
	ok(t, openNew(t, o).Close())
	if _, err := wal.Open(o, wal.Tail{}); err == nil {
		t.Fatal("opened over an existing log")
	}
	for _, bad := range []wal.Options{
		{}, {FS: o.FS, SegmentBytes: 100}, {FS: o.FS, SegmentBytes: 1001},
		{FS: o.FS, MaxRecordBytes: 1 << 31},
	} {
		if _, err := wal.Open(bad, wal.Tail{}); err == nil {
			t.Fatalf("opened with options %+v", bad)
		}
	}
}
