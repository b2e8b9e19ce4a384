package memtable

import (
	"math/bits"
	"slices"
)

const (
	// radixLeast is the number of items from which on distributing them pays.
	radixLeast = 64
	// radixBits is how much of the prefix the distribution looks at, in passes of 8.
	radixBits = 24
)

// sortItems sorts the items by compare, which must order by prefix first, and returns
// them; they may have moved to another array.
//
// It distributes them by the highest bits in which their prefixes differ, least
// significant byte first, and leaves to comparisons what is still equal then. Keys that
// are spread evenly need next to none, which is several times as fast; keys that are not
// cost the three passes more.
func sortItems(items []item, compare func(a, b item) int) []item {
	if len(items) < radixLeast {
		slices.SortFunc(items, compare)
		return items
	}
	differ := uint64(0)
	ascending := true
	for i := 1; i < len(items); i++ {
		differ |= items[i].prefix ^ items[0].prefix
		ascending = ascending && items[i-1].prefix <= items[i].prefix
	}
	shift := max(0, bits.Len64(differ)-radixBits)
	if !ascending {
		from, to := items, make([]item, len(items))
		for s := shift; s < shift+radixBits; s += 8 {
			distribute(from, to, s)
			from, to = to, from
		}
		items = from
	}
	for lo := 0; lo < len(items); {
		hi := lo + 1
		for hi < len(items) && items[hi].prefix>>shift == items[lo].prefix>>shift {
			hi++
		}
		if hi-lo > 1 {
			slices.SortFunc(items[lo:hi], compare)
		}
		lo = hi
	}
	return items
}

// distribute copies from to to, stably ordered by the 8 bits of the prefix from shift on.
func distribute(from, to []item, shift int) {
	var at [256]int32
	for i := range from {
		at[from[i].prefix>>shift&255]++
	}
	sum := int32(0)
	for i, n := range at {
		at[i] = sum
		sum += n
	}
	for i := range from {
		b := from[i].prefix >> shift & 255
		to[at[b]] = from[i]
		at[b]++
	}
}
