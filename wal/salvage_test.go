package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

// salvage returns the sequence numbers of the records that are handed over, after a check of
// their payloads and of the report's numbers.
func salvage(t *testing.T, o wal.Options) ([]base.SeqNum, wal.SalvageReport) {
	t.Helper()
	var seqs []base.SeqNum
	rep, err := wal.Salvage(o, 0, func(seq base.SeqNum, p []byte) error {
		if !bytes.Equal(p, payload(seq)) {
			return fmt.Errorf("record %d has payload %x", seq, p)
		}
		seqs = append(seqs, seq)
		return nil
	})
	ok(t, err)
	if n := o.FS.(interface{ OpenFiles() int }).OpenFiles(); n != 0 {
		t.Fatalf("%d files are open", n)
	}
	if rep.Records != int64(len(seqs)) || len(seqs) > 0 && rep.LastSeq != slices.Max(seqs) {
		t.Fatalf("report %+v of records %d", rep, seqs)
	}
	return seqs, rep
}

// upTo returns 1 to last.
func upTo(last base.SeqNum) (seqs []base.SeqNum) {
	for seq := base.SeqNum(1); seq <= last; seq++ {
		seqs = append(seqs, seq)
	}
	return seqs
}

func wantSeqs(t *testing.T, what string, got, want []base.SeqNum) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: records %d, want %d", what, got, want)
	}
}

// damageOf fails unless the report has one damage, in the file.
func damageOf(t *testing.T, rep wal.SalvageReport, file string) *corrupt.Error {
	t.Helper()
	if len(rep.Damage) != 1 {
		t.Fatalf("damage %v, want one in %s", rep.Damage, file)
	}
	c := wantCorrupt(t, rep.Damage[0])
	if filepath.Base(c.File) != file {
		t.Fatalf("damage %v, want it in %s", c, file)
	}
	return c
}

func TestSalvageOfAWholeLog(t *testing.T) {
	o, img := closedImage(t)
	img["wal-0000000099.log"] = make([]byte, 512) // prepared
	img["wal-0000000100.log"] = make([]byte, 24)  // created, and cut by a crash
	img["wal-0000000101.log"] = nil               // created
	img["wal-0000000000.log"] = []byte("no segment has this number")
	seqs, rep := salvage(t, img.restore(t, o))
	wantSeqs(t, "a whole log", seqs, upTo(30))
	ids, err := wal.Databases(img.restore(t, o))
	ok(t, err)
	if len(rep.Damage) > 0 || rep.Synced != 30 || len(ids) != 1 ||
		ids[testDBID] != len(img.segments()) {
		t.Errorf("report %+v of %d segments", rep, len(img.segments()))
	}
}

// segments returns the names of the segments that have a header.
func (img image) segments() (names []string) {
	for _, name := range img.names() {
		b := img[name]
		if _, ok := wal.ParseFileName(name); ok && len(b) >= 64 && b[0] != 0 {
			names = append(names, name)
		}
	}
	return names
}

// A byte of any header is changed: the segment's records are found by their own checksums.
func TestSalvageOfADamagedHeader(t *testing.T) {
	o, img := closedImage(t)
	for _, name := range img.segments() {
		for at := range 64 {
			if at/4 == 2 {
				continue // the version
			}
			flipped := img.clone()
			flipped[name][at] ^= 0x10
			what := fmt.Sprintf("%s, byte %d", name, at)
			seqs, rep := salvage(t, flipped.restore(t, o))
			wantSeqs(t, what, seqs, upTo(30))
			damageOf(t, rep, name)
		}
	}
}

// A copy of a segment under another number adds nothing.
func TestSalvageOfACopiedSegment(t *testing.T) {
	o, img := closedImage(t)
	for _, name := range img.segments() {
		copied := img.clone()
		copied["wal-0000000777.log"] = img[name]
		seqs, _ := salvage(t, copied.restore(t, o))
		wantSeqs(t, "copy of "+name, seqs, upTo(30))
	}
}

// The records around a damaged one are handed over, and the damage says where they are not.
func TestSalvageReadsAroundADamagedRecord(t *testing.T) {
	o, img := closedImage(t)
	for _, r := range img.records() {
		flipped := img.clone()
		flipped[r.file][r.off+20] ^= 1 // in the sequence number, which every record has
		seqs, rep := salvage(t, flipped.restore(t, o))
		if r.marker {
			wantSeqs(t, "marker", seqs, upTo(30))
			continue
		}
		want := slices.DeleteFunc(upTo(30), func(s base.SeqNum) bool { return s == r.seq })
		wantSeqs(t, fmt.Sprintf("without %d", r.seq), seqs, want)
		// Whether records follow in the segment decides whether the end is torn or damaged.
		if len(rep.Damage) > 0 {
			if c := damageOf(t, rep, r.file); c.Offset != int64(r.off) {
				t.Fatalf("record %d at %d: %v", r.seq, r.off, c)
			}
		} else if r.seq < 30 && slices.ContainsFunc(img.records(), func(s record) bool {
			return s.file == r.file && s.off > r.off
		}) {
			t.Fatalf("record %d at %d of %s: no damage is reported", r.seq, r.off, r.file)
		}
	}
}

