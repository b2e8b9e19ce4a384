package wal_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/wal"
)

// record is a record as the format page describes it, found by a parser of the
// tests' own.
type record struct {
	file       string
	off, end   int // end without the padding
	seq, claim base.SeqNum
	marker     bool
}

// records parses the undamaged segments of an image: all records whose tag is the
// one of the first record of their file.
func (img image) records() []record {
	le := binary.LittleEndian
	var out []record
	for _, name := range img.names() {
		b := img[name]
		if len(b) < 88 || string(b[:8]) != "kstonwal" {
			continue
		}
		for off, last := 64, le.Uint64(b[48:])-1; off+24 <= len(b); {
			n := int(le.Uint32(b[off+4:]))
			r := record{file: name, off: off, seq: base.SeqNum(le.Uint64(b[off+16:])),
				marker: uint32(n) == math.MaxUint32}
			if r.marker {
				n = 0
			} else {
				last++
			}
			if le.Uint32(b[off+8:]) != le.Uint32(b[72:]) || uint64(r.seq) != last {
				break
			}
			if lag := le.Uint32(b[off+12:]); lag != math.MaxUint32 && base.SeqNum(lag) <= r.seq {
				r.claim = r.seq - base.SeqNum(lag)
			}
			r.end = off + 24 + n
			out = append(out, r)
			off = (r.end + 7) &^ 7
		}
	}
	return out
}

// crashImage is what a log of several segments leaves if the machine stops without
// a Close: records 1 to 30 are synced, 31 to 36 are not. Its last segment was made in advance
// and holds no record.
func crashImage(t testing.TB) (wal.Options, image) {
	for {
		o := memOptions(512)
		l := openNew(t, o)
		for seq := base.SeqNum(3); seq <= 30; seq += 3 {
			fill(t, l, seq)
			ok(t, l.Sync(seq))
		}
		fill(t, l, 36)
		img := snapshot(t, o.FS, o.Dir)
		ok(t, l.Close())
		// The sync that the last segment began with may come late, and go further; the next
		// segment may not exist yet.
		late := slices.ContainsFunc(img.records(), func(r record) bool { return r.claim > 30 })
		if !late && img.lastUsed() != img.names()[len(img)-1] {
			return o, img
		}
	}
}

// closedImage is what a Close leaves.
func closedImage(t testing.TB) (wal.Options, image) {
	o := memOptions(512)
	l := openNew(t, o)
	for seq := base.SeqNum(3); seq <= 30; seq += 3 {
		fill(t, l, seq)
		ok(t, l.Sync(seq))
	}
	ok(t, l.Close())
	return o, snapshot(t, o.FS, o.Dir)
}

// A torn tail is cut silently: with the log cut off at any byte, recovery gives the
// records before it, a new log goes on after them, and recovering that gives the
// same records again.
//
// Promise (durability): The log survives being cut or zeroed anywhere after a synced point, and
// gives a prefix. Also `TestZeroedTailAtEveryLength` in `wal`.
func TestTornTailAtEveryLength(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	o, img := crashImage(t)
	recs := img.records()
	for i, name := range img.names() {
		for length := 0; length <= len(img[name]); length++ {
			cut := img.clone()
			cut[name] = cut[name][:length]
			for _, later := range img.names()[i+1:] {
				delete(cut, later)
			}
			want := base.SeqNum(0)
			for _, r := range recs {
				if r.file < name || r.file == name && r.end <= length && length >= 64 {
					want = r.seq
				}
			}
			if err := survives(t, cut.restore(t, o), want); err != nil {
				t.Fatalf("%s cut at %d: %v", name, length, err)
			}
		}
	}
}

