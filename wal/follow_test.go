package wal_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// followed is a log that one process appends to and others follow.
type followed struct {
	t    *testing.T
	o    wal.Options
	log  *wal.Log
	last base.SeqNum
}

func newFollowed(t *testing.T, floor func() wal.SegmentNum) *followed {
	fsys := vfs.NewMem()
	ok(t, fsys.MkdirAll("db"))
	f := &followed{t: t, o: wal.Options{
		FS: fsys, Dir: "db", DBID: [16]byte{1}, SegmentBytes: 4 << 10, Floor: floor,
	}}
	f.open()
	return f
}

// open recovers and opens the log, as a process does.
func (f *followed) open() {
	f.t.Helper()
	nothing := func(wal.SegmentNum, base.SeqNum, []byte) error { return nil }
	tail, err := wal.Recover(f.o, 0, 1, nothing)
	if err == nil {
		f.log, err = wal.Open(f.o, tail)
	}
	ok(f.t, err)
	f.t.Cleanup(func() { _ = f.log.Close() })
}

// stray leaves an empty file where the next segment would be, as a process that is killed does: the
// next segment has another number.
func (f *followed) stray() {
	f.t.Helper()
	names, err := f.o.FS.List(f.o.Dir)
	ok(f.t, err)
	last := wal.SegmentNum(0)
	for _, name := range names {
		if n, ok := wal.ParseFileName(name); ok {
			last = max(last, n)
		}
	}
	file, err := f.o.FS.Create(filepath.Join(f.o.Dir, (last + 1).FileName()))
	if err = errors.Join(err, file.Close()); err != nil {
		f.t.Fatal(err)
	}
}

func payloadOf(seq base.SeqNum) []byte {
	return fmt.Appendf(nil, "%0*d", 10+int(seq*37%600), seq)
}

func (f *followed) append(n int) {
	f.t.Helper()
	for range n {
		f.last++
		if _, err := f.log.Append(payloadOf(f.last)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *followed) follower() *wal.Follower {
	f.t.Helper()
	o := f.o
	o.Beside = true
	last := base.SeqNum(0)
	tail, err := wal.Recover(o, 0, 1, func(_ wal.SegmentNum, seq base.SeqNum, _ []byte) error {
		last = seq
		return nil
	})
	if err != nil || last != f.last {
		f.t.Fatalf("recovered up to %d of %d: %v", last, f.last, err)
	}
	r := wal.Follow(o, tail)
	f.t.Cleanup(func() { _ = r.Close() })
	return r
}

// catchUp reads what there is: after records, a next segment is seen by one more call.
func (f *followed) catchUp(r *wal.Follower) error {
	for {
		if found, err := f.read(r); err != nil || !found {
			return err
		}
	}
}

// read reads up to the first call that finds nothing, and reports whether there were records.
func (f *followed) read(r *wal.Follower) (found bool, err error) {
	for ; ; found = true {
		before := r.LastSeq()
		rec, ok, err := r.Next()
		if err != nil || !ok {
			return found, err
		}
		if rec.Seq != before+1 || string(rec.Payload) != string(payloadOf(rec.Seq)) {
			f.t.Fatalf("record %d after %d is %q", rec.Seq, before, rec.Payload)
		}
	}
}

// TestFollow: followers read each record once, over segments and over the ends and beginnings of
// writing processes.
//
// Promise (readers): A follower of a log reads each record once and in order, over segments and
// over the ends of writers, at once if it looks around.
func TestFollow(t *testing.T) {
	random := testutil.Rand(t)
	f := newFollowed(t, nil)
	followers := []*wal.Follower{f.follower()}
	for range testutil.Effort(300, 20_000) {
		switch random.IntN(10) {
		case 0:
			followers = append(followers, f.follower())
		case 1:
			ok(t, f.log.Close())
			if random.IntN(2) == 0 {
				f.stray()
			}
			f.open()
		case 2:
			ok(t, f.log.Sync(f.last))
		default:
			f.append(random.IntN(6))
		}
		r := followers[random.IntN(len(followers))]
		var err error
		if random.IntN(2) == 0 {
			r.LookAround()
			_, err = f.read(r)
		} else {
			for range 5 { // a segment with another number than the next is not always looked for
				err = errors.Join(err, f.catchUp(r))
			}
		}
		ok(t, err)
		if r.LastSeq() != f.last {
			t.Fatalf("the follower is at %d, the log at %d", r.LastSeq(), f.last)
		}
		if r.SyncedSeq() > f.log.SyncedSeq() {
			t.Fatalf("%d is said to be durable, %d is", r.SyncedSeq(), f.log.SyncedSeq())
		}
	}
}

// TestFloor: released segments stay from the lowest on that is needed, also over an Open, and a
// follower of segments that were recycled says so.
//
// Promise (readers): Log that a lease names is neither removed nor recycled, and a follower whose
// log is gone says so.
func TestFloor(t *testing.T) {
	floor := wal.SegmentNum(0)
	f := newFollowed(t, func() wal.SegmentNum { return floor })
	f.append(20)
	kept := f.follower()
	release := func() {
		t.Helper()
		f.append(40)
		ok(t, errors.Join(f.log.Sync(f.last), f.log.Release(f.last+1), f.log.Forget(floor)))
		f.append(40)
	}
	floor = kept.Segment()
	release()
	from := f.log.FirstSegment(f.last + 1)
	ok(t, f.log.Close())
	tail, err := wal.Recover(f.o, from, f.last+1, nil)
	ok(t, err)
	f.log, err = wal.Open(f.o, tail)
	ok(t, err)
	if err := f.catchUp(kept); err != nil || kept.LastSeq() != f.last {
		t.Fatalf("at %d of %d: %v", kept.LastSeq(), f.last, err)
	}
	floor = 1 << 40
	release()
	release()
	for range 5 {
		err = errors.Join(err, f.catchUp(kept))
	}
	if !errors.Is(err, wal.ErrLost) {
		t.Fatalf("the log was released: at %d of %d: %v", kept.LastSeq(), f.last, err)
	}
}

// A reader of a view that begins again goes on where it is, also if it comes before the view grows:
// the last segment that was found gets more records.
//
// Promise (history): A reader beside the writer goes on when its view begins again, and takes a
// whole log for whole.
func TestReaderOfARenewedView(t *testing.T) {
	f := newFollowed(t, nil)
	f.append(3)
	nothing := func(wal.SegmentNum, base.SeqNum, []byte) error { return nil }
	recovered := func() (wal.Tail, *wal.Follower) {
		tail, err := wal.Recover(f.o, 0, 1, nothing)
		ok(t, err)
		r := wal.Follow(f.o, tail)
		t.Cleanup(func() { _ = r.Close() })
		return tail, r
	}
	tail, log := recovered()
	v, err := wal.View(f.o, tail)
	ok(t, err)
	v.Grow(log, f.last)
	tail, log = recovered()
	ok(t, v.Renew(tail))
	r := v.NewReader(1)
	defer func() { ok(t, r.Close()) }()
	for seq := base.SeqNum(1); seq <= 100; seq++ {
		rec, there, err := r.Next(f.last)
		if err != nil || !there || string(rec.Payload) != string(payloadOf(seq)) {
			t.Fatalf("record %d: %q, %v, %v", seq, rec.Payload, there, err)
		}
		if seq == f.last {
			v.Grow(log, f.last)
			f.append(17) // over segments
			ok(t, f.catchUp(log))
			v.Grow(log, f.last)
		}
	}
}
