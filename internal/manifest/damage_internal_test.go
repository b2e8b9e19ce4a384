package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
)

// wideState has a number of several bytes in every field.
func wideState() *State {
	f := &base.FileMeta{
		Num: 300, Stripe: 9, SizeBytes: 301, MinSeq: 302, MaxSeq: 303, Entries: 504,
		Tombstones: 305, RangeTombstones: 306, TTLEntries: 307, RawBytes: 308, MinExpiry: -309,
		MaxExpiry: 310, Smallest: []byte("a"), Largest: bytes.Repeat([]byte("b"), 200),
	}
	s := &State{
		DBID: fuzzID.dbid, HashSeed: 5, Settings: []byte("x"), NextFile: 400, NextRun: 401,
		LogStart: 402, LogSeq: 403, LastSeq: 404,
	}
	s.Stripes[9] = StripeState{FlushedSeq: 311, Runs: []*Run{{312, []*base.FileMeta{f}}}}
	s.Stripes[10] = StripeState{FlushedSeq: 1}
	return s
}

func wideEdit() *Edit {
	run := *wideState().Stripes[9].Runs[0]
	run.ID = 313
	return &Edit{
		NextFile: 400, NextRun: 401, LogStart: 402, LogSeq: 403, LastSeq: 405,
		Settings: []byte("y"), Stripes: []StripeEdit{
			{Stripe: 9, Remove: []uint64{312}, Add: []*Run{&run}},
			{Stripe: 10, FlushedSeq: 405},
		},
	}
}

var limitDigits = regexp.MustCompile(`at most \d+`)

// TestDamage compares with testdata/damage the errors of a payload under a right checksum: of
// each of its beginnings, and with each byte set to some value. A line is the length or the place,
// and the error. Lines that equal the one before, apart from a limit, are left out. A payload that
// is accepted comes back byte by byte.
func TestDamage(t *testing.T) {
	datadriven.Walk(t, "testdata/damage", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			payload, typ := appendState(nil, wideState(), false), typeSnapshot
			if d.HasArg("edit") {
				payload, typ = appendEdit(nil, wideEdit(), false), typeEdit
			}
			var out strings.Builder
			last := ""
			judge := func(n int, b []byte) {
				text := "accepted"
				if err := judgePayload(t, typ, b); err != nil {
					text = strings.TrimPrefix(err.Error(), "corrupt manifest record in M at ")
				}
				what := limitDigits.ReplaceAllString(text, "at most n")
				if what != last {
					fmt.Fprintf(&out, "%d: %s\n", n, text)
				}
				last = what
			}
			switch d.Cmd {
			case "cut":
				for n := range payload {
					judge(n, payload[:n])
				}
				judge(len(payload), payload)
				judge(len(payload)+1, append(payload, 0))
			case "set":
				var v byte
				d.ScanArgs(t, "byte", &v)
				for i := range payload {
					b := slices.Clone(payload)
					b[i] = v
					judge(i, b)
				}
			}
			return out.String()
		})
	})
}

// judgePayload decodes a payload whose record is at offset 1000.
func judgePayload(t *testing.T, typ recordType, b []byte) error {
	t.Helper()
	r := record{off: 1000, typ: typ, payload: b}
	var again []byte
	if typ == typeSnapshot {
		s, err := decodeState("M", fuzzID, r)
		if err != nil {
			return err
		}
		again = appendState(nil, s, false)
	} else {
		e, err := decodeEdit("M", identity{}, r)
		if err != nil {
			return err
		}
		again = appendEdit(nil, e, false)
	}
	if !bytes.Equal(again, b) {
		t.Errorf("%x comes back as %x", b, again)
	}
	return nil
}

