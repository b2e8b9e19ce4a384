package manifest

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// craftedManifest is a file of right checksums around a snapshot and an edit.
func craftedManifest(snapshot, edit []byte) []byte {
	put := func(payload []byte) func([]byte) []byte {
		return func(b []byte) []byte { return append(b, payload...) }
	}
	b := encodeHeader(magicManifest, fuzzID)
	b = appendRecord(b, fuzzID, 0, typeSnapshot, put(snapshot))
	b = appendRecord(b, fuzzID, 1, typeEdit, put(edit))
	return appendSeal(b, fuzzID, 2)
}

// wantDamageOrState replays a file whose checksums are right: it ends with damage or with a
// state that is consistent. A part of a payload is always damage.
func wantDamageOrState(t *testing.T, content []byte, part bool) {
	t.Helper()
	l, err := replay(Name(fuzzID.num), content, fuzzID)
	switch {
	case err != nil:
		wantCorrupt(t, err)
	case part:
		t.Fatal("a part of a payload was taken for the whole")
	default:
		ok(t, l.state.check())
	}
	if err := Describe(io.Discard, Name(fuzzID.num), content, nil); err != nil {
		wantCorrupt(t, err)
	}
}

// TestCraftedRecords: under right checksums, every beginning and every changed byte of a snapshot
// and of an edit is damage, or a state that is consistent; Load and Salvage end as well.
//
// Promise (damage): Arbitrary bytes never panic, hang or allocate without bound. Also the fuzz
// targets (`grep -r '^func Fuzz'`); under right checksums; `TestCraftedHeaders` in
// `internal/manifest`, `TestCraftedHeaders`, `TestCraftedRecordHeaders`, `TestCraftedPayloads`
// in `wal`, `TestCraftedBlocks`, `TestRowsEndAtADamagedEntry` in `sst`, `TestCraftedDirectories`
// in `zonemap`, `TestRecordsOfTheWrongType` in `internal/manifest`; `TestDecompressBounds` in
// `sst`, `TestLaterRecordIsBounded` in `internal/manifest`.
func TestCraftedRecords(t *testing.T) {
	snapshot, edit := appendState(nil, seedState(), false), appendEdit(nil, seedEdit(), false)
	wantDamageOrState(t, craftedManifest(snapshot, edit), false)
	testutil.EachChange(snapshot, func(b []byte) {
		wantDamageOrState(t, craftedManifest(b, edit), len(b) < len(snapshot))
	})
	testutil.EachChange(edit, func(b []byte) {
		content := craftedManifest(snapshot, b)
		wantDamageOrState(t, content, len(b) < len(edit))
		fsys := vfs.NewMem()
		for name, content := range map[string][]byte{
			CurrentName: encodeHeader(magicCurrent, fuzzID), Name(fuzzID.num): content,
		} {
			ok(t, vfstest.WriteFile(fsys, name, content))
		}
		_, _, err := Load(fsys, "")
		s, serr := Salvage(fsys, "", [16]byte{})
		if serr != nil || s.State == nil || s.Whole != (err == nil) {
			t.Fatalf("loaded with %v, salvaged %+v, %v", err, s, serr)
		}
	})
}

// TestRecordsOfTheWrongType: under right checksums, the first record is a snapshot, edits follow,
// and a seal without a payload ends them.
func TestRecordsOfTheWrongType(t *testing.T) {
	const unknown = typeSeal + 1
	snapshot, edit := appendState(nil, seedState(), false), appendEdit(nil, seedEdit(), false)
	payloads := map[recordType][]byte{typeSnapshot: snapshot, typeEdit: edit, unknown: edit}
	for _, c := range []struct {
		types []recordType
		ok    bool
	}{
		{[]recordType{typeSnapshot}, true},
		{[]recordType{typeSnapshot, typeEdit}, true},
		{[]recordType{typeSnapshot, typeEdit, typeSeal}, true},
		{[]recordType{typeSnapshot, typeSeal}, true},
		{nil, false},
		{[]recordType{typeEdit}, false},
		{[]recordType{typeSeal}, false},
		{[]recordType{unknown}, false},
		{[]recordType{typeSnapshot, typeSnapshot}, false},
		{[]recordType{typeSnapshot, unknown}, false},
		{[]recordType{typeSnapshot, typeSeal, typeSeal}, false},
		{[]recordType{typeSnapshot, typeSeal, typeEdit}, false},
	} {
		for _, sealBytes := range []int{0, 1} {
			b := encodeHeader(magicManifest, fuzzID)
			for i, typ := range c.types {
				b = appendRecord(b, fuzzID, uint64(i), typ, func(b []byte) []byte {
					if typ == typeSeal {
						return append(b, make([]byte, sealBytes)...)
					}
					return append(b, payloads[typ]...)
				})
			}
			want := c.ok && (sealBytes == 0 || !slices.Contains(c.types, typeSeal))
			if _, err := replay(Name(fuzzID.num), b, fuzzID); (err == nil) != want {
				t.Errorf("types %d, seals of %d bytes: %v", c.types, sealBytes, err)
			} else if err != nil {
				wantCorrupt(t, err)
			}
		}
	}
}