// The same with the bytes after the cut zeroed, as a file system shows blocks that
// were allocated and never written. Later segments stay: what they hold was synced
// up to some point, and recovery must notice if that is after the cut.
func TestZeroedTailAtEveryLength(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	o, img := crashImage(t)
	recs := img.records()
	for _, name := range img.names() {
		for length := 0; length < len(img[name]); length += 4 {
			cut := img.clone()
			clear(cut[name][length:])
			want, claim := base.SeqNum(0), base.SeqNum(0)
			broken := false
			for _, r := range recs {
				lost := r.file == name && (string(cut[name][:64]) != string(img[name][:64]) ||
					string(cut[name][r.off:r.end]) != string(img[name][r.off:r.end]))
				broken = broken || lost && !r.marker
				if !broken {
					want = max(want, r.seq)
				}
				if !lost {
					claim = max(claim, r.claim)
				}
			}
			err := survives(t, cut.restore(t, o), want)
			if want < claim {
				wantCorrupt(t, err)
			} else if err != nil {
				t.Fatalf("%s zeroed from %d: %v", name, length, err)
			}
		}
	}
}

// survives recovers, wants records 1 to want, goes on for three records without a
// Close, and does so twice.
func survives(t testing.TB, o wal.Options, want base.SeqNum) error {
	for range 2 {
		tail, n, err := tryReplay(o, 0, 1)
		if err != nil {
			return err
		}
		if base.SeqNum(n) != want {
			return fmt.Errorf("%d records, want %d", n, want)
		}
		l, err := wal.Open(o, tail)
		if err != nil {
			return err
		}
		if l.LastSeq() != want {
			return fmt.Errorf("log continues after %d, want %d", l.LastSeq(), want)
		}
		fill(t, l, want+3)
		after := snapshot(t, o.FS, o.Dir)
		if err := l.Close(); err != nil {
			return err
		}
		o, want = after.restore(t, o), want+3
	}
	_, _, err := tryReplay(o, 0, 1)
	return err
}

// In a log that was closed, every flipped byte is found or does not matter.
//
// Promise (durability): A torn tail is cut silently, damage below a synced point is an error
// with file and offset, and nothing is changed. Also `TestFlipEveryByteAfterACrash`,
// `TestDamageIsLocatedAndNothingChanges`, `TestReplacedSegments` in `wal`.
func TestFlipEveryByteOfAClosedLog(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	o, img := closedImage(t)
	detected := 0
	flipEach(t, img, func(name string, at int, flipped image) {
		_, n, err := tryReplay(flipped.restore(t, o), 0, 1)
		switch {
		case errors.Is(err, corrupt.ErrCorrupt):
			wantCorrupt(t, err)
			detected++
		case err != nil:
			t.Fatalf("flip in %s at %d: %v", name, at, err)
		case n != 30:
			t.Fatalf("flip in %s at %d: %d records without an error, want 30", name, at, n)
		}
	})
	if detected < 1000 {
		t.Fatalf("only %d flips were detected", detected)
	}
}

// After a crash, a flip may cost records that nothing else in the log speaks of:
// never more, never others, never silently a record that was known synced.
func TestFlipEveryByteAfterACrash(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	o, img := crashImage(t)
	recs := img.records()
	flipEach(t, img, func(name string, at int, flipped image) {
		claim := base.SeqNum(0)
		for _, r := range recs {
			if r.file != name || at < r.off || at >= r.end {
				claim = max(claim, r.claim)
			}
		}
		_, n, err := tryReplay(flipped.restore(t, o), 0, 1)
		switch {
		case errors.Is(err, corrupt.ErrCorrupt):
			wantCorrupt(t, err)
		case err != nil:
			t.Fatalf("flip in %s at %d: %v", name, at, err)
		case base.SeqNum(n) < claim:
			t.Fatalf("flip in %s at %d: %d records, but %d were known synced", name, at, n, claim)
		}
	})
}

func flipEach(t *testing.T, img image, fn func(name string, at int, flipped image)) {
	t.Helper()
	for _, name := range img.names() {
		for at := range img[name] {
			for _, mask := range []byte{0x01, 0x80, 0xff} {
				img[name][at] ^= mask
				fn(name, at, img)
				img[name][at] ^= mask
			}
		}
	}
}

