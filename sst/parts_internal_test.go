package sst

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/zonemap"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// TestDocumentedParts: the index of parts in docs/format/sst.md is what the writer makes.
func TestDocumentedParts(t *testing.T) {
	want, err := testutil.PageBytes("../docs/format/sst.md", "index")
	ok(t, err)
	var w indexBuilder
	for i, key := range []string{"pk/a", "pk/bb"} {
		zone := zonemap.Map{First: []byte(key), Last: []byte(key), Entries: 1, RawBytes: 5,
			MinSeq: base.SeqNum(5 + 2*i), MaxSeq: base.SeqNum(5 + 2*i)}
		h := blockHandle{off: uint64(0x4b0 + 0x51*i), stored: 0x48, raw: 0x48}
		w.add(h, zone, zone.MinSeq)
	}
	if got, _ := wholeIndex(&w); !bytes.Equal(got, want) {
		t.Errorf("the page shows %d bytes, want\n%s", len(want), hex.Dump(got))
	}
}

// TestPartsReadLittle: a lookup in a file with nothing but its tail in memory reads the filter and
// the part of the index that lead to its key, and one block; of an absent key the filter.
func TestPartsReadLittle(t *testing.T) {
	fs, meta := batchFile(t, 0, 9000, 2, WriterOptions{
		FileNum: 1, BlockBytes: 256, PartBlocks: 8, FilterBits: 8,
	})
	for _, n := range []int{0, 4444, 8998, 5001} {
		stats := &Stats{}
		r := NewReader(ReaderOptions{FS: fs, Meta: &meta, Cache: cache.New(1 << 20), Stats: stats})
		tail, err := r.loadTail()
		if err != nil || len(tail.parts) < 40 {
			t.Fatal(len(tail.parts), err)
		}
		before := stats.Snapshot()
		key := batchKey(n)
		var e base.Entry
		found, err := r.Get(key, base.Hash(key, 0), base.MaxSeqNum, &e)
		if err != nil || found != (n%2 == 0) {
			t.Fatal(n, found, err)
		}
		after := stats.Snapshot()
		reads, bytes := after.Reads-before.Reads, after.ReadBytes-before.ReadBytes
		if found && (reads != 3 || bytes > 1500) || !found && (reads != 1 || bytes > 500) {
			t.Errorf("key %d: %d bytes in %d reads", n, bytes, reads)
		}
		ok(t, r.Close())
	}
}

// olderThan wants versions below a number.
type olderThan base.SeqNum

func (n olderThan) Unwanted(z *zonemap.Map, _ zone.Columns) bool {
	return z.MinSeq >= base.SeqNum(n)
}

func (olderThan) Beneath(_, _ []byte) bool { return false }

func (olderThan) Count(_, _ int) {}

// TestPrunedAtParts: a block is read if its last key goes on in the next, wherever parts end.
func TestPrunedAtParts(t *testing.T) {
	for _, partBlocks := range []int{1, 2, 100} {
		fs := vfs.NewMem()
		f, err := fs.Create(base.SSTName(0, 1))
		ok(t, err)
		w := NewWriter(f, WriterOptions{FileNum: 1, BlockBytes: 256, PartBlocks: partBlocks})
		for i, key := range []string{"a", "b", "c", "c", "d"} {
			e := base.Entry{Key: []byte(key), Seq: base.SeqNum(20 - i), Kind: base.KindPut,
				Value: make([]byte, 250)}
			ok(t, w.Add(&e))
		}
		meta, err := w.Finish()
		ok(t, err)
		r := NewReader(ReaderOptions{FS: fs, Meta: &meta})
		for _, ahead := range []int{0, 1} {
			c := r.NewCursor(base.MaxSeqNum)
			c.Prune(olderThan(18))
			c.LimitReadAhead(ahead)
			var got []string
			show := func() { got = append(got, fmt.Sprintf("%s@%d", c.Entry().Key, c.Entry().Seq)) }
			for ok := c.First(); ok; ok = c.Next() {
				show()
			}
			for ok := c.Last(); ok; ok = c.Prev() {
				show()
			}
			if want := "[c@18 d@16 d@16 c@18]"; fmt.Sprint(got) != want || c.Err() != nil {
				t.Errorf("parts of %d blocks: %v, %v, want %s", partBlocks, got, c.Err(), want)
			}
			c.Release()
		}
		ok(t, r.Close())
	}
}
