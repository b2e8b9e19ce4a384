package manifest

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// craftedManifest is a file of right checksums around a snapshot and an edit.
func craftedManifest(snapshot, edit []byte) []byte {
	put := func(payload []byte) func([]byte) []byte {
		return func(b []byte) []byte { return append(b, payload...) }
	}
	b := appendHeader(nil, magicManifest, fuzzID)
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
		if err := l.state.check(); err != nil {
			t.Fatalf("replay leads to a bad state: %v", err)
		}
	}
	if err := Describe(io.Discard, Name(fuzzID.num), content, nil); err != nil {
		wantCorrupt(t, err)
	}
}

// TestCraftedRecords: under right checksums, every beginning and every changed byte of a snapshot
// and of an edit is damage, or a state that is consistent; Load and Salvage end as well.
func TestCraftedRecords(t *testing.T) {
	snapshot, edit := appendState(nil, seedState()), appendEdit(nil, seedEdit())
	wantDamageOrState(t, craftedManifest(snapshot, edit), false)
	testutil.EachChange(snapshot, func(b []byte) {
		wantDamageOrState(t, craftedManifest(b, edit), len(b) < len(snapshot))
	})
	testutil.EachChange(edit, func(b []byte) {
		content := craftedManifest(snapshot, b)
		wantDamageOrState(t, content, len(b) < len(edit))
		fsys := vfs.NewMem()
		for name, content := range map[string][]byte{
			CurrentName: appendHeader(nil, magicCurrent, fuzzID), Name(fuzzID.num): content,
		} {
			f, err := fsys.Create(name)
			if err == nil {
				_, err = f.Write(content)
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := Load(fsys, "")
		s, serr := Salvage(fsys, "", [16]byte{})
		if serr != nil || s.State == nil || s.Whole != (err == nil) {
			t.Fatalf("loaded with %v, salvaged %+v, %v", err, s, serr)
		}
	})
}

// TestCraftedHeaders: a header with a right checksum is refused, or is one that is written so.
func TestCraftedHeaders(t *testing.T) {
	h := appendHeader(nil, magicCurrent, fuzzID)
	testutil.EachChange(h[:headerBytes-4], func(b []byte) {
		sum := crc32.Checksum(b, castagnoli)
		b = append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		id, err := decodeCurrent(b)
		if err != nil {
			if !errors.Is(err, corrupt.ErrVersion) {
				wantCorrupt(t, err)
			}
		} else if !bytes.Equal(appendHeader(nil, magicCurrent, id), b) {
			t.Fatalf("%x was accepted", b)
		}
	})
}

// A torn edit is cut also if it is full of lengths that look like the beginning of records, as
// those of files with long keys are.
func TestTornEditOfLongKeys(t *testing.T) {
	b := appendHeader(nil, magicManifest, fuzzID)
	b = appendRecord(b, fuzzID, 0, typeSnapshot,
		func(b []byte) []byte { return appendState(b, seedState()) })
	end := int64(len(b))
	b = appendSeal(b, fuzzID, 1)
	lengths := []byte{0, 0, 0, 0, 1, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0} // record 9 of 64 KiB + 1
	for range 2000 {
		b = append(append(b, lengths...), make([]byte, 200)...)
	}
	l, err := replay(Name(fuzzID.num), b, fuzzID)
	if err != nil {
		t.Fatal(err)
	}
	if l.end != end || l.torn == 0 {
		t.Errorf("the records end at %d with %d torn bytes, want %d", l.end, l.torn, end)
	}
}
