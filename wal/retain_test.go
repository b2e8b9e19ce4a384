package wal_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

// readAll checks that a reader finds the records from one on up to the last.
func readAll(t testing.TB, l *wal.Log, from base.SeqNum) {
	t.Helper()
	r := l.NewReader(from)
	for seq := from; seq <= l.LastSeq(); seq++ {
		wantRecord(t, r, seq)
	}
	if rec, ok, err := r.Next(base.MaxSeqNum); ok || err != nil {
		t.Fatalf("after the last record: %d, %v, %v", rec.Seq, ok, err)
	}
	ok(t, r.Close())
}

func wantRecord(t testing.TB, r *wal.Reader, seq base.SeqNum) wal.Record {
	t.Helper()
	rec, ok, err := r.Next(base.MaxSeqNum)
	if err != nil || !ok || rec.Seq != seq || !bytes.Equal(rec.Payload, payload(seq)) {
		t.Fatalf("got record %d, %v, %v, want %d", rec.Seq, ok, err, seq)
	}
	return rec
}

// Retained segments are read from the first record on to the newest, over releases and opens,
// until they are forgotten; then they are used again.
//
// Promise (history): Every retained commit is read, in order, over any number of opens. What is not
// retained any more is an error that says so.
func TestRetainedSegments(t *testing.T) {
	eachKind(t, 1<<10, func(t *testing.T, o wal.Options) {
		o.Retain = true
		l := openNew(t, o)
		from, needed := wal.SegmentNum(0), base.SeqNum(1)
		for seq := base.SeqNum(40); seq <= 400; seq += 40 {
			fill(t, l, seq)
			ok(t, l.Sync(seq))
			readAll(t, l, 1)
			needed = seq - 3
			from = l.FirstSegment(needed)
			ok(t, l.Release(needed))
			if n := countStates(l); n[wal.SegmentClosed] > 2 || n[wal.SegmentSpare] > 0 {
				t.Fatalf("states %v", n)
			}
			readAll(t, l, seq/2)
			ok(t, l.Close())
			replay(t, o, from, needed)
			l = reopen(t, o, from, needed)
			readAll(t, l, 1)
		}
		kept := l.Retained()
		if kept[0].FirstSeq != 1 || l.OldestSeq() != 1 {
			t.Fatalf("oldest segment %+v, oldest record %d", kept[0], l.OldestSeq())
		}
		r := l.NewReader(1)
		wantRecord(t, r, 1)
		ok(t, l.Forget(kept[3].Num))
		fill(t, l, 600) // forgotten segments are used again
		for seq := base.SeqNum(2); seq <= kept[0].LastSeq; seq++ {
			wantRecord(t, r, seq) // the reader keeps the one that it reads
		}
		_, _, err := r.Next(base.MaxSeqNum)
		wantIs(t, err, wal.ErrGone)
		ok(t, r.Close())
		if l.OldestSeq() != kept[3].FirstSeq {
			t.Fatalf("oldest %d, want %d", l.OldestSeq(), kept[3].FirstSeq)
		}
		readAll(t, l, l.OldestSeq())
		ok(t, l.Close())
	})
}

// A log without Retain removes what another has retained.
func TestRetainedSegmentsEnd(t *testing.T) {
	o := memOptions(1 << 10)
	o.Retain = true
	l := openNew(t, o)
	fill(t, l, 200)
	ok(t, l.Sync(200))
	from := l.FirstSegment(200)
	ok(t, l.Release(200))
	ok(t, l.Close())
	o.Retain = false
	l = reopen(t, o, from, 200)
	if len(l.Retained()) > 0 || l.OldestSeq() == 1 {
		t.Fatalf("retained %v", l.Retained())
	}
	ok(t, l.Close())
	names, err := o.FS.List(o.Dir)
	ok(t, err)
	if len(names) > 2 {
		t.Fatalf("files %q", names)
	}
}

