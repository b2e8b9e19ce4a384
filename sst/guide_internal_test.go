package sst

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap"
)

// guidedIndex is an index of some partitions; the keys of each begin with more than eight
// equal bytes.
func guidedIndex(tb testing.TB, rnd *rand.Rand, partitions, blocks int) (indexBlock, [][]byte) {
	tb.Helper()
	var keys [][]byte
	for p := range partitions {
		for i := range blocks {
			k := fmt.Appendf(nil, "a table/%d/an index\x00\x00%0*d", p, rnd.IntN(12)+1, i)
			keys = append(keys, append(k, bytes.Repeat([]byte{0xff}, rnd.IntN(2)*9)...))
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	var w indexBuilder
	for i, k := range keys {
		w.add(blockHandle{off: uint64(i), stored: 1, raw: 1}, zonemap.Map{First: k, Last: k},
			base.SeqNum(5), nil)
	}
	raw, ok := w.appendBlock(nil)
	x, err := openIndex(raw)
	if !ok || err != nil {
		tb.Fatal(ok, err)
	}
	return x, keys
}

// With guides the index finds the same blocks as without.
func TestGuidesFindTheSame(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	for range 60 {
		x, keys := guidedIndex(t, rnd, 1+rnd.IntN(4), 1+rnd.IntN(40))
		plain := x
		plain.guides = nil
		for _, k := range keys {
			for _, probe := range [][]byte{k, k[:len(k)-1], append(bytes.Clone(k), 0), k[:9],
				bytes.Replace(k, []byte("index"), []byte("indey"), 1),
				bytes.Replace(k, []byte("index"), []byte("inded"), 1), {0xff}, {}} {
				for _, snap := range []base.SeqNum{4, 5} {
					i, ok := x.find(probe, snap)
					want, _ := plain.find(probe, snap)
					if !ok || i != want {
						t.Fatalf("%q at %d: block %d, %v, want %d", probe, snap, i, ok, want)
					}
				}
			}
		}
	}
	x, _ := guidedIndex(t, rnd, 3, 40)
	if len(x.guides) != 3 {
		t.Errorf("%d guides for three partitions", len(x.guides))
	}
}

func BenchmarkIndexFind(b *testing.B) {
	rnd := rand.New(rand.NewPCG(8, 8))
	x, keys := guidedIndex(b, rnd, 3, 4000)
	for _, guided := range []bool{false, true} {
		b.Run(fmt.Sprintf("guided=%v", guided), func(b *testing.B) {
			y := x
			if !guided {
				y.guides = nil
			}
			for b.Loop() {
				y.find(keys[rnd.IntN(len(keys))], 5)
			}
		})
	}
}
