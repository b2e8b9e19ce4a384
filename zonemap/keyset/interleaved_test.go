package keyset_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// lanes are filters of one shape, over zones, each a little smaller than the one
// before it; every third is wide if wide is set.
func lanes(rnd *rand.Rand, n int, wide bool, segLen, segCount uint32) (members []member) {
	for i := range uint64(n) {
		z := [2]uint64{1<<60 + 100*i, 1<<60 + 20000 - 50*i}
		c := randomFilter(rnd, 8, segLen, segCount, z)
		if wide && i%3 == 1 {
			c = randomFilter(rnd, 16, segLen, segCount, z)
			for range 40 {
				c.plant(z[0] + rnd.Uint64N(z[1]-z[0]))
			}
		}
		members = append(members, member{c, false})
	}
	return members
}

// rowBytes are the bytes of a row of interleaved filters, all groups together.
var rowBytes = map[int]uint64{2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 9, 15: 15, 16: 16, 17: 9 + 8,
	18: 9 + 9, 33: 11 + 11 + 11}

// TestInterleavedAnswers: filters of one shape are interleaved, in rows of up to 16, and the
// answers are those of their bytes, also beside filters that cannot be.
func TestInterleavedAnswers(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(51, 1))
	for n, width := range rowBytes {
		for i := range 4 {
			exact, wide := i%2 == 1, i >= 2
			members := lanes(rnd, n, wide, 16, 6)
			if i == 0 {
				members = lanes(rnd, n, wide, 256, 31) // more rows than are filled at a time
			}
			slots := uint64(len(members[0].parts[0].table))
			label := fmt.Sprintf("%d filters, exact %v, wide %v", n, exact, wide)
			for _, rest := range []bool{false, true} {
				if rest {
					members = append(members, others(rnd)...)
				}
				a := newAsked(t, exact, 0, members...)
				a.set.Prepare()
				perInterval := 12
				if n < 5 {
					perInterval = 200
				}
				a.checkAll(t, label, rnd, perInterval)
				if got := a.set.Stats().InterleavedBytes; got != width*slots {
					t.Errorf("%s: %d bytes, want %d", label, got, width*slots)
				}
			}
		}
	}
}

// others are segments that cannot be interleaved with lanes.
func others(rnd *rand.Rand) (members []member) {
	of := kinds(rnd, [2]uint64{1<<60 + 300, 1<<60 + 21000})
	for _, name := range []string{"cold filter", "salted", "bitmap", "range", "none"} {
		members = append(members, of[name])
	}
	// A filter of another shape, one of blocks, and shards of two shapes.
	z := [2]uint64{1<<60 - 50, 1<<60 + 15000}
	block := randomFilter(rnd, 8, 16, 6, z)
	block.flags |= blocked
	mixed := randomShards(rnd, 8, 16, 6, z, 2, nil)
	mixed.parts[1] = randomPart(rnd, 8, 16, 7, z)
	for _, c := range []*crafted{randomFilter(rnd, 8, 16, 7, z), block, mixed} {
		members = append(members, member{c, false})
	}
	return members
}

// TestInterleavedShards: shards of one shape are interleaved, but for those with a salt, which
// are asked by themselves, and those without keys.
func TestInterleavedShards(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(52, 1))
	for _, n := range []int{2, 3, 7, 8, 11, 16, 20} {
		for i := range 4 {
			exact, wide := i%2 == 1, i >= 2
			var members []member
			for i := range uint64(n) {
				z := [2]uint64{1<<60 + 300*i, 1<<60 + 20000 - 100*i}
				salts := map[int]uint32{int(i) % 8: 1, int(i+3) % 8: ^uint32(0), 4: uint32(i % 2)}
				bits := byte(8)
				if wide && i%2 == 1 {
					bits = 16
				}
				c := randomShards(rnd, bits, 8, 2, z, 8, salts)
				members = append(members, member{c, false})
			}
			a := newAsked(t, exact, 0, members...)
			a.set.Prepare()
			a.checkAll(t, fmt.Sprintf("%d shards, exact %v, wide %v", n, exact, wide), rnd, 30)
			if a.set.Stats().InterleavedBytes == 0 {
				t.Error("nothing is interleaved")
			}
		}
	}
}

// TestInterleavedBytes: keys of bytes get the answers of the segments.
func TestInterleavedBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(53, 1))
	for _, n := range []int{2, 4, 8, 13} {
		for _, shards := range []int{0, 4} {
			var segs []*keyset.Segment
			for range n {
				z := [2]uint64{1<<60 + 10, 2 << 60}
				c := randomFilter(rnd, 8, 16, 6, z)
				if shards > 0 {
					c = randomShards(rnd, 8, 16, 6, z, shards, map[int]uint32{1: 2})
				}
				c.flags &^= ints
				segs = append(segs, c.open(t, false))
			}
			set := mustSet(t, nil, segs...)
			set.Prepare()
			if set.Stats().InterleavedBytes == 0 {
				t.Error("nothing is interleaved")
			}
			checkBytes(t, fmt.Sprint(n, " filters, shards ", shards), set, rnd)
		}
	}
}