// Recovery reports where the damage is, and leaves every byte as it was.
func TestDamageIsLocatedAndNothingChanges(t *testing.T) {
	o, img := closedImage(t)
	for _, r := range img.records() {
		if r.marker {
			continue
		}
		bad := img.clone()
		bad[r.file][r.off+16] ^= 1
		ro := bad.restore(t, o)
		_, _, err := tryReplay(ro, 0, 1)
		if c := wantCorrupt(t, err); c.File != "db/"+r.file || c.Offset != int64(r.off) {
			t.Fatalf("damage in %s at %d was reported as %v", r.file, r.off, c)
		}
		for name, b := range snapshot(t, ro.FS, ro.Dir) {
			if string(b) != string(bad[name]) {
				t.Fatalf("recovery changed %s", name)
			}
		}
	}
	for _, name := range img.names()[:2] {
		bad := img.clone()
		bad[name][45] ^= 1 // the use id
		_, _, err := tryReplay(bad.restore(t, o), 0, 1)
		if c := wantCorrupt(t, err); c.File != "db/"+name {
			t.Fatalf("damage in the header of %s was reported as %v", name, c)
		}
	}
}

func TestReplacedSegments(t *testing.T) {
	o, img := closedImage(t)
	names := img.names()
	first, second := names[0], names[1]
	tests := map[string]func(img image){
		"first two swapped": func(img image) {
			img[first], img[second] = img[second], img[first]
		},
		"second twice":   func(img image) { img[first] = img[second] },
		"first twice":    func(img image) { img[second] = img[first] },
		"first missing":  func(img image) { delete(img, first) },
		"second missing": func(img image) { delete(img, second) },
		"second empty":   func(img image) { img[second] = nil },
		"second of old":  func(img image) { clear(img[second][200:]) },
		"second zeroed":  func(img image) { clear(img[second]) },
		"last renamed": func(img image) {
			last := img.lastUsed()
			img["wal-0000000099.log"] = img[last]
			delete(img, last)
		},
		"link to another number": func(img image) { forge(img[names[2]], 12, 2) },
		"link to another end":    func(img image) { forge(img[second], 56, 13) },
		"another base":           func(img image) { forge(img[second], 48, 1000) },
		"second, two damages":    func(img image) { img[second][1] ^= 1; img[second][100] ^= 1 },
		"of another database": func(img image) {
			other := memOptions(512)
			other.DBID[3]++
			l := openNew(t, other)
			fill(t, l, 3)
			ok(t, l.Close())
			img["wal-0000000099.log"] = snapshot(t, other.FS, "db")[first]
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			bad := img.clone()
			change(bad)
			_, _, err := tryReplay(bad.restore(t, o), 0, 1)
			wantCorrupt(t, err)
		})
	}
}

// forge changes a field of 4 bytes in a segment header and makes its checksum right.
func forge(b []byte, at int, v uint32) {
	binary.LittleEndian.PutUint32(b[at:], v)
	binary.LittleEndian.PutUint32(b[60:], castagnoli(b[:60]))
}

// lastUsed returns the last segment that has a header.
func (img image) lastUsed() string {
	last := ""
	for _, name := range img.names() {
		if len(img[name]) >= 64 && img[name][0] != 0 {
			last = name
		}
	}
	return last
}

// A record with a right checksum and a wrong sequence number is no record.
func TestSequenceNumbersAreContiguous(t *testing.T) {
	o, img := crashImage(t)
	recs := img.records()
	r := recs[len(recs)-1]
	b := img[r.file]
	binary.LittleEndian.PutUint64(b[r.off+16:], uint64(r.seq)+1)
	binary.LittleEndian.PutUint32(b[r.off+12:], math.MaxUint32) // claims nothing
	crc := castagnoli(append(append([]byte(nil), b[r.off+24:r.end]...), b[r.off+4:r.off+24]...))
	binary.LittleEndian.PutUint32(b[r.off:], crc)
	ok(t, survives(t, img.restore(t, o), 35))
}