// TestLargestNumbers: the largest value of every field comes back.
func TestLargestNumbers(t *testing.T) {
	const most, seq = math.MaxUint64, base.MaxSeqNum
	e := &Edit{
		NextFile: most, NextRun: most, LogStart: most, LogSeq: seq, LastSeq: seq,
		Settings: []byte{}, Stripes: []StripeEdit{{
			Stripe: 255, FlushedSeq: seq, Remove: []uint64{most},
			Add: []*Run{{ID: most, Files: []*base.FileMeta{{
				Num: most, Stripe: 255, SizeBytes: math.MaxInt64, MinSeq: seq, MaxSeq: seq,
				Entries: most, Tombstones: most, RangeTombstones: most, TTLEntries: most,
				RawBytes: most, MinExpiry: math.MinInt64, MaxExpiry: math.MaxInt64,
			}}}},
		}},
	}
	b := appendEdit(nil, e, false)
	got, err := decodeEdit("M", identity{}, record{payload: b})
	ok(t, err)
	if f := *got.Stripes[0].Add[0].Files[0]; fmt.Sprint(f) !=
		fmt.Sprint(*e.Stripes[0].Add[0].Files[0]) {
		t.Errorf("the file comes back as %+v", f)
	}
	if again := appendEdit(nil, got, false); !bytes.Equal(again, b) {
		t.Errorf("%x comes back as %x", b, again)
	}
	e.LastSeq++
	_, err = decodeEdit("M", identity{}, record{payload: appendEdit(nil, e, false)})
	want := fmt.Sprintf("at offset 55: want at most %d, got %d", seq, uint64(seq)+1)
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestLaterRecord: an edit or a seal with a right checksum and a number above the one that is
// looked for is a later record, up to the number that a file of this length can have.
func TestLaterRecord(t *testing.T) {
	const num, before = 5, 100
	const most = num + (before+sealBytes)/sealBytes // of a seal
	for _, c := range []struct {
		typ  recordType
		body int
		num  uint64
		want bool
	}{
		{typeSeal, 0, num, false}, {typeSeal, 0, num + 1, true},
		{typeSeal, 0, most, true}, {typeSeal, 0, most + 1, false},
		{typeSeal, 1, num + 1, false},
		{typeEdit, 0, num, false}, {typeEdit, 0, num + 1, true}, {typeEdit, 9, num + 1, true},
		{typeSnapshot, 0, num + 1, false}, {typeSnapshot, 9, num + 1, false},
		{typeSeal + 1, 0, num + 1, false},
	} {
		b := appendRecord(make([]byte, before), fuzzID, c.num, c.typ,
			func(b []byte) []byte { return append(b, make([]byte, c.body)...) })
		for _, off := range []int64{0, before - 1, before} {
			if got := laterRecord(b, fuzzID, off, num); got != c.want {
				t.Errorf("%+v from %d: %t", c, off, got)
			}
		}
		if laterRecord(b, fuzzID, before+1, num) {
			t.Errorf("%+v: found after its beginning", c)
		}
		other := identity{dbid: fuzzID.dbid, num: fuzzID.num + 1}
		if laterRecord(b, other, 0, num) {
			t.Errorf("%+v: found in another file", c)
		}
		for n := before; n < len(b); n++ {
			if laterRecord(b[:n], fuzzID, 0, num) {
				t.Errorf("%+v: found in %d of %d bytes", c, n, len(b))
			}
		}
	}
}

// TestFrames: the error of a bad frame has its offset, what was expected and what was found.
func TestFrames(t *testing.T) {
	whole := appendRecord(make([]byte, 100), fuzzID, 3, typeEdit,
		func(b []byte) []byte { return append(b, "body"...) })
	// change changes the record, and with fix makes its checksum right again.
	change := func(fix bool, f func(b []byte)) []byte {
		b := slices.Clone(whole)
		f(b[100:])
		if fix {
			n := min(binary.LittleEndian.Uint32(b[104:]), 5)
			sum := fuzzID.sum(b[104 : 100+recordHeaderBytes+n])
			binary.LittleEndian.PutUint32(b[100:], sum)
		}
		return b
	}
	length := func(n uint32) []byte {
		return change(true, func(b []byte) { binary.LittleEndian.PutUint32(b[4:], n) })
	}
	for _, c := range []struct {
		content []byte
		want    string
	}{
		{whole, ""},
		{append(slices.Clone(whole), "behind"...), ""},
		{length(4), ""},
		{length(1), ""},
		{length(0), "want payload of 1 to 5 bytes, got 0"},
		{length(6), "want payload of 1 to 5 bytes, got 6"},
		{length(math.MaxUint32), "want payload of 1 to 5 bytes, got 4294967295"},
		{whole[:len(whole)-1], "want payload of 1 to 4 bytes, got 5"},
		{whole[:117], "want payload of 1 to 1 bytes, got 5"},
		{whole[:116], "want at least 17 bytes, got 16 bytes"},
		{whole[:100], "want at least 17 bytes, got 0 bytes"},
		{change(true, func(b []byte) { b[8] = 4 }), "want record 3, got 4"},
		{change(true, func(b []byte) { b[15] = 1 }), "want record 3, got 72057594037927939"},
		{change(false, func(b []byte) { copy(b, "0000") }),
			fmt.Sprintf("want checksum 30303030, got %08x", fuzzID.sum(whole[104:]))},
		{change(false, func(b []byte) { b[20]++ }), "want checksum "},
	} {
		r, err := decodeRecord("M", c.content, fuzzID, 100, 3)
		if err == nil {
			if c.want != "" || r.end() != 116+int64(c.content[104]) || r.typ != typeEdit ||
				r.num != 3 || string(r.payload) != "body"[:len(r.payload)] {
				t.Errorf("%x: got %+v, want %q", c.content[100:], r, c.want)
			}
			continue
		}
		var ce *corrupt.Error
		want := "corrupt manifest record in M at offset 100: " + c.want
		if c.want == "" || !errors.As(err, &ce) || ce.Offset != 100 ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%x: got %v, want %s", c.content[100:], err, want)
		}
	}
}