// TestExactStoredKeys: sets that check against the stored keys are right, for integers and
// bytes, in every layout, interleaved or not, with all segments alike or different, and with
// keys whose heads are close together or equal.
func TestExactStoredKeys(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(54, 1))
	for _, o := range []keyset.SegmentOptions{{}, {Bits: 16}, {BlockKeys: 30}, {Shards: 8},
		{Shards: 32, Bits: 16}} {
		o.StoreKeys, o.Seed = true, 9
		for i := range 8 {
			useBytes, alike, cold := i&1 != 0, i&2 != 0, i&4 != 0
			has := map[string]bool{}
			var segs []*keyset.Segment
			var data []byte
			for n := range 11 {
				var keys [][]byte
				for range 150 {
					k := storedKey(rnd)
					if keys = append(keys, be(k)); useBytes {
						keys[len(keys)-1] = bytesOf(k)
					}
				}
				if n == 0 || !alike {
					data = binaryOf(t, buildOf(t, &o, keys, rnd))
					for _, k := range keys {
						has[string(k)] = true
					}
				}
				segs = append(segs, openBytes(t, data, cold))
			}
			set := mustSet(t, &keyset.SetOptions{Exact: true}, segs...)
			for _, prepare := range []bool{false, true} {
				if prepare {
					set.Prepare()
				}
				label := fmt.Sprintf("%+v, bytes %v, alike %v, cold %v, interleaved %v", o,
					useBytes, alike, cold, prepare)
				checkExact(t, label, set, has, rnd)
			}
		}
	}
}

// storedKey draws a key, most often one of a narrow range.
func storedKey(rnd *rand.Rand) uint64 {
	k := 1<<60 + rnd.Uint64N(3000)
	if rnd.IntN(8) == 0 {
		k = rnd.Uint64()
	}
	return k
}

func checkExact(t *testing.T, label string, set *keyset.Set, has map[string]bool, rnd *rand.Rand) {
	t.Helper()
	var keys [][]byte
	for k := range has {
		keys = append(keys, []byte(k), append([]byte(k), 0), be(base.KeyHead([]byte(k))))
	}
	slices.SortFunc(keys, func(a, b []byte) int { return slices.Compare(a, b) })
	rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for range 1500 {
		k := storedKey(rnd)
		keys = append(keys, be(k), bytesOf(k))
	}
	found := keyset.NewBitmap(len(keys))
	ok(t, set.ContainsBytesBatch(keys, found))
	var numbers []uint64
	for i, k := range keys {
		one, err := set.ContainsBytes(k)
		if want := has[string(k)]; err != nil || one != want || found.Get(i) != want {
			t.Fatalf("%s: %x: %v alone, %v in a batch, want %v, %v", label, k, one, found.Get(i),
				want, err)
		}
		if len(k) == 8 {
			numbers = append(numbers, base.KeyHead(k))
		}
	}
	ok(t, set.ContainsBatch(numbers, found))
	for i, k := range numbers {
		one, err := set.Contains(k)
		if want := has[string(be(k))]; err != nil || one != want || found.Get(i) != want {
			t.Fatalf("%s: %d: %v alone, %v in a batch, want %v, %v", label, k, one, found.Get(i),
				want, err)
		}
	}
}

// TestStoredIntegersAndBytes: keys of bytes that begin with a stored integer, and pass its
// filter, are not that integer.
func TestStoredIntegersAndBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(55, 1))
	keys := randomHashes(rnd, 100)
	var asked [][]byte
	for _, k := range keys {
		for i := range 40 {
			asked = append(asked, append(be(k), byte(i)))
		}
	}
	found := keyset.NewBitmap(len(asked))
	for _, n := range []int{1, 4} {
		sets := slices.Repeat([][]uint64{keys}, n)
		set := mustSet(t, &keyset.SetOptions{Exact: true},
			mustBuild(t, &keyset.SegmentOptions{StoreKeys: true}, sets...)...)
		set.Prepare()
		if err := set.ContainsBytesBatch(asked, found); err != nil || found.Count() != 0 {
			t.Errorf("%d segments: %d keys are taken for others, %v", n, found.Count(), err)
		}
	}
}

// TestStoredBelowZone: the last stored key may lie below the end of the zone.
func TestStoredBelowZone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(56, 1))
	c := randomFilter(rnd, 8, 16, 6, [2]uint64{10, 1000})
	c.flags |= stored
	c.parts[0].keys, c.parts[0].stored = 1, 1
	c.parts[0].column = []byte{20, 0, 0, 0, 0, 0, 0, 0}
	for _, k := range []uint64{20, 500, 1000} {
		c.plant(k)
		set := mustSet(t, &keyset.SetOptions{Exact: true}, c.open(t, false))
		found := keyset.NewBitmap(1)
		err := set.ContainsBatch([]uint64{k}, found)
		one, oneErr := set.Contains(k)
		if want := k == 20; err != nil || oneErr != nil || one != want || found.Get(0) != want {
			t.Errorf("%d: %v in a batch, %v alone, %v, %v", k, found.Get(0), one, err, oneErr)
		}
	}
}
