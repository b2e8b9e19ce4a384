package manifest

import (
	"bytes"
	"io"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
)

var fuzzID = identity{dbid: [16]byte{1}, num: 1}

func seedState() *State {
	f := &base.FileMeta{
		Num: 1, Stripe: 9, SizeBytes: 7, Smallest: []byte("a"), Largest: []byte("b"), MinSeq: 1,
		MaxSeq: 2, Entries: 3, TTLEntries: 1, MinExpiry: -1, MaxExpiry: 1 << 40,
	}
	s := &State{
		DBID: fuzzID.dbid, HashSeed: 5, Settings: []byte("x"), NextFile: 9, NextRun: 9, LastSeq: 9,
	}
	s.Stripes[9] = StripeState{FlushedSeq: 2, Runs: []*Run{{ID: 3, Files: []*base.FileMeta{f}}}}
	s.Stripes[255] = StripeState{FlushedSeq: 1}
	return s
}

func seedEdit() *Edit {
	run := *seedState().Stripes[9].Runs[0]
	run.ID = 4
	return &Edit{LastSeq: 9, Stripes: []StripeEdit{
		{Stripe: 9, Remove: []uint64{3}, Add: []*Run{&run}},
		{Stripe: 10, FlushedSeq: 3},
	}}
}

func wantCorrupt(t *testing.T, err error) {
	t.Helper()
	wantIs(t, err, corrupt.ErrCorrupt)
}

func FuzzCurrent(f *testing.F) {
	f.Add(encodeHeader(magicCurrent, fuzzID))
	f.Add(encodeHeader(magicManifest, fuzzID))
	f.Add([]byte("MANIFEST-000001\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		id, err := decodeCurrent(b)
		if err != nil {
			wantCorrupt(t, err)
			return
		}
		if again := encodeHeader(magicCurrent, id); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes, but encodes to %x", b, again)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add(appendState(nil, seedState(), false))
	f.Add(appendState(nil, &State{DBID: fuzzID.dbid}, false))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		s, err := decodeState("MANIFEST-000001", fuzzID, record{payload: b})
		if err != nil {
			wantCorrupt(t, err)
			return
		}
		if again := appendState(nil, s, false); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes, but encodes to %x", b, again)
		}
	})
}

func FuzzEdit(f *testing.F) {
	f.Add(appendEdit(nil, seedEdit(), false))
	f.Add(appendEdit(nil, &Edit{}, false))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		e, err := decodeEdit("MANIFEST-000001", identity{}, record{payload: b})
		if err != nil {
			wantCorrupt(t, err)
			return
		}
		if again := appendEdit(nil, e, false); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes, but encodes to %x", b, again)
		}
		if s, err := Apply(seedState(), e); err == nil {
			ok(t, s.check())
		}
	})
}

// FuzzManifest feeds whole files to the reader and to the describer. The input's
// checksums are made right first where it can be taken for a sequence of records,
// so that mutations get past them.
func FuzzManifest(f *testing.F) {
	b := encodeHeader(magicManifest, fuzzID)
	state := func(b []byte) []byte { return appendState(b, seedState(), false) }
	edit := func(b []byte) []byte { return appendEdit(b, seedEdit(), false) }
	b = appendRecord(b, fuzzID, 0, typeSnapshot, state)
	f.Add(appendSeal(b, fuzzID, 1), true)
	b = appendRecord(b, fuzzID, 1, typeEdit, edit)
	f.Add(appendSeal(b, fuzzID, 2), true)
	f.Add(b[:len(b)-3], false)
	f.Fuzz(func(t *testing.T, b []byte, repair bool) {
		defer testutil.Watch(b, repair)()
		if repair {
			b = repaired(b)
		}
		l, err := replay("MANIFEST-000001", b, fuzzID)
		derr := Describe(io.Discard, "MANIFEST-000001", b, nil)
		if derr != nil {
			wantCorrupt(t, derr)
		}
		if err != nil {
			wantCorrupt(t, err)
			return
		}
		ok(t, l.state.check())
		if l.torn == 0 && derr != nil {
			t.Fatalf("replayed to the end, but not described: %v", derr)
		}
	})
}

// repaired returns b with correct header and checksums of records.
func repaired(b []byte) []byte {
	b = append(encodeHeader(magicManifest, fuzzID), b[min(len(b), headerBytes):]...)
	for off := int64(headerBytes); off+sealBytes <= int64(len(b)); {
		rest := b[off:]
		n := int64(recordHeaderBytes) + int64(rest[4]) + int64(rest[5])<<8
		if n > int64(len(rest)) || n < sealBytes {
			break
		}
		rest[6], rest[7] = 0, 0
		sum := fuzzID.sum(rest[4:n])
		rest[0], rest[1], rest[2], rest[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		off += n
	}
	return b
}

// A crafted file in which every offset passes for a record is judged in bounded
// time, and as damage.
func TestLaterRecordIsBounded(t *testing.T) {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i >> 3 & 1)
	}
	for i := 4; i+13 <= len(b); i += 17 {
		copy(b[i:], []byte{0, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0, byte(typeEdit)})
	}
	if !laterRecord(b, fuzzID, 0, 0) {
		t.Error("the search ended without exhausting its bound")
	}
}