// Two copies of one log go on by themselves: no segment has records of both, so the use id of the
// segment that holds a record says which history it belongs to.
//
// Promise (history): A commit of another history of the same database is never taken for one of
// this.
func TestHistoriesOfCopies(t *testing.T) {
	o := memOptions(64 << 10) // all in a segment that Open would go on in
	o.Retain = true
	l := openNew(t, o)
	fill(t, l, 10)
	ok(t, l.Close())
	twin := snapshot(t, o.FS, o.Dir).restore(t, o)
	a, b := reopen(t, o, 0, 1), reopen(t, twin, 0, 1)
	fill(t, a, 12)
	fill(t, b, 12)
	for seq := base.SeqNum(1); seq <= 12; seq++ {
		if same := a.History(seq) == b.History(seq); same != (seq <= 10) || a.History(seq) == 0 {
			t.Errorf("record %d: histories %x and %x", seq, a.History(seq), b.History(seq))
		}
	}
	if a.History(13) != 0 || a.History(0) != 0 {
		t.Error("a record that is not there has a history")
	}
	ok(t, errors.Join(a.Close(), b.Close()))

	// Segments of the one in the directory of the other are no part of it.
	mixed := snapshot(t, o.FS, o.Dir)
	other := snapshot(t, twin.FS, twin.Dir)
	names := mixed.names()
	last := names[len(names)-1]
	mixed[last] = other[last]
	m := mixed.restore(t, o)
	l = reopen(t, m, 0, 1)
	defer l.Close()
	if l.History(12) != b.History(12) {
		t.Error("a segment of another history was not taken whole")
	}
}

// A gap in the retained segments ends them: what is older is removed.
func TestGapInRetainedSegments(t *testing.T) {
	for _, damage := range []string{"missing", "header", "short", "exchanged"} {
		t.Run(damage, func(t *testing.T) {
			o := memOptions(1 << 10)
			o.Retain = true
			l := openNew(t, o)
			fill(t, l, 300)
			ok(t, l.Sync(300))
			from := l.FirstSegment(300)
			ok(t, l.Release(300))
			kept := l.Retained()
			ok(t, l.Close())
			img := snapshot(t, o.FS, o.Dir)
			name := kept[4].Num.FileName()
			switch damage {
			case "missing":
				delete(img, name)
			case "header":
				img[name][45] ^= 1
			case "short":
				img[name] = img[name][:len(img[name])/2]
			case "exchanged":
				img[name] = slices.Clone(img[kept[3].Num.FileName()])
			}
			o = img.restore(t, o)
			l = reopen(t, o, from, 300)
			defer l.Close()
			if got := l.Retained(); got[0].Num != kept[5].Num || l.OldestSeq() != kept[5].FirstSeq {
				t.Fatalf("retained from %+v, want %+v", got[0], kept[5])
			}
			if err := l.Broken(); (err == nil) != (damage == "missing") {
				t.Errorf("damage: %v", err)
			} else if err != nil && filepath.Base(wantCorrupt(t, err).File) != name {
				t.Errorf("damage in %s: %v", name, err)
			}
			readAll(t, l, l.OldestSeq())
			left := snapshot(t, o.FS, o.Dir)
			if left[kept[0].Num.FileName()] != nil {
				t.Error("a segment beyond the gap was not removed")
			}
		})
	}
}

// Damage in a retained segment is an error of the reader that meets it.
func TestDamagedRetainedSegment(t *testing.T) {
	o := memOptions(1 << 10)
	o.Retain = true
	l := openNew(t, o)
	fill(t, l, 100)
	ok(t, l.Sync(100))
	from := l.FirstSegment(100)
	ok(t, l.Release(100))
	ok(t, l.Close())
	img := snapshot(t, o.FS, o.Dir)
	name := img.names()[0]
	img[name][200] ^= 1
	l = reopen(t, img.restore(t, o), from, 100)
	defer l.Close()
	r := l.NewReader(1)
	defer r.Close()
	for {
		_, ok, err := r.Next(base.MaxSeqNum)
		if ok {
			continue
		}
		if c := wantCorrupt(t, err); filepath.Base(c.File) != name {
			t.Fatalf("error names %s", c.File)
		}
		return
	}
}

// A view reads a log that nobody has open, and changes nothing.
func TestView(t *testing.T) {
	eachKind(t, 1<<10, func(t *testing.T, o wal.Options) {
		o.Retain = true
		l := openNew(t, o)
		fill(t, l, 200)
		ok(t, l.Sync(200))
		from := l.FirstSegment(150)
		ok(t, l.Release(150))
		ok(t, l.Close())
		before := snapshot(t, o.FS, o.Dir)
		tail, _ := replay(t, o, from, 150)
		v, err := wal.View(o, tail)
		ok(t, err)
		readAll(t, v, 1)
		wantIs(t, v.WaitAppend(t.Context(), 200), wal.ErrDone)
		if after := snapshot(t, o.FS, o.Dir); !slices.Equal(after.names(), before.names()) {
			t.Fatalf("files %q became %q", before.names(), after.names())
		}
	})
}

