package keyset_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// largeBatch are n keys in no order, most of them in zones of members.
func largeBatch(rnd *rand.Rand, n int, a *asked) []uint64 {
	edges := slices.Concat(a.questionsAbout(rnd, 0)...)
	keys := make([]uint64, n)
	for i := range keys {
		switch m := a.members[rnd.IntN(len(a.members))]; i % 8 {
		case 0:
			keys[i] = rnd.Uint64()
		case 1:
			keys[i] = edges[rnd.IntN(len(edges))]
		case 2:
			keys[i] = keys[i-1]
		default:
			lo := base.KeyHead(m.min)
			keys[i] = lo + rnd.Uint64N(base.KeyHead(m.max)-lo+1)
		}
	}
	return keys
}

// TestLargeBatches: batches that are put in order before they are answered, those of more keys
// than are put in order together, and those outside of all zones, get the answers of the
// segments, whatever zones their keys lie in.
func TestLargeBatches(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(61, 1))
	var members []member
	for i, segCount := range []uint32{110, 60, 150, 190, 100} { // of 8192 slots
		z := [2]uint64{uint64(i+1) << 60, uint64(i+1)<<60 + 1<<59}
		members = append(members, member{randomFilter(rnd, 8, 8192, segCount, z), false})
	}
	z := [2]uint64{4<<60 + 1<<58, 4<<60 + 1<<58 + 1<<40} // over another one
	members = append(members, member{randomFilter(rnd, 8, 8, 6, z), false},
		kinds(rnd, [2]uint64{7 << 60, 7<<60 + 5000})["bitmap"])
	a := newAsked(t, false, -1, members...)
	a.check(t, "in two rounds", largeBatch(rnd, 400_000, a), 5)
	a.check(t, "in one round", largeBatch(rnd, 30_000, a), 3)
	a.check(t, "small", largeBatch(rnd, 3_000, a), 1)
	outside := largeBatch(rnd, 30_000, a)
	for i := range outside {
		outside[i] |= 15 << 60
	}
	a.check(t, "outside", outside, 3)
	checkMemory(t, a, largeBatch(rnd, 30_000, a))
}

// checkMemory: the memory of a large batch, 14 bytes a key, is kept for the next.
func checkMemory(t *testing.T, a *asked, keys []uint64) {
	t.Helper()
	found := keyset.NewBitmap(len(keys))
	least := uint64(1 << 40)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ok(t, a.set.ContainsBatch(keys, found))
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > uint64(len(keys)) {
		t.Errorf("a batch of %d keys allocates %d bytes", len(keys), least)
	}
}

// TestManyTargets: large batches over so many blocks that keys cannot be put in order by block
// get the answers of the blocks.
func TestManyTargets(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(62, 1))
	for _, n := range []int{4094, 4095} {
		c := &crafted{bits: 8, flags: ints | blocked, seed: 9, min: be(0), max: be(uint64(n) << 32)}
		part := randomPart(rnd, 8, 64, 15, [2]uint64{0, 0})
		for i := range uint64(n) {
			part.lo, part.hi = i<<32, (i+1)<<32-1
			c.parts = append(c.parts, part)
		}
		set := mustSet(t, nil, c.open(t, false))
		keys := make([]uint64, 20_000)
		for i := range keys {
			keys[i] = rnd.Uint64N(uint64(n+1) << 32)
		}
		found := keyset.NewBitmap(len(keys))
		ok(t, set.ContainsBatch(keys, found))
		for i, k := range keys {
			want := k>>32 < uint64(n) && c.passes(&c.parts[k>>32], k)
			if found.Get(i) != want {
				t.Fatalf("%d blocks: %#x is %v", n, k, found.Get(i))
			}
		}
	}
}

// TestLargeInterleavedBatches is TestLargeBatches for interleaved filters: alone and in two
// groups, with wide ones, exact, and with shards, some asked by themselves.
func TestLargeInterleavedBatches(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(63, 1))
	for _, exact := range []bool{false, true} {
		for _, wide := range []bool{false, true} {
			members := append(lanes(rnd, 15, wide, 8192, 33), others(rnd)...)
			a := newAsked(t, exact, 0, members...)
			checkOrdered(t, fmt.Sprint("exact ", exact, ", wide ", wide), a, rnd)
		}
		var members []member
		for i := range uint64(5) {
			z := [2]uint64{1<<60 + 3000*i, 2<<60 - 1<<50*i}
			salts := map[int]uint32{int(i): 1, int(i+3) % 8: ^uint32(0)}
			c := randomShards(rnd, 8, 4096, 15, z, 8, salts)
			members = append(members, member{c, false})
		}
		checkOrdered(t, fmt.Sprint("shards, exact ", exact), newAsked(t, exact, 0, members...), rnd)
	}
}

func checkOrdered(t *testing.T, label string, a *asked, rnd *rand.Rand) {
	t.Helper()
	a.set.Prepare()
	if n := a.set.Stats().InterleavedBytes; n < 4<<20 {
		t.Errorf("%s: %d bytes are so few that nothing is put in order", label, n)
	}
	a.check(t, label+", in two rounds", largeBatch(rnd, 320_000, a), 37)
	keys := largeBatch(rnd, 20_000, a)
	a.check(t, label+", in one round", keys, 5)
	checkMemory(t, a, keys)
}

// TestLargeBatchesFail: a large batch that meets a filter that cannot be read is an error.
func TestLargeBatchesFail(t *testing.T) {
	rnd := rand.New(rand.NewPCG(64, 1))
	keys := make([]uint64, 30_000)
	for i := range keys {
		keys[i] = 1<<60 + rnd.Uint64N(1<<61)
	}
	for _, zones := range [][][2]uint64{
		{{1 << 60, 2<<60 - 1}, {2 << 60, 3 << 60}},
		{{1 << 60, 3 << 60}, {1 << 60, 3 << 60}},
	} {
		var segs []*keyset.Segment
		for _, z := range zones {
			segs = append(segs, randomFilter(rnd, 8, 8192, 300, z).open(t, false))
		}
		set := mustSet(t, nil, segs...)
		set.Prepare()
		found := keyset.NewBitmap(len(keys))
		ok(t, set.ContainsBatch(keys, found))
		data := randomFilter(rnd, 8, 16, 6, [2]uint64{2<<60 + 1, 2<<60 + 1<<59}).encode()
		cold, err := keyset.OpenSegmentAt(&failing{*bytes.NewReader(data), 192},
			int64(len(data)), nil)
		ok(t, err)
		ok(t, set.Append(cold))
		set.Prepare()
		if err := set.ContainsBatch(keys, found); !errors.Is(err, errRead) {
			t.Errorf("zones %x: %v", zones, err)
		}
	}
}
