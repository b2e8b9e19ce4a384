package fuse_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/FastFilter/xorfilter"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// build builds a table of random words under the first seed that will do.
func build(t *testing.T, b *fuse.Builder, s fuse.Shape, words []uint64, planes int,
	shardBits uint) ([]byte, uint64) {
	t.Helper()
	table := make([]byte, planes*s.Slots())
	for seed := uint64(7); seed < 100; seed++ {
		if _, err := b.Build(table, s, words, seed, shardBits); err == nil {
			return table, seed
		}
	}
	t.Fatalf("no seed for %d words", len(words))
	return nil, 0
}

func randomWords(rnd *rand.Rand, n int) []uint64 {
	words := make([]uint64, n)
	for i := range words {
		words[i] = rnd.Uint64()
	}
	return words
}

// TestLibraryReadsTables: what Build makes is a filter of the library, which finds every
// word, repeated ones too, and lets as many absent ones pass as theory says.
func TestLibraryReadsTables(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var b fuse.Builder
	for _, n := range []int{1, 2, 3, 4, 5, 10, 100, 1000, 30_000, 400_000} {
		words := randomWords(rnd, n)
		if n >= 100 {
			words = append(words, words[:n/2]...)
			for range 100 {
				words = append(words, words[0])
			}
		}
		s := fuse.ShapeFor(len(words))
		table, seed := build(t, &b, s, words, 1, 0)
		segLen, segCount := s.Segments()
		f := xorfilter.BinaryFuse[uint8]{Seed: seed, SegmentLength: segLen,
			SegmentLengthMask: segLen - 1, SegmentCount: segCount,
			SegmentCountLength: segLen * segCount, Fingerprints: table}
		for _, w := range words {
			if !f.Contains(w) {
				t.Fatalf("%d words: %#x is denied", n, w)
			}
		}
		if n < 1000 {
			continue
		}
		const probes = 1 << 20
		hits := 0
		for range probes {
			if f.Contains(rnd.Uint64()) {
				hits++
			}
		}
		// Four standard deviations are 6 % of the expected 4096.
		if hits < 3700 || hits > 4500 {
			t.Errorf("%d words: %d of %d absent ones pass", n, hits, probes)
		}
	}
}

// TestRepeatedWords: however often words repeat, none is denied. Counts of keys in a
// slot, which have five bits, overflow at 32. Under a salt, the bits that chose the shard
// are any.
func TestRepeatedWords(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	var b fuse.Builder
	for times := 1; times < 140; times++ {
		distinct := randomWords(rnd, 5+rnd.IntN(200))
		words := slices.Clone(distinct)
		for range times {
			words = append(words, distinct[:5]...)
		}
		rnd.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		s, shardBits := fuse.ShapeFor(len(words)), uint(times%4)
		table, seed := build(t, &b, s, words, 1, shardBits)
		for _, w := range distinct {
			h := base.Mix(w + seed)
			p0, p1, p2 := s.Positions(h, h<<shardBits)
			if table[p0]^table[p1]^table[p2] != byte(fuse.Fingerprint(h)) {
				t.Fatalf("%d copies: %#x is denied", times, w)
			}
		}
	}
}

// TestShardsAndPlanes: hashes with common leading bits, as those of a shard, and tables
// of two planes.
func TestShardsAndPlanes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	var b fuse.Builder
	for _, n := range []int{1, 3, 50, 2000, 60_000, 300_000} {
		for _, shardBits := range []uint{0, 1, 8} {
			words := make([]uint64, 0, n)
			for len(words) < n {
				// Under seed 7 all hashes begin with as many bits of 0xa5.
				h := rnd.Uint64()>>shardBits | 0xa5>>(8-shardBits)<<(64-shardBits)
				words = append(words, fuse.Unmix(h)-7)
			}
			s := fuse.ShapeFor(n)
			table := make([]byte, 2*s.Slots())
			if _, err := b.Build(table, s, words, 7, shardBits); err != nil {
				t.Fatalf("%d words, %d bits of shards: %v", n, shardBits, err)
			}
			for _, w := range words {
				h := base.Mix(w + 7)
				p0, p1, p2 := s.Positions(h, h<<shardBits)
				upper := table[s.Slots():]
				got := uint16(table[p0]^table[p1]^table[p2]) |
					uint16(upper[p0]^upper[p1]^upper[p2])<<8
				if got != fuse.Fingerprint(h) {
					t.Fatalf("%d words, %d bits of shards: %#x is denied", n, shardBits, w)
				}
			}
		}
	}
}