// A reader follows a log that grows, whatever is released and forgotten meanwhile, and WaitAppend
// wakes it for each record.
func TestReaderFollows(t *testing.T) {
	eachKind(t, 4<<10, func(t *testing.T, o wal.Options) {
		o.Retain = true
		l := openNew(t, o)
		const last = 3000
		done := make(chan error, 1)
		go func() {
			for seq := base.SeqNum(1); seq <= last; seq++ {
				if _, err := l.Append(payload(seq)); err != nil {
					done <- err
					return
				}
				if seq%100 == 0 {
					if err := errors.Join(l.Sync(seq), l.Release(seq-50)); err != nil {
						done <- err
						return
					}
				}
			}
			done <- nil
		}()
		r := l.NewReader(1)
		for seq := base.SeqNum(1); seq <= last; seq++ {
			ok(t, l.WaitAppend(t.Context(), seq-1))
			rec := wantRecord(t, r, seq)
			if seq%500 == 0 {
				for _, s := range l.Retained() {
					if s.LastSeq < rec.Seq {
						ok(t, l.Forget(s.Num+1))
					}
				}
			}
		}
		ok(t, <-done)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantIs(t, l.WaitAppend(ctx, last), context.Canceled)
		ok(t, r.Close())
		waits := make(chan error, 1)
		go func() { waits <- l.WaitAppend(t.Context(), last) }()
		ok(t, l.Close())
		wantIs(t, <-waits, wal.ErrDone)
	})
}

// A reader that cannot let go of a segment leaves no file open, and goes on with its next call.
func TestReaderThatCannotLetGo(t *testing.T) {
	o := memOptions(1 << 10)
	mem, damned := o.FS.(*vfs.MemFS), errors.New("no removal")
	o.Retain, o.RecycleSegments = true, -1
	refuse := false
	o.FS = vfstest.NewFault(mem, func(op vfstest.Op) error {
		if refuse && op.Kind == vfstest.OpRemove {
			return damned
		}
		return nil
	})
	l := openNew(t, o)
	fill(t, l, 100)
	ok(t, l.Sync(100))
	ok(t, l.Release(100))
	kept, open := l.Retained(), mem.OpenFiles()
	r := l.NewReader(1)
	for seq := base.SeqNum(1); seq <= kept[0].LastSeq; seq++ {
		wantRecord(t, r, seq)
	}
	ok(t, l.Forget(kept[1].Num))
	refuse = true
	_, _, err := r.Next(100)
	wantIs(t, err, damned)
	refuse = false
	wantRecord(t, r, kept[1].FirstSeq)
	ok(t, r.Close())
	if n := mem.OpenFiles(); n != open {
		t.Errorf("%d files are open, %d before", n, open)
	}
	ok(t, l.Close())
}

// After a power cut at any operation the retained records are a part without a gap that ends with
// the log, and nothing that was synced and not forgotten is missing.
func TestRetainedAfterPowerCuts(t *testing.T) {
	type moment struct {
		disk         *vfs.MemFS
		from         wal.SegmentNum
		needed, kept base.SeqNum
	}
	var mu sync.Mutex
	var moments []moment
	var state moment // guarded by mu
	note := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		change()
	}
	crash := vfstest.NewCrash()
	ok(t, crash.MkdirAll("db"))
	ok(t, crash.SyncDir("."))
	rnd := testutil.Rand(t)
	fsys := vfstest.NewFault(crash, func(op vfstest.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind != vfstest.OpWriteAt || rnd.IntN(8) == 0 {
			m := state
			m.disk = crash.PowerCut(rnd, rnd.Float64())
			moments = append(moments, m)
		}
		return nil
	})
	o := memOptions(1 << 10)
	o.FS, o.Retain = fsys, true
	l := openNew(t, o)
	note(func() { state = moment{needed: 1, kept: 1} })
	for seq := base.SeqNum(30); seq <= 240; seq += 30 {
		fill(t, l, seq)
		ok(t, l.Sync(seq))
		needed := seq - 5
		from := l.FirstSegment(needed) // in an edit of the manifest
		note(func() { state.from, state.needed = from, needed })
		ok(t, l.Release(needed))
		if kept := l.Retained(); len(kept) > 4 {
			note(func() { state.kept = kept[2].FirstSeq })
			ok(t, l.Forget(kept[2].Num))
		}
	}
	ok(t, l.Close())
	for _, m := range moments {
		if m.from == 0 {
			continue // before the first edit
		}
		o.FS = m.disk
		l = reopen(t, o, m.from, m.needed)
		if l.OldestSeq() > m.kept {
			t.Fatalf("the oldest record is %d, and nothing from %d on was forgotten",
				l.OldestSeq(), m.kept)
		}
		readAll(t, l, l.OldestSeq())
		ok(t, l.Close())
	}
	if len(moments) < 100 {
		t.Fatalf("only %d moments", len(moments))
	}
}
