package sst_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/sst"
)

// salvageFile writes a file of one partition with a range tombstone, some 25 blocks.
func salvageFile(t *testing.T, fs vfs.FS) (base.FileMeta, sst.Identity, []base.Entry) {
	t.Helper()
	var entries []base.Entry
	for i := range 200 {
		key := keycodec.Key{PK: []byte("p"), SK: fmt.Appendf(nil, "%04d", i)}
		entries = append(entries, base.Entry{
			Key: keycodec.AppendOrdered(nil, key), Seq: base.SeqNum(i + 1), Kind: base.KindPut,
			Value: bytes.Repeat([]byte{byte(i)}, 30),
		})
	}
	id := sst.Identity{DBID: testDBID, Num: 7, Stripe: base.StripeID(keycodec.Stripe([]byte("p")))}
	o := sst.WriterOptions{Stripe: id.Stripe, BlockBytes: 400, Codec: sst.None, FilterBits: 8}
	meta := build(t, fs, o, entries, base.RangeTombstone{
		Start: entries[0].Key, End: entries[9].Key, Seq: 300,
	})
	return meta, id, entries
}

// checkLosses fails unless every entry is either read or within the bounds of a reported
// loss. A bound that is nil is open.
func checkLosses(t *testing.T, s *sst.Salvaged, entries []base.Entry) {
	t.Helper()
	read := map[string]bool{}
	src := s.NewSource()
	for e := range cursor.All(src) {
		read[string(e.Key)] = true
	}
	if src.Err() != nil {
		t.Fatal(src.Err())
	}
	if len(read) == 0 || len(read) == len(entries) {
		t.Fatalf("%d of %d entries read", len(read), len(entries))
	}
	for _, e := range entries {
		told := read[string(e.Key)]
		for _, l := range s.Lost {
			told = told || !l.Ranges && bytes.Compare(l.First, e.Key) <= 0 &&
				(l.Last == nil || bytes.Compare(e.Key, l.Last) <= 0)
		}
		if !told {
			t.Fatalf("%q is lost, and no loss says so: %+v", e.Key, s.Lost)
		}
	}
}

// TestSalvageTellsOfTheEnd: a file with a damaged block whose end is missing has lost two
// parts, with the manifest's description and without.
func TestSalvageTellsOfTheEnd(t *testing.T) {
	fs := vfs.NewMem()
	meta, id, entries := salvageFile(t, fs)
	b := contents(t, fs, meta.Name())
	b = b[:len(b)/2]
	b[1000] ^= 1
	store(t, fs, meta.Name(), b)
	for _, known := range []*base.FileMeta{&meta, nil} {
		s, err := sst.Salvage(fs, meta.Name(), id, known)
		if err != nil {
			t.Fatal(err)
		}
		checkLosses(t, s, entries)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSalvageReadsAroundBadSectors: where the device cannot read the index, the data blocks
// are saved, and what is lost of them and of the range tombstones is told.
func TestSalvageReadsAroundBadSectors(t *testing.T) {
	mem := vfs.NewMem()
	meta, id, entries := salvageFile(t, mem)
	bad := errors.New("bad sector")
	size := meta.SizeBytes
	fs := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && op.Offset+op.Len > size-200 {
			return bad
		}
		return nil
	})
	s, err := sst.Salvage(fs, meta.Name(), id, &meta)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ranges := false
	for _, l := range s.Lost {
		ranges = ranges || l.Ranges
	}
	if !ranges && len(s.Ranges) == 0 {
		t.Error("range tombstones are lost, and no loss says so")
	}
	checkLosses(t, s, entries)
}

// What a file has beyond the size that the manifest knows is not its own: where blocks are
// searched, those there are left out.
func TestSalvageKeepsToTheKnownSize(t *testing.T) {
	fs := vfs.NewMem()
	meta, id, entries := salvageFile(t, fs)
	b := contents(t, fs, meta.Name())
	b[len(b)-1] ^= 1 // no footer, no index
	store(t, fs, meta.Name(), b)
	count := func(known *base.FileMeta) (n int) {
		s, err := sst.Salvage(fs, meta.Name(), id, known)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for range cursor.All(s.NewSource()) {
			n++
		}
		return n
	}
	half := meta
	half.SizeBytes /= 2
	if n := count(&meta); n != len(entries) {
		t.Errorf("%d of %d entries of the whole file", n, len(entries))
	}
	if n := count(&half); n == 0 || n > len(entries)*2/3 {
		t.Errorf("%d of %d entries in half of the file", n, len(entries))
	}
}
