package keyset_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestOrderedBatches: batches that walk through interleaved filters in the order of
// their hashes get the answers that keys get one by one: with one group of filters and
// with several, filters left out of their group because of another salt, zones that
// leave keys out, wide fingerprints, exact answers.
func TestOrderedBatches(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(21, 1))
	const size = 380_000 // the filters are too large to be left in any order
	for i, c := range []struct {
		segments int
		opts     keyset.SegmentOptions
		exact    bool
	}{
		{12, keyset.SegmentOptions{Seed: 4}, false},
		{18, keyset.SegmentOptions{Seed: 4, Bits: 16}, false},
		{12, keyset.SegmentOptions{Seed: 4, StoreKeys: true}, true},
		// Of so many shards of so few keys each, some need another salt.
		{10, keyset.SegmentOptions{Seed: 4, Shards: 256}, false},
		{12, keyset.SegmentOptions{Seed: 4, Shards: 64, StoreKeys: true, Bits: 16}, true},
	} {
		if i%2 == 1 && testutil.Effort(1, 2) == 1 {
			continue
		}
		var sets [][]uint64
		for i := range c.segments {
			keys := randomHashes(rnd, size)
			if i%4 == 1 {
				for j := range keys {
					keys[j] >>= 1
				}
			}
			sets = append(sets, keys)
		}
		few := []uint64{1 << 63, 1<<63 + 1, 1 << 40} // in no group
		all := slices.Concat(append(sets, few)...)
		set := mustSet(t, &keyset.SetOptions{Exact: c.exact},
			mustBuild(t, &c.opts, append(sets, few)...)...)
		set.Prepare()
		keys := randomHashes(rnd, 1<<16)
		for i := range keys {
			switch i % 8 {
			case 0, 1:
				keys[i] = all[rnd.IntN(len(all))]
			case 2:
				keys[i] = few[rnd.IntN(len(few))] + uint64(rnd.IntN(2))
			case 3:
				keys[i] = keys[i-1]
			case 4: // outside of all zones
				keys[i] = uint64(rnd.IntN(100)) ^ -uint64(i>>3&1)
			}
		}
		checkLikeSingles(t, set, keys)
		checkPresent(t, set, sets)
		if set.Stats().InterleavedBytes < 4<<20 {
			t.Errorf("%+v: so small that nothing is put in order", c)
		}
	}
}

// TestRowsOfAnyWidth is TestOrderedBatches for rows of 3 to 12 filters, two groups of them,
// shards, and keys that are in some zones only.
func TestRowsOfAnyWidth(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(25, 1))
	for i, c := range []struct {
		segments, size, shards int
	}{
		{12, 340_000, 1}, {7, 530_000, 1}, {17, 240_000, 1}, {3, 1_050_000, 1}, {10, 410_000, 16},
	} {
		if i%2 == 1 && testutil.Effort(1, 2) == 1 {
			continue
		}
		var sets [][]uint64
		var edges []uint64
		for range c.segments {
			keys := randomHashes(rnd, c.size)
			for j := range keys {
				keys[j] = keys[j]>>1 + 1<<40
			}
			sets = append(sets, keys)
			lo, hi := slices.Min(keys), slices.Max(keys)
			edges = append(edges, lo-1, lo, lo+1, hi-1, hi, hi+1)
		}
		set := mustSet(t, nil,
			mustBuild(t, &keyset.SegmentOptions{Seed: 4, Shards: c.shards}, sets...)...)
		set.Prepare()
		if set.Stats().InterleavedBytes < 4<<20 {
			t.Errorf("%+v: so small that nothing is put in order", c)
		}
		keys := randomHashes(rnd, 1<<16)
		for i := range keys {
			switch i % 64 {
			case 0, 1, 2:
				keys[i] = edges[rnd.IntN(len(edges))]
			case 3, 4, 5, 6, 7, 8, 9:
				keys[i] = sets[rnd.IntN(c.segments)][rnd.IntN(c.size)]
			case 10:
				keys[i] = keys[i-1]
			}
		}
		checkLikeSingles(t, set, keys)
		checkPresent(t, set, sets)
	}
}
