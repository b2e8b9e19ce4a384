package keyset_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/FastFilter/xorfilter"

	"github.com/kstonedb/kstone/zonemap/keyset"
)

// obvious is the loop that everything is measured against: for each key one segment
// after the other, zone map first, then the filter of the library.
type obvious []obviousSegment

type obviousSegment struct {
	min, max uint64
	filter   xorfilter.BinaryFuse[uint8]
}

func newObvious(tb testing.TB, sets [][]uint64) obvious {
	var b xorfilter.BinaryFuseBuilder
	var o obvious
	for _, keys := range sets {
		f, err := xorfilter.BuildBinaryFuse[uint8](&b, slices.Clone(keys))
		ok(tb, err)
		f.Fingerprints = slices.Clone(f.Fingerprints)
		o = append(o, obviousSegment{slices.Min(keys), slices.Max(keys), f})
	}
	return o
}

func (o obvious) contains(key uint64) bool {
	for i := range o {
		s := &o[i]
		if key < s.min || key > s.max {
			continue
		}
		if s.filter.Contains(key) {
			return true
		}
	}
	return false
}

// benchKeys is 16 M by default; DEDUP_KEYS sets it.
func benchKeys() int {
	if n, err := strconv.Atoi(os.Getenv("DEDUP_KEYS")); err == nil {
		return n
	}
	return 16_000_000
}

// BenchmarkDedup measures batches against the obvious loop, in turns, and reports the
// median ratio, in processor time of the thread: run with -benchtime 1x.
func BenchmarkDedup(b *testing.B) {
	n := benchKeys()
	rnd := rand.New(rand.NewPCG(1, 2))
	all := randomHashes(rnd, n)
	sorted := slices.Sorted(slices.Values(all))
	cut := func(keys []uint64, segments int) (sets [][]uint64) {
		for c := range slices.Chunk(keys, len(keys)/segments) {
			sets = append(sets, c)
		}
		return sets
	}
	q := 1 << 20
	present := func() []uint64 {
		out := make([]uint64, q)
		for i := range out {
			out[i] = all[rnd.IntN(n)]
		}
		return out
	}
	absent := func() []uint64 { return randomHashes(rnd, q) }
	mixed := func() []uint64 {
		out := absent()
		for i := 0; i < q; i += 10 {
			out[i] = all[rnd.IntN(n)]
		}
		return out
	}
	inOrder := func() []uint64 {
		at := rnd.IntN(max(1, n-q))
		return slices.Clone(sorted[at:min(n, at+q)])
	}
	questions := []struct {
		name string
		make func() []uint64
	}{{"present", present}, {"absent", absent}, {"mixed", mixed}, {"inorder", inOrder}}
	for _, layout := range []struct {
		name string
		keys []uint64
		sets [][]uint64
		opts keyset.SegmentOptions
	}{
		{"unsorted", all, cut(all, 10), keyset.SegmentOptions{StoreKeys: true}},
		{"shards4", all, cut(all, 4), keyset.SegmentOptions{StoreKeys: true, Shards: 256}},
		{"sorted", sorted, cut(sorted, 10), keyset.SegmentOptions{}},
		{"blocks", sorted, cut(sorted, 10), keyset.SegmentOptions{BlockKeys: 160_000}},
	} {
		b.Run(layout.name, func(b *testing.B) {
			loop := newObvious(b, cut(layout.keys, 10))
			segments, err := keyset.BuildSegments(layout.sets, &layout.opts, 2)
			ok(b, err)
			for _, exact := range []bool{false, true} {
				if exact && !layout.opts.StoreKeys {
					continue
				}
				set := keyset.NewSet(&keyset.SetOptions{Exact: exact, MemoryBytes: 4 << 30})
				ok(b, set.Append(segments...))
				set.Prepare()
				for _, q := range questions {
					b.Run(fmt.Sprintf("%s/exact=%v", q.name, exact), func(b *testing.B) {
						compareLoop(b, loop, set, q.make)
					})
				}
			}
		})
	}
}

var sink int

func compareLoop(b *testing.B, loop obvious, set *keyset.Set, make func() []uint64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ratios, ours, theirs, singles []float64
	found := keyset.NewBitmap(1 << 20)
	for range 5 {
		keys := make()
		per := float64(len(keys))
		start := threadTime()
		for _, k := range keys {
			if loop.contains(k) {
				sink++
			}
		}
		a := float64(threadTime()-start) / per
		start = threadTime()
		ok(b, set.ContainsBatch(keys, found))
		c := float64(threadTime()-start) / per
		start = threadTime()
		for _, k := range keys {
			yes, err := set.Contains(k)
			ok(b, err)
			if yes {
				sink++
			}
		}
		singles = append(singles, float64(threadTime()-start)/per)
		ratios, ours, theirs = append(ratios, a/c), append(ours, c), append(theirs, a)
	}
	for _, x := range [][]float64{ratios, ours, theirs, singles} {
		slices.Sort(x)
	}
	b.ReportMetric(theirs[2], "loop-ns/key")
	b.ReportMetric(ours[2], "batch-ns/key")
	b.ReportMetric(singles[2], "single-ns/key")
	b.ReportMetric(ratios[2], "x")
	b.ReportMetric(0, "ns/op")
}
