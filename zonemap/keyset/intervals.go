package keyset

import (
	"math"
	"math/bits"
	"slices"
)

// maxIntervalItems bounds the memory of an index: 4 bytes each.
const maxIntervalItems = 4 << 20

// intervals answers which of many zones a head lies in, in the logarithm of their
// number: the borders of all zones cut the heads into intervals, and each has a list.
// A list may name zones that a head misses, where there are so many overlapping ones
// that neighbouring intervals had to be merged. Immutable.
type intervals struct {
	starts []uint64 // ascending; starts[0] is 0
	from   []uint32 // list i is items[from[i]:from[i+1]]
	items  []uint32 // numbers of zones

	// The interval of the first head of each of many stretches of equal length, a power
	// of two, from the second start on: where two neighbours are equal no search is
	// needed, which for zones of about one size is nearly everywhere.
	guess []uint32
	shift uint

	sole []*candidate // by interval: the only one of its list, if it is simple; else nil
}

// zone is a range of heads, both ends included.
type zone struct{ lo, hi uint64 }

// newIntervals indexes the zones that use selects.
func newIntervals(zones []zone, use func(i int) bool) *intervals {
	var byLo []uint32
	borders := []uint64{0}
	for i, z := range zones {
		if !use(i) {
			continue
		}
		byLo = append(byLo, uint32(i))
		borders = append(borders, z.lo)
		if z.hi < math.MaxUint64 {
			borders = append(borders, z.hi+1)
		}
	}
	slices.SortStableFunc(byLo, func(a, b uint32) int {
		if zones[a].lo < zones[b].lo {
			return -1
		} else if zones[a].lo > zones[b].lo {
			return 1
		}
		return 0
	})
	slices.Sort(borders)
	borders = slices.Compact(borders)
	for step := 1; ; step *= 2 {
		x := &intervals{from: []uint32{0}}
		for i := 0; i < len(borders); i += step {
			x.starts = append(x.starts, borders[i])
		}
		if x.fill(zones, byLo) || len(x.starts) == 1 {
			x.makeGuesses()
			return x
		}
	}
}

// fill makes the lists; false if they would become too long.
func (x *intervals) fill(zones []zone, byLo []uint32) bool {
	var active []uint32
	for i, start := range x.starts {
		last := uint64(math.MaxUint64)
		if i+1 < len(x.starts) {
			last = x.starts[i+1] - 1
		}
		active = slices.DeleteFunc(active, func(z uint32) bool { return zones[z].hi < start })
		for len(byLo) > 0 && zones[byLo[0]].lo <= last {
			active = append(active, byLo[0])
			byLo = byLo[1:]
		}
		x.items = append(x.items, active...)
		x.from = append(x.from, uint32(len(x.items)))
		if len(x.items) > maxIntervalItems && len(x.starts) > 1 {
			return false
		}
	}
	return true
}

// maxGuesses bounds guess; there are 32 or more for an interval, so that a search, whose
// need the processor cannot foresee, is rare.
const maxGuesses = 1 << 14

func (x *intervals) makeGuesses() {
	if len(x.starts) < 2 {
		return
	}
	base, span := x.starts[1], x.starts[len(x.starts)-1]-x.starts[1]
	want := min(32*len(x.starts), maxGuesses)
	x.shift = uint(max(0, bits.Len64(span)-bits.Len(uint(want))+1))
	at := 1
	for b := uint64(0); b <= span>>x.shift; b++ {
		for at+1 < len(x.starts) && x.starts[at+1]-base <= b<<x.shift {
			at++
		}
		x.guess = append(x.guess, uint32(at))
	}
	x.guess = append(x.guess, uint32(len(x.starts)-1))
}

// find returns the interval of a head.
func (x *intervals) find(head uint64) int {
	if len(x.starts) < 2 || head < x.starts[1] {
		return 0
	}
	b := (head - x.starts[1]) >> x.shift
	if b >= uint64(len(x.guess))-1 {
		return len(x.starts) - 1
	}
	at, last := int(x.guess[b]), int(x.guess[b+1])
	if at == last {
		return at
	}
	return x.search(head, at, last)
}

// search returns the interval of a head that is in one of from to last, without a
// branch that depends on the head.
func (x *intervals) search(head uint64, at, last int) int {
	starts := x.starts
	for n := last - at + 1; n > 1; {
		half := n / 2
		_, below := bits.Sub64(head, starts[at+half], 0)
		at += half & (int(below) - 1)
		n -= half
	}
	return at
}

// list returns the zones of interval i.
func (x *intervals) list(i int) []uint32 { return x.items[x.from[i]:x.from[i+1]] }

// end returns the last head of interval i.
func (x *intervals) end(i int) uint64 {
	if i+1 < len(x.starts) {
		return x.starts[i+1] - 1
	}
	return math.MaxUint64
}
