package sst

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
)

// searchBlock returns a block of about size bytes and its keys.
func searchBlock(tb testing.TB, size int, key func(i int) []byte) (dataBlock, [][]byte) {
	tb.Helper()
	var w blockBuilder
	var keys [][]byte
	for i := 0; w.sizeBytes() < size; i++ {
		keys = append(keys, key(i))
		w.add(&base.Entry{Key: keys[i], Value: make([]byte, 103), Seq: 1, Kind: base.KindPut})
	}
	b, err := openDataBlock(w.appendBlock(nil))
	ok(tb, err)
	return b, keys
}

func spreadKey(i int) []byte { return fmt.Appendf(nil, "user#%016x/12345", uint64(i)*0x3a1c9f3d71) }

// TestSearchAmongEqualHeads: heads that say nothing do not mislead a search.
func TestSearchAmongEqualHeads(t *testing.T) {
	same := func(i int) []byte {
		return fmt.Appendf(nil, "partition\x00\x00%s%06d", make([]byte, 40), i)
	}
	b, keys := searchBlock(t, 16<<10, func(i int) []byte {
		if i == 0 {
			return []byte("a") // no common prefix
		}
		return same(i)
	})
	for i, k := range keys {
		if pos, exact, ok := b.seek(k, 5); pos != i || !exact || !ok {
			t.Fatalf("key %d is found at %d, %v, %v", i, pos, exact, ok)
		}
		if pos, exact, ok := b.seek(k, 0); pos != i+1 || exact || !ok {
			t.Fatalf("key %d before its time is found at %d, %v, %v", i, pos, exact, ok)
		}
	}
}

func BenchmarkBlockSearch(b *testing.B) {
	for _, size := range []int{4 << 10, 16 << 10, 32 << 10} {
		block, keys := searchBlock(b, size, spreadKey)
		for _, copies := range []int{1, (64 << 20) / len(block.data)} {
			name := fmt.Sprintf("%dK/warm", size>>10)
			if copies > 1 {
				name = fmt.Sprintf("%dK/64MB", size>>10)
			}
			blocks := make([]dataBlock, copies)
			for i := range blocks {
				blocks[i] = block
				blocks[i].data = append([]byte(nil), block.data...)
			}
			b.Run(name, func(b *testing.B) {
				rnd := rand.New(rand.NewPCG(1, 1))
				b.ReportAllocs()
				var e base.Entry
				for b.Loop() {
					bl := &blocks[rnd.IntN(len(blocks))]
					pos, _, _ := bl.seek(keys[rnd.IntN(len(keys))], 5)
					bl.entry(pos, &e)
				}
			})
		}
	}
}
