package zonemap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/FastFilter/xorfilter"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap"
)

var ok = testutil.OK

// buildFilter builds and opens a filter of n hashes.
func buildFilter(tb testing.TB, b *zonemap.Builder, hashes []uint64, bits int) zonemap.Filter {
	tb.Helper()
	b.Reset()
	for _, h := range hashes {
		b.Add(h)
	}
	data, err := b.Build(nil, bits)
	ok(tb, err)
	f, err := zonemap.Open(data)
	ok(tb, err)
	return f
}

func randomHashes(rnd *rand.Rand, n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = rnd.Uint64()
	}
	return hashes
}

// TestNoFalseNegative: whatever was added is found, for all small sizes and some
// large ones, with and without duplicates.
//
// Promise (new keys): No key that was added is ever called new: random segments of integers and
// bytes, in one filter, blocks or shards, in memory and on disk, appended and dropped, asked
// alone and in batches; exact sets are a map. Also `TestSetModel`, `TestLargeBatches`,
// `TestLargeInterleavedBatches`.
func TestNoFalseNegative(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(1, 1))
	var b zonemap.Builder
	sizes := []int{500, 1000, 5000, 70_000, 200_000}
	for n := range 300 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		for _, bits := range []int{8, 16} {
			hashes := randomHashes(rnd, n)
			if n%3 == 1 { // every other hash twice, one very often
				hashes = append(hashes, hashes[:n/2]...)
				for range n {
					hashes = append(hashes, hashes[0])
				}
			}
			f := buildFilter(t, &b, hashes, bits)
			for _, h := range hashes {
				if !f.Contains(h) {
					t.Fatalf("%d bits, %d hashes: %#x is denied", bits, len(hashes), h)
				}
			}
			if f.Bits() != bits {
				t.Fatalf("%d bits, want %d", f.Bits(), bits)
			}
		}
	}
}

// TestFalsePositives: the rate is what the width promises.
//
// Promise (new keys): False positives are as theory says, for 8 and 16 bits; bits a key too.
// Also `TestRatesOfSets`, `TestWideFingerprints`; `TestBitsPerKey` in
// `zonemap/keyset/internal/fuse`.
func TestFalsePositives(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(2, 2))
	var b zonemap.Builder
	for _, c := range []struct {
		bits     int
		lo, hi   float64
		maxBytes float64 // per key
	}{{8, 0.0030, 0.0048, 1.20}, {16, 0.000002, 0.00004, 2.40}} {
		f := buildFilter(t, &b, randomHashes(rnd, 128<<10), c.bits)
		const probes = 2_000_000
		hits := 0
		for range probes {
			if f.Contains(rnd.Uint64()) {
				hits++
			}
		}
		if rate := float64(hits) / probes; rate < c.lo || rate > c.hi {
			t.Errorf("%d bits: false positive rate %.6f outside [%f, %f]", c.bits, rate, c.lo, c.hi)
		}
		data, err := b.Build(nil, c.bits)
		ok(t, err)
		if perKey := float64(len(data)) / (128 << 10); perKey > c.maxBytes {
			t.Errorf("%d bits: %.3f bytes per key", c.bits, perKey)
		}
	}
}

// TestEmptyFilter: no keys, and the zero Filter, contain nothing.
func TestEmptyFilter(t *testing.T) {
	var b zonemap.Builder
	for _, f := range []zonemap.Filter{
		{}, buildFilter(t, &b, nil, 8), buildFilter(t, &b, nil, 16),
	} {
		for h := range uint64(1000) {
			if f.Contains(h * 0x9e3779b97f4a7c15) {
				t.Fatal("an empty filter contains something")
			}
		}
	}
}

// TestSameAsLibrary: Contains answers like the library that builds the tables.
//
// Promise (new keys): Filters are those of the common library, bit for bit in what they answer.
// Also `TestLibraryReadsTables` in `zonemap/keyset/internal/fuse`.
func TestSameAsLibrary(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(3, 3))
	var b zonemap.Builder
	for _, n := range []int{1, 2, 7, 100, 10_000} {
		hashes := randomHashes(rnd, n)
		want, err := xorfilter.NewBinaryFuse[uint8](bytes64(hashes))
		ok(t, err)
		f := buildFilter(t, &b, hashes, 8)
		for range 200_000 {
			if h := rnd.Uint64(); f.Contains(h) != want.Contains(h) {
				t.Fatalf("%d keys: Contains(%#x) differs", n, h)
			}
		}
	}
}

