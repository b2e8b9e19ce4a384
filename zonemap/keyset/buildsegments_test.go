package keyset_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestBuildSegmentsLeavesKeysAlone: the segments are those that a builder makes of the same
// keys, byte by byte, and the given keys stay as they are, in every layout.
func TestBuildSegmentsLeavesKeysAlone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(26, 1))
	var sets, before [][]uint64
	for range 5 {
		keys := randomHashes(rnd, 3_000+rnd.IntN(3_000))
		sets, before = append(sets, keys), append(before, slices.Clone(keys))
	}
	for _, o := range []keyset.SegmentOptions{
		{}, {Bits: 16}, {Shards: 8, Workers: 2}, {StoreKeys: true}, {BlockKeys: 700},
		{Shards: 4, StoreKeys: true},
	} {
		segments := mustBuild(t, &o, sets...)
		b, err := keyset.NewSegmentBuilder(&o)
		ok(t, err)
		for i, keys := range sets {
			if !slices.Equal(keys, before[i]) {
				t.Fatalf("%+v: set %d was changed", o, i)
			}
			b.AddAll(keys)
			want, err := b.Build()
			ok(t, err)
			if !bytes.Equal(binaryOf(t, segments[i]), binaryOf(t, want)) {
				t.Errorf("%+v: segment %d is another one than that of a builder", o, i)
			}
		}
	}
}

func binaryOf(t *testing.T, seg *keyset.Segment) []byte {
	t.Helper()
	data, err := seg.AppendBinary(nil)
	ok(t, err)
	return data
}

func randomHashes(rnd *rand.Rand, n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = rnd.Uint64()
	}
	return hashes
}
