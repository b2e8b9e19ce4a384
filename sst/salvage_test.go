package sst_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/sst"
)

// salvageFile writes a file of one partition with a range tombstone, some 25 blocks.
func salvageFile(t *testing.T, fs vfs.FS, o sst.WriterOptions) (
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

// TestSalvageWithoutParts: whatever byte after the data is damaged, an index in parts or not, all
// entries are found; without the index none beyond the size that the manifest knows.
func TestSalvageWithoutParts(t *testing.T) {
	for _, partBlocks := range []int{0, 4} {
		fs := vfs.NewMem()
		meta, id, entries := salvageFile(t, fs, sst.WriterOptions{PartBlocks: partBlocks})
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
			ok(t, err)
			if s.Entries != uint64(len(entries)) {
				t.Errorf("parts of %d, byte %d: %d of %d entries", partBlocks, at, s.Entries,
					len(entries))
			}
			ok(t, s.Close())
		}
		whole[len(whole)-1] ^= 1
		store(t, fs, meta.Name(), whole)
		meta.SizeBytes /= 2
		s, err := sst.Salvage(fs, meta.Name(), id, &meta)
		ok(t, err)
		if n := s.Entries; n == 0 || n > uint64(len(entries)*2/3) {
			t.Errorf("%d of %d entries in half of the file", n, len(entries))
		}
		ok(t, s.Close())
	}
}