// Segments of another database are left out and reported; without an identity all are taken.
func TestSalvageOfAnotherDatabase(t *testing.T) {
	o, img := closedImage(t)
	o = img.restore(t, o)
	o.DBID[0]++
	seqs, rep := salvage(t, o)
	if len(seqs) > 0 || len(rep.Damage) != len(img.segments()) {
		t.Fatalf("records %d, damage %v", seqs, rep.Damage)
	}
	for _, err := range rep.Damage {
		wantCorrupt(t, err)
	}
	o.DBID = [16]byte{}
	seqs, rep = salvage(t, o)
	wantSeqs(t, "any database", seqs, upTo(30))
	ids, err := wal.Databases(o)
	ok(t, err)
	if len(rep.Damage) > 0 || ids[testDBID] != len(img.segments()) {
		t.Fatalf("report %+v, %v", rep, ids)
	}
}

// What the device cannot read is damage: a segment that cannot be opened, and a part of one.
func TestSalvageAroundUnreadableSegments(t *testing.T) {
	o, img := closedImage(t)
	names := img.segments()
	for _, kind := range []vfstest.OpKind{vfstest.OpOpen, vfstest.OpReadAt} {
		so := img.restore(t, o)
		mem := so.FS.(*vfs.MemFS)
		so.FS = counted{vfstest.NewFault(mem, func(op vfstest.Op) error {
			if op.Kind == kind && filepath.Base(op.Name) == names[1] {
				return syscall.EIO
			}
			return nil
		}), mem}
		seqs, rep := salvage(t, so)
		var want []base.SeqNum
		for _, r := range img.records() {
			if !r.marker && r.file != names[1] {
				want = append(want, r.seq)
			}
		}
		wantSeqs(t, kind.String(), seqs, want)
		if len(rep.Damage) == 0 || !errors.Is(rep.Damage[0], syscall.EIO) {
			t.Errorf("%v: damage %v", kind, rep.Damage)
		}
	}
}

// counted is a file system over mem.
type counted struct {
	vfs.FS
	mem *vfs.MemFS
}

func (c counted) OpenFiles() int { return c.mem.OpenFiles() }

// The callback's error ends the rescue, and is returned.
func TestSalvageStopsWithItsCaller(t *testing.T) {
	o, img := closedImage(t)
	o = img.restore(t, o)
	n := 0
	rep, err := wal.Salvage(o, 0, func(base.SeqNum, []byte) error {
		if n++; n == 20 {
			return errBoom
		}
		return nil
	})
	wantIs(t, err, errBoom)
	if n != 20 || rep.Records != 20 || o.FS.(*vfs.MemFS).OpenFiles() != 0 {
		t.Errorf("%d calls, report %+v", n, rep)
	}
}

// Records after a tear, which Open has left behind in a segment, are not taken for those that were
// written with the same sequence numbers since.
//
// Promise (damage): Records that a power cut has undone do not come back.
func TestSalvageOfATornSegment(t *testing.T) {
	o := memOptions(64 << 10)
	o.Retain = true // Open begins a segment
	l := openNew(t, o)
	fill(t, l, 10)
	img := snapshot(t, o.FS, o.Dir)
	ok(t, l.Close())
	for _, r := range img.records() {
		if r.seq == 8 && !r.marker {
			img[r.file][r.off+20] ^= 1 // was not written; 9 and 10 were
		}
	}
	o = img.restore(t, o)
	l = reopen(t, o, 0, 1)
	for seq := base.SeqNum(8); seq <= 12; seq++ {
		_, err := l.Append([]byte("since then"))
		ok(t, err)
	}
	ok(t, l.Close())
	undone := 0
	rep, err := wal.Salvage(o, 0, func(seq base.SeqNum, p []byte) error {
		if (string(p) == "since then") != (seq >= 8) {
			undone++
		}
		return nil
	})
	ok(t, err)
	if undone > 0 || rep.Records != 12 || len(rep.Damage) > 0 || rep.Apart != 0 {
		t.Errorf("%d records were undone, report %+v", undone, rep)
	}
}

// If nobody knows where the log begins, segments count that lead up to the newest. What lies
// before a missing one was released, and its deletes may be gone.
func TestSalvageOfAGap(t *testing.T) {
	o := memOptions(1 << 10)
	o.Retain = true
	l := openNew(t, o)
	fill(t, l, 200)
	ok(t, l.Sync(200))
	ok(t, l.Release(200))
	kept := l.Retained()
	ok(t, l.Close())
	img := snapshot(t, o.FS, o.Dir)
	all, rep := salvage(t, img.restore(t, o))
	wantSeqs(t, "whole", all, upTo(200))
	delete(img, kept[2].Num.FileName())
	o = img.restore(t, o)
	got, rep := salvage(t, o)
	wantSeqs(t, "after the gap", got, all[kept[2].LastSeq:])
	if rep.Apart != 2 || len(rep.Damage) > 0 {
		t.Errorf("report %+v", rep)
	}
	got = nil
	_, err := wal.Salvage(o, kept[1].Num, func(seq base.SeqNum, _ []byte) error {
		got = append(got, seq)
		return nil
	})
	ok(t, err)
	want := slices.Concat(all[kept[1].FirstSeq-1:kept[1].LastSeq], all[kept[2].LastSeq:])
	wantSeqs(t, "from a known segment on", got, want)
}