// TestShortestLists: lists of many elements of the fewest bytes come back, from a snapshot and
// from an edit.
func TestShortestLists(t *testing.T) {
	var remove []uint64
	var files []*base.FileMeta
	var runs []*Run
	for i := range uint64(100) {
		f := &base.FileMeta{Num: base.FileNum(i), Stripe: 9}
		remove, files = append(remove, i), append(files, f)
		runs = append(runs, &Run{ID: i, Files: []*base.FileMeta{f}})
	}
	for what, se := range map[string]StripeEdit{
		"removed": {Stripe: 9, Remove: remove}, "runs": {Stripe: 9, Add: runs},
		"files": {Stripe: 9, Add: []*Run{{ID: 1, Files: files}}},
	} {
		b := appendEdit(nil, &Edit{Stripes: []StripeEdit{se}}, false)
		e, err := decodeEdit("", identity{}, record{payload: b})
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if again := appendEdit(nil, e, false); !bytes.Equal(again, b) {
			t.Errorf("%s: %x comes back as %x", what, b, again)
		}
	}
	e := &Edit{}
	s := &State{DBID: fuzzID.dbid, NextFile: 1, NextRun: 1, LastSeq: 100}
	for i := range 100 {
		e.Stripes = append(e.Stripes, StripeEdit{Stripe: base.StripeID(i)})
		s.Stripes[i].FlushedSeq = 1
	}
	r := record{payload: appendEdit(nil, e, false)}
	if got, err := decodeEdit("", identity{}, r); err != nil ||
		len(got.Stripes) != 100 {
		t.Errorf("edit of 100 stripes: %v", err)
	}
	got, err := decodeState("", identity{dbid: s.DBID}, record{payload: appendState(nil, s, false)})
	if err != nil || got.Stripes[99].FlushedSeq != 1 {
		t.Errorf("snapshot of 100 stripes: %v", err)
	}
}

// TestCraftedHeaders: a header with a right checksum is refused, or is one that is written so.
func TestCraftedHeaders(t *testing.T) {
	h := encodeHeader(magicCurrent, fuzzID)
	testutil.EachChange(h[:headerBytes-4], func(b []byte) {
		sum := crc32.Checksum(b, castagnoli)
		b = append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		id, err := decodeCurrent(b)
		if err != nil {
			if !errors.Is(err, corrupt.ErrVersion) {
				wantCorrupt(t, err)
			}
		} else if !bytes.Equal(encodeHeader(magicCurrent, id), b) {
			t.Fatalf("%x was accepted", b)
		}
	})
}

// A torn edit is cut also if it is full of lengths that look like the beginning of records, as
// those of files with long keys are.
func TestTornEditOfLongKeys(t *testing.T) {
	b := encodeHeader(magicManifest, fuzzID)
	b = appendRecord(b, fuzzID, 0, typeSnapshot,
		func(b []byte) []byte { return appendState(b, seedState(), false) })
	end := int64(len(b))
	b = appendSeal(b, fuzzID, 1)
	lengths := []byte{0, 0, 0, 0, 1, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0} // record 9 of 64 KiB + 1
	for range 2000 {
		b = append(append(b, lengths...), make([]byte, 200)...)
	}
	l, err := replay(Name(fuzzID.num), b, fuzzID)
	ok(t, err)
	if l.end != end || l.torn == 0 {
		t.Errorf("the records end at %d with %d torn bytes, want %d", l.end, l.torn, end)
	}
}
