package keyset_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestLargeBatches: a batch that is put in order before it is answered gets the answers
// that its keys get one by one, whatever zones they lie in.
func TestLargeBatches(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(18, 1))
	var sets [][]uint64
	for i := range uint64(5) { // random keys, in zones that do not overlap
		keys := randomHashes(rnd, 900_000)
		for j, k := range keys {
			keys[j] = i<<60 | k>>5
		}
		sets = append(sets, keys)
	}
	dense := make([]uint64, 10_000) // a bitmap
	for i := range dense {
		dense[i] = 7<<60 + 3*uint64(i)
	}
	overlapping := []uint64{4<<60 | 5, 4<<60 | 1<<58}
	all := slices.Concat(append(sets, dense, overlapping)...)
	set := mustSet(t, &keyset.SetOptions{MemoryBytes: -1},
		mustBuild(t, &keyset.SegmentOptions{Seed: 3}, append(sets, dense, overlapping)...)...)
	sizes := []int{50_000}
	if testutil.Effort(1, 3) >= 3 {
		sizes = append(sizes, 4<<20+777) // more than are put in order at a time
	}
	for _, n := range sizes {
		keys := make([]uint64, n)
		for i := range keys {
			switch i % 4 {
			case 0:
				keys[i] = rnd.Uint64()
			case 1:
				keys[i] = dense[rnd.IntN(len(dense))] + uint64(i%8/4)
			default:
				keys[i] = all[rnd.IntN(len(all))]
			}
		}
		checkLikeSingles(t, set, keys)
		for i := range keys { // no zone has any of them
			keys[i] |= 1 << 63
		}
		checkLikeSingles(t, set, keys)
	}
}

func checkLikeSingles(t *testing.T, set *keyset.Set, keys []uint64) {
	t.Helper()
	found := keyset.NewBitmap(len(keys))
	for i := range found {
		found[i] = 0x5555555555555555 // what is there already does not matter
	}
	if err := set.ContainsBatch(keys, found); err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		if want, err := set.Contains(k); err != nil || found.Get(i) != want {
			t.Fatalf("key %d of %d, %#x: %v in the batch, %v by itself, %v", i, len(keys), k,
				found.Get(i), want, err)
		}
	}
}