// A marker that ends a segment may be lost or damaged: the next segment does not rely on
// it. Method: the first record after each Open does not fit into the last segment.
func TestDamagedMarkerInTheMiddle(t *testing.T) {
	o := memOptions(512)
	count := func(o wal.Options) (n int) {
		tail, err := wal.Recover(o, 0, 1, func(wal.SegmentNum, base.SeqNum, []byte) error {
			n++
			return nil
		})
		ok(t, err)
		if int(tail.LastSeq) != n {
			t.Fatalf("%d records, the last is %d", n, tail.LastSeq)
		}
		return n
	}
	for range 3 {
		tail, err := wal.Recover(o, 0, 1, func(wal.SegmentNum, base.SeqNum, []byte) error {
			return nil
		})
		ok(t, err)
		l, err := wal.Open(o, tail)
		ok(t, err)
		ok(t, second(l.Append(make([]byte, 300))))
		ok(t, l.Close())
	}
	img := snapshot(t, o.FS, o.Dir)
	markers := 0
	for _, r := range img.records() {
		if !r.marker {
			continue
		}
		markers++
		bad := img.clone()
		bad[r.file][r.off+4] ^= 1
		if n := count(bad.restore(t, o)); n != 3 {
			t.Fatalf("marker in %s at %d: %d records", r.file, r.off, n)
		}
	}
	if markers != 3 || len(img) != 3 {
		t.Fatalf("%d markers in %d segments, want 3 in 3", markers, len(img))
	}
}

// A copy of an old segment past the end is no reason for alarm, and not replayed.
func TestOldSegmentAfterTheEnd(t *testing.T) {
	o, img := closedImage(t)
	for _, name := range img.names()[:3] {
		more := img.clone()
		more["wal-0000000099.log"] = img[name]
		ok(t, survives(t, more.restore(t, o), 30))
	}
}

func TestRecoverNeedsItsFirstSegment(t *testing.T) {
	o, img := closedImage(t)
	ro := img.restore(t, o)
	infos := openInfos(t, img.restore(t, o))
	for _, s := range infos {
		for seq := s.FirstSeq; seq <= s.LastSeq; seq++ {
			_, n := replay(t, ro, s.Num, seq)
			if n != int(30-seq+1) {
				t.Fatalf("%d records from %d on", n, seq)
			}
		}
		if s.FirstSeq > 1 {
			_, _, err := tryReplay(ro, s.Num, s.FirstSeq-1)
			wantCorrupt(t, err)
		}
	}
	// The manifest says that 40 was flushed, which needs 40 synced: the log is short.
	_, _, err := tryReplay(ro, 0, 41)
	wantCorrupt(t, err)
	_, _, err = tryReplay(ro, 1000, 1)
	wantCorrupt(t, err)
	if _, n := replay(t, ro, 0, 31); n != 0 {
		t.Fatalf("%d records after the last", n)
	}
}

// openInfos returns the closed segments after a reopen.
func openInfos(t *testing.T, o wal.Options) []wal.SegmentInfo {
	t.Helper()
	l := reopen(t, o, 0, 1)
	var infos []wal.SegmentInfo
	for _, s := range l.Segments() {
		if s.State == wal.SegmentClosed {
			infos = append(infos, s)
		}
	}
	ok(t, l.Close())
	return infos
}

func TestUnknownVersion(t *testing.T) {
	o, img := closedImage(t)
	b := img[img.names()[0]]
	binary.LittleEndian.PutUint32(b[8:], 2)
	binary.LittleEndian.PutUint32(b[60:], castagnoli(b[:60]))
	_, _, err := tryReplay(img.restore(t, o), 0, 1)
	wantIs(t, err, corrupt.ErrVersion)
}