// TestHeaders: the error of a bad header has its offset, what was expected and what was found. A
// good header comes back as it is.
func TestHeaders(t *testing.T) {
	for _, magic := range []string{magicCurrent, magicManifest} {
		whole := encodeHeader(magic, identity{dbid: [16]byte{1, 15: 16}, num: 1 << 60})
		change := func(at int, v byte) []byte {
			b := slices.Clone(whole)
			b[at] = v
			return b
		}
		testutil.EachChange(whole, func(b []byte) {
			_, err := decodeHeader("F", magic, b)
			var ce *corrupt.Error
			if !errors.As(err, &ce) || ce.File != "F" || ce.Offset != 0 || ce.What != "header" ||
				errors.Is(err, corrupt.ErrVersion) != (len(b) == headerBytes &&
					!bytes.Equal(b[8:12], whole[8:12])) {
				t.Errorf("%x: %v", b, err)
			}
		})
		sum := whole[headerBytes-4:]
		for _, c := range []struct {
			b    []byte
			want string
		}{
			{nil, "corrupt header in F at offset 0: want 40 bytes, got 0 bytes"},
			{whole[:39], "corrupt header in F at offset 0: want 40 bytes, got 39 bytes"},
			{change(7, 'x'), fmt.Sprintf("corrupt header in F at offset 0: want magic %q, got %q",
				magic, magic[:7]+"x")},
			{change(8, 3), "unknown format version of header in F at offset 0: want 1, got 3"},
			{change(8, 0), "unknown format version of header in F at offset 0: want 1, got 0"},
			{change(27, 9), fmt.Sprintf("corrupt header in F at offset 0: want checksum %08x, got ",
				binary.LittleEndian.Uint32(sum))},
		} {
			_, err := decodeHeader("F", magic, c.b)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		}
		id, err := decodeHeader("F", magic, append(slices.Clone(whole), "behind"...))
		if err != nil || !bytes.Equal(encodeHeader(magic, id), whole) {
			t.Errorf("got %+v, %v", id, err)
		}
	}
	for _, n := range []int{1, 2} {
		b := append(encodeHeader(magicCurrent, fuzzID), make([]byte, n)...)
		want := fmt.Sprintf(
			"corrupt end of file in CURRENT at offset 40: want no more bytes, got %d", n)
		if _, err := decodeCurrent(b); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestReplayErrors: the error of a manifest that cannot be read has the reason and the offset.
func TestReplayErrors(t *testing.T) {
	snapshot, edit := appendState(nil, wideState(), false), appendEdit(nil, wideEdit(), false)
	whole := craftedManifest(snapshot, edit)
	at1 := headerBytes + sealBytes + len(snapshot)
	seal := at1 + sealBytes + len(edit)
	flip := func(at int) []byte {
		b := slices.Clone(whole)
		b[at] ^= 1
		return b
	}
	badState, badEdit := wideState(), wideEdit()
	badState.LastSeq, badEdit.Stripes[0].Remove[0] = 310, 7
	at := func(off int, what, rest string) string {
		return fmt.Sprintf("corrupt %s in M at offset %d: %s", what, off, rest)
	}
	for _, c := range []struct {
		content []byte
		want    string
	}{
		{whole, ""},
		{flip(headerBytes + 8), at(headerBytes, "manifest record", "want checksum ")},
		{flip(at1 + 8), at(at1, "manifest record", "want checksum ")},
		{whole[:headerBytes], at(headerBytes, "manifest record", "want at least 17 bytes")},
		{slices.Concat(whole[:at1], whole[seal:]), at(at1, "manifest record",
			"want record 1, got 2")},
		{slices.Concat(whole[:seal], whole[seal:],
			appendSeal(nil, fuzzID, 3)), at(seal, "manifest seal",
			"want the last record, got a record after it")},
		{craftedManifest(appendState(nil, badState, false), edit), at(headerBytes,
			"manifest snapshot",
			"want a consistent state, got stripe 9: flushed sequence number 311")},
		{craftedManifest(snapshot, appendEdit(nil, badEdit, false)), at(at1, "manifest edit",
			"want an edit that fits the state, got stripe 9: removes unknown run 7")},
		{appendSeal(whole[:headerBytes:headerBytes], fuzzID, 0), at(headerBytes, "manifest seal",
			"want an empty record after a snapshot, got record 0 with 0 bytes")},
		{appendRecord(whole[:at1:at1], fuzzID, 1, typeSnapshot, nil), at(at1, "manifest record",
			"want a snapshot first and then edits, got record 1 of type 1")},
	} {
		_, err := replay("M", c.content, fuzzID)
		if c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	for _, id := range []identity{{dbid: fuzzID.dbid, num: 2}, {dbid: [16]byte{2}, num: 1}} {
		want := fmt.Sprintf("corrupt header in M at offset 12: want database %x, manifest %d, "+
			"got database %x, manifest 1", id.dbid, id.num, fuzzID.dbid)
		if _, err := replay("M", whole, id); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestDescribeDamage: Describe shows the records up to the first that it cannot read.
func TestDescribeDamage(t *testing.T) {
	snapshot, edit := appendState(nil, wideState(), false), appendEdit(nil, wideEdit(), false)
	for what, c := range map[string]struct {
		content []byte
		last    string
	}{
		"snapshot": {craftedManifest(snapshot[:9], edit), "record 0: "},
		"edit":     {craftedManifest(snapshot, edit[:9]), "record 1: "},
		"torn": {
			craftedManifest(snapshot, edit[:len(edit)-1])[:headerBytes+len(snapshot)+60],
			"stripe 010: flushed 1\n",
		},
	} {
		var b strings.Builder
		err := Describe(&b, "M", c.content, nil)
		if !errors.Is(err, corrupt.ErrCorrupt) || !strings.HasSuffix(b.String(), c.last) {
			t.Errorf("%s: %v after\n%s", what, err, b.String())
		}
	}
	b := encodeHeader(magicManifest, fuzzID)
	b = appendRecord(b, fuzzID, 0, typeSeal+1, nil)
	want := "corrupt manifest record in M at offset 40: want type 1 to 3, got 4"
	if err := Describe(io.Discard, "M", b, nil); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	wantIs(t, Describe(io.Discard, "M", b[:headerBytes-1], nil), corrupt.ErrCorrupt)
	wantIs(t, DescribeCurrent(io.Discard, b), corrupt.ErrCorrupt)
}