func bytes64(h []uint64) []uint64 { return append([]uint64(nil), h...) }

// TestBuildAppends: Build keeps what dst holds, and reuse changes nothing.
func TestBuildAppends(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	hashes := randomHashes(rnd, 3000)
	var used, fresh zonemap.Builder
	buildFilter(t, &used, randomHashes(rnd, 9000), 16)
	used.Reset()
	for _, h := range hashes {
		used.Add(h)
		fresh.Add(h)
	}
	a, err := used.Build([]byte("front"), 8)
	ok(t, err)
	b, err := fresh.Build(nil, 8)
	ok(t, err)
	if string(a[:5]) != "front" || !bytes.Equal(a[5:], b) {
		t.Error("a used builder makes another filter")
	}
	if _, err := fresh.Build(nil, 4); err == nil {
		t.Error("4 bits are accepted")
	}
}

// TestOpenRefuses: headers that do not fit the table.
func TestOpenRefuses(t *testing.T) {
	var b zonemap.Builder
	for h := range uint64(100) {
		b.Add(h * 0x9e3779b97f4a7c15)
	}
	good, err := b.Build(nil, 8)
	ok(t, err)
	for n := range good {
		if _, err := zonemap.Open(good[:n]); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	for at := range 12 {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << bit
			if _, err := zonemap.Open(bad); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("flipped bit %d of byte %d: %v", bit, at, err)
			}
		}
	}
	bad := bytes.Clone(good)
	bad[0] = 2
	if _, err := zonemap.Open(bad); !errors.Is(err, corrupt.ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
}

func FuzzFilter(f *testing.F) {
	var b zonemap.Builder
	for _, n := range []uint64{0, 1, 50} {
		b.Reset()
		for h := range n {
			b.Add(h * 0x9e3779b97f4a7c15)
		}
		for _, bits := range []int{8, 16} {
			data, err := b.Build(nil, bits)
			ok(f, err)
			f.Add(data, uint64(77))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, hash uint64) {
		defer testutil.Watch(data, hash)()
		filter, err := zonemap.Open(data)
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		for i := range uint64(64) {
			filter.Contains(hash + i*0x9e3779b97f4a7c15)
			filter.Contains(hash << i)
		}
	})
}

func TestFilterAllocations(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	var b zonemap.Builder
	f := buildFilter(t, &b, randomHashes(rnd, 10_000), 8)
	if n := testutil.AllocsPerRun(100, func() { f.Contains(rnd.Uint64()) }); n != 0 {
		t.Errorf("Contains allocates %v times", n)
	}
	hashes := randomHashes(rnd, 10_000)
	var buf []byte
	n := testutil.AllocsPerRun(10, func() {
		b.Reset()
		for _, h := range hashes {
			b.Add(h)
		}
		buf, _ = b.Build(buf[:0], 8)
	})
	testutil.SkipUnderRace(t, "the filter library's buffers allocate")
	if n != 0 {
		t.Errorf("a reused builder allocates %v times", n)
	}
}

func BenchmarkFilterContains(b *testing.B) {
	rnd := rand.New(rand.NewPCG(6, 6))
	var builder zonemap.Builder
	f := buildFilter(b, &builder, randomHashes(rnd, 128<<10), 8)
	b.ReportAllocs()
	h := uint64(1)
	for b.Loop() {
		h = h*0x9e3779b97f4a7c15 + 1
		f.Contains(h)
	}
}

func BenchmarkFilterBuild(b *testing.B) {
	rnd := rand.New(rand.NewPCG(7, 7))
	hashes := randomHashes(rnd, 128<<10)
	var builder zonemap.Builder
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		builder.Reset()
		for _, h := range hashes {
			builder.Add(h)
		}
		buf, _ = builder.Build(buf[:0], 8)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(hashes)), "ns/key")
	b.SetBytes(int64(binary.Size(hashes)))
}
