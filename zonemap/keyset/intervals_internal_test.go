package keyset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// TestIntervals: the list of the interval of a head names the zones that cover the head, in
// the order of their lower ends, for zones of all sizes and places.
func TestIntervals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 2, 3, 5, 17, 40, 300} {
		for _, width := range []uint{1, 8, 20, 63} {
			zones := make([]zone, n)
			var heads []uint64
			for i := range zones {
				lo := rnd.Uint64() >> (64 - width) << uint(rnd.IntN(int(65-width)))
				hi := lo + rnd.Uint64N(1<<width)
				if hi < lo || rnd.IntN(8) == 0 {
					hi = math.MaxUint64
				}
				zones[i] = zone{lo, hi}
				heads = append(heads, lo-1, lo, lo+1, hi-1, hi, hi+1, rnd.Uint64())
			}
			heads = append(heads, 0, math.MaxUint64)
			label := fmt.Sprintf("%d zones of %d bits", n, width)
			checkIntervals(t, label, zones, func(int) bool { return true }, heads)
			checkIntervals(t, label, zones, func(i int) bool { return i%3 == 1 }, heads)
		}
	}
}

func checkIntervals(t *testing.T, label string, zones []zone, use func(int) bool, heads []uint64) {
	t.Helper()
	x := newIntervals(zones, use)
	for _, h := range heads {
		var want []uint32
		for i, z := range zones {
			if use(i) && z.lo <= h && h <= z.hi {
				want = append(want, uint32(i))
			}
		}
		slices.SortStableFunc(want, func(a, b uint32) int {
			return slices.Compare([]uint64{zones[a].lo}, []uint64{zones[b].lo})
		})
		at := x.find(h)
		if got := x.list(at); !slices.Equal(got, want) {
			t.Fatalf("%s: %#x is in %v, want %v", label, h, got, want)
		}
		if h < x.starts[at] || h > x.end(at) || x.search(h, 0, len(x.starts)-1) != at {
			t.Fatalf("%s: %#x is not in interval %d", label, h, at)
		}
	}
	if x.end(len(x.starts)-1) != math.MaxUint64 {
		t.Errorf("%s: the last interval ends at %#x", label, x.end(len(x.starts)-1))
	}
}

// TestIntervalsOfMany: an index names every covering zone, and no other unless its lists would
// have more than 4 Mi zones together, which they never have.
func TestIntervalsOfMany(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, n := range []uint64{2048, 2049} { // nested zones make lists of n·n
		zones := make([]zone, n)
		for i := range n {
			zones[i] = zone{1000 + i, 1_000_000 - i}
		}
		x := newIntervals(zones, func(int) bool { return true })
		if len(x.items) > 4194304 || (len(x.starts) == 4097) != (n == 2048) {
			t.Errorf("%d zones: %d in %d lists", n, len(x.items), len(x.starts))
		}
		for _, h := range []uint64{0, 999, 1000, 1001, 2500, 500_000, 999_000, 1_000_000} {
			list := x.list(x.find(h))
			for i, z := range zones {
				if z.lo <= h && h <= z.hi && !slices.Contains(list, uint32(i)) {
					t.Fatalf("%d zones: %d of %d is missing at %d", n, i, len(list), h)
				}
			}
		}
	}
}

// TestRadixSort: keys are sorted, whatever digits they have in common.
func TestRadixSort(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 1))
	var r radixSorter
	for _, n := range []int{0, 1, 2, 100, 4095, 4096, 9000, 5000} {
		for _, mask := range []uint64{math.MaxUint64, 0xff00, 0xff0000ff00, 0xffffff, 1 << 63, 0} {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = rnd.Uint64() & mask
			}
			want := slices.Sorted(slices.Values(keys))
			if got := r.sorted(keys); !slices.Equal(got, want) {
				t.Errorf("%d keys with the digits %x are out of order", n, mask)
			}
			if got := r.sorted(want); !slices.IsSorted(got) || len(got) != n {
				t.Errorf("%d sorted keys with the digits %x are out of order", n, mask)
			}
		}
	}
}
