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
			base.SeqNum(5))
	}
	raw, ok := wholeIndex(&w)
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

// Guides lead to the blocks whose last keys have the next eight bytes of a key, and to no others;
// there is one for four blocks with equal heads or more.
func TestGuidesAreExact(t *testing.T) {
	for n, want := range map[int]int{3: 0, 4: 1, 5: 1} {
		var w indexBuilder
		for i, k := range []string{"a", "b equal heads", "z1", "z2"} {
			for j := range n {
				if i%2 == 0 && j > 0 {
					break
				}
				key := fmt.Appendf(nil, "%s/%d", k, j)
				w.add(blockHandle{stored: 1, raw: 1}, zonemap.Map{First: key, Last: key}, 5)
			}
		}
		raw, _ := wholeIndex(&w)
		x, err := openIndex(raw)
		ok(t, err)
		if len(x.guides) != want || want == 1 && (x.guides[0].from != 1 || x.guides[0].to != 1+n) {
			t.Errorf("%d blocks with equal heads: guides %+v", n, x.guides)
		}
	}
	rnd := rand.New(rand.NewPCG(9, 9))
	x, keys := guidedIndex(t, rnd, 3, 40)
	for i := range x.guides {
		g := &x.guides[i]
		if x.guideAt(g.from) != g || x.guideAt(g.from+1) != nil || x.guideAt(g.to-1) != nil {
			t.Errorf("guide %d of blocks %d to %d is not found there", i, g.from, g.to)
		}
		for _, key := range keys[g.from:g.to] {
			suffix := key[x.shared:]
			for _, probe := range [][]byte{suffix, suffix[:len(suffix)-1],
				append(bytes.Clone(suffix), 0),
				append(bytes.Clone(g.shared), bytes.Repeat([]byte{0xff}, 9)...), g.shared} {
				below, equal := g.from, 0
				tail := base.KeyHead(probe[min(len(probe), len(g.shared)):])
				for j := g.from; j < g.to; j++ {
					last, _ := x.lastSuffix(j)
					if h := base.KeyHead(last[len(g.shared):]); h < tail {
						below++
					} else if h == tail {
						equal++
					}
				}
				if from, to := x.narrow(g, probe); from != below || to != below+equal {
					t.Fatalf("%q: blocks %d to %d, want %d to %d", probe, from, to, below,
						below+equal)
				}
			}
		}
	}
	if x.guideAt(x.n) != nil || (&indexBlock{}).guideAt(0) != nil {
		t.Error("a guide of no blocks")
	}
}