// TestTightTables: Build succeeds exactly where taking out keys in the plainest way
// does, also where tables are so tight that keys of all of it are in work at once.
func TestTightTables(t *testing.T) {
	const n, segLen = 250_000, 1 << 13
	words := randomWords(rand.New(rand.NewPCG(8, 8)), n)
	var b fuse.Builder
	good, all, step := 0, 0, uint32(max(1, 3/testutil.Effort(1, 3)))
	for i := uint32(0); i < 18; i += step {
		all++
		s, ok := fuse.NewShape(segLen, n/segLen+i/2)
		if !ok {
			t.Fatal("no such shape")
		}
		_, err := b.Build(make([]byte, s.Slots()), s, words, uint64(i), 0)
		if want := canPeel(&s, words, uint64(i)); (err == nil) != want {
			t.Errorf("%d of %d slots: %v, but %v", n, s.Slots(), err, want)
		}
		if err == nil {
			good++
		}
	}
	if good == 0 || good == all {
		t.Errorf("%d of %d tables could be built", good, all)
	}
}

// canPeel takes out keys that are alone in a slot for as long as there are any.
func canPeel(s *fuse.Shape, words []uint64, seed uint64) bool {
	in := make([][]int, s.Slots())
	slotsOf := func(key int) [3]uint32 {
		h := base.Mix(words[key] + seed)
		p0, p1, p2 := s.Positions(h, h)
		return [3]uint32{p0, p1, p2}
	}
	for key := range words {
		for _, p := range slotsOf(key) {
			in[p] = append(in[p], key)
		}
	}
	var lone []int
	for _, keys := range in {
		if len(keys) == 1 {
			lone = append(lone, keys[0])
		}
	}
	gone := map[int]bool{}
	for len(lone) > 0 {
		key := lone[len(lone)-1]
		lone = lone[:len(lone)-1]
		if gone[key] {
			continue
		}
		gone[key] = true
		for _, p := range slotsOf(key) {
			in[p] = slices.DeleteFunc(in[p], func(k int) bool { return k == key })
			if len(in[p]) == 1 {
				lone = append(lone, in[p][0])
			}
		}
	}
	return len(gone) == len(words)
}

// TestUnmix: Unmix is the inverse of Mix.
func TestUnmix(t *testing.T) {
	for _, w := range append(randomWords(rand.New(rand.NewPCG(6, 6)), 1000), 0, 1, 1<<63) {
		if got := fuse.Unmix(base.Mix(w)); got != w {
			t.Fatalf("Unmix(Mix(%#x)) = %#x", w, got)
		}
	}
}

// TestPositionsStayInside: no hash leads out of the table, in no shape.
func TestPositionsStayInside(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for n := 1; n < 100_000; n += 1 + n/7 {
		s := fuse.ShapeFor(n)
		for i := range 2000 {
			h, spread := rnd.Uint64(), rnd.Uint64()
			if i == 0 {
				h, spread = ^uint64(0), ^uint64(0)
			}
			p0, p1, p2 := s.Positions(h, spread)
			if int(max(p0, p1, p2)) >= s.Slots() {
				t.Fatalf("%d keys: %d, %d, %d of %d slots", n, p0, p1, p2, s.Slots())
			}
		}
	}
}

// TestBitsPerKey: what large filters take, and that numbers of keys a little apart share
// a shape.
func TestBitsPerKey(t *testing.T) {
	for n, most := range map[int]float64{160_000: 9.5, 6_400_000: 9.02, 100_000_000: 9.02} {
		s := fuse.ShapeFor(n)
		if got := 8 * float64(s.Slots()) / float64(n); got > most {
			t.Errorf("%d keys: %.3f bits a key, want %.2f", n, got, most)
		}
	}
	if fuse.ShapeFor(6_400_000) != fuse.ShapeFor(6_398_000) {
		t.Error("6.4 M keys and 2,000 fewer differ in shape")
	}
}

// TestPrefetch: any address, and none.
func TestPrefetch(t *testing.T) {
	b := make([]byte, 64)
	addrs := []unsafe.Pointer{unsafe.Pointer(&b[0]), nil, unsafe.Pointer(&b[63])}
	for n := range len(addrs) + 1 {
		fuse.Prefetch(&addrs[0], n)
		fuse.PrefetchSpans(&addrs[0], n, 16)
	}
	fuse.Prefetch(&addrs[0], -1)
	fuse.PrefetchSpans(&addrs[0], -1, 16)
}

// BenchmarkBuild compares with the library in the same run; both reuse their builders.
func BenchmarkBuild(b *testing.B) {
	words := randomWords(rand.New(rand.NewPCG(3, 3)), 6_400_000)
	b.Run("own", func(b *testing.B) {
		var own fuse.Builder
		s := fuse.ShapeFor(len(words))
		table := make([]byte, s.Slots())
		for seed := uint64(0); b.Loop(); seed++ {
			if _, err := own.Build(table, s, words, seed, 0); err != nil {
				b.Logf("seed %d: %v", seed, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(words)), "ns/key")
	})
	b.Run("library", func(b *testing.B) {
		var library xorfilter.BinaryFuseBuilder
		for b.Loop() {
			if _, err := xorfilter.BuildBinaryFuse[uint8](&library, words); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(words)), "ns/key")
	})
}
