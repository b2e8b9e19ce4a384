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
	return salvageFileOf(t, fs, sst.WriterOptions{})
}

func salvageFileOf(t *testing.T, fs vfs.FS, o sst.WriterOptions) (
	base.FileMeta, sst.Identity, []base.Entry,
) {
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
	o.Stripe, o.BlockBytes, o.FilterBits = id.Stripe, 400, 8
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
		ok(t, err)
		checkLosses(t, s, entries)
		ok(t, s.Close())
	}
}

// TestSalvageFindsBlocksWithoutIndex: with a block damaged or not and no footer, all other blocks
// are found, whatever they are compressed with.
func TestSalvageFindsBlocksWithoutIndex(t *testing.T) {
	for _, codec := range []sst.Codec{sst.None, sst.LZ4, sst.Snappy, sst.Zstd} {
		for _, damaged := range []bool{false, true} {
			fs := vfs.NewMem()
			meta, id, entries := salvageFileOf(t, fs, sst.WriterOptions{Codec: codec})
			b := contents(t, fs, meta.Name())
			b[len(b)-1] ^= 1
			if damaged {
				b[len(b)/3] ^= 1
			}
			store(t, fs, meta.Name(), b)
			s, err := sst.Salvage(fs, meta.Name(), id, &meta)
			ok(t, err)
			lost := uint64(len(entries)) - s.Entries
			if damaged != (lost > 0) || lost > 30 || damaged != (len(s.Lost) > 0) {
				t.Errorf("%v, damaged %v: %d of %d entries lost, %+v", codec, damaged, lost,
					len(entries), s.Lost)
			}
			if len(s.Ranges) != 1 {
				t.Errorf("%v, damaged %v: %d range tombstones", codec, damaged, len(s.Ranges))
			}
			if damaged {
				checkLosses(t, s, entries)
			}
			ok(t, s.Close())
		}
	}
}

// TestSalvageTellsOfRangeTombstones: those in a damaged block are lost, and how many they were
// is known from the manifest's description.
func TestSalvageTellsOfRangeTombstones(t *testing.T) {
	fs := vfs.NewMem()
	meta, id, entries := salvageFile(t, fs)
	b := contents(t, fs, meta.Name())
	at := bytes.LastIndex(b, entries[9].Key) // the end of the range, after the data
	if at < len(b)/2 {
		t.Fatalf("no range tombstone at %d of %d bytes", at, len(b))
	}
	b[at] ^= 1
	store(t, fs, meta.Name(), b)
	for want, known := range []*base.FileMeta{nil, &meta} {
		s, err := sst.Salvage(fs, meta.Name(), id, known)
		ok(t, err)
		if s.Entries != uint64(len(entries)) || len(s.Ranges) > 0 || len(s.Lost) != 1 ||
			!s.Lost[0].Ranges || s.Lost[0].Entries != uint64(want) || s.Lost[0].Err == nil {
			t.Errorf("%d entries, lost %+v", s.Entries, s.Lost)
		}
		ok(t, s.Close())
	}
}

// TestSalvageReadsAroundBadSectors: where the device cannot read the index, the data blocks
// are saved, and what is lost of them and of the range tombstones is reported.
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
	ok(t, err)
	defer s.Close()
	ranges := false
	for _, l := range s.Lost {
		if ranges = ranges || l.Ranges; l.Ranges && l.Entries != 1 {
			t.Errorf("%d range tombstones are lost, want 1", l.Entries)
		}
	}
	if !ranges && len(s.Ranges) == 0 {
		t.Error("range tombstones are lost, and no loss says so")
	}
	checkLosses(t, s, entries)
}

// TestSalvageWithoutParts: whatever byte after the data is damaged, an index in parts or not, all
// entries are found.
func TestSalvageWithoutParts(t *testing.T) {
	for _, partBlocks := range []int{0, 4} {
		fs := vfs.NewMem()
		meta, id, entries := salvageFileOf(t, fs, sst.WriterOptions{PartBlocks: partBlocks})
		r := sst.NewReader(readerOptions(fs, meta))
		end := 0
		err := r.Blocks(func(b sst.BlockInfo) bool {
			end = int(b.Offset) + b.StoredBytes + 9
			return true
		})
		if err != nil || r.Close() != nil {
			t.Fatal(err)
		}
		whole := contents(t, fs, meta.Name())
		for at := end; at < len(whole); at += 7 {
			b := bytes.Clone(whole)
			b[at] ^= 1
			store(t, fs, meta.Name(), b)
			s, err := sst.Salvage(fs, meta.Name(), id, &meta)
			if err != nil {
				t.Fatal(err)
			}
			if s.Entries != uint64(len(entries)) {
				t.Errorf("parts of %d, byte %d: %d of %d entries", partBlocks, at, s.Entries,
					len(entries))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
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
		ok(t, err)
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
