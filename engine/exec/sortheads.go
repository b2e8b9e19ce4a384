package exec

import (
	"cmp"
	"slices"
)

// fewHeads are sorted by comparisons: to count bytes takes longer than that.
const fewHeads = 128

// sortHeads sorts by heads, those that are equal in any order. It needs as much memory again, which
// it returns for the next time. Before each pass over the rows it asks whether the work has ended.
//
// It is a radix sort from the lowest byte up, of those bytes alone that are not the same in all
// heads. Why: integers up to a million take three passes, whatever their number is, and comparisons
// of 2,500 of them twice as long.
func sortHeads(list, other []placed, ended func() error) (sorted, spare []placed, err error) {
	if len(list) < fewHeads {
		slices.SortFunc(list, func(a, b placed) int { return cmp.Compare(a.head, b.head) })
		return list, other, nil
	}
	var differ uint64
	ordered := true
	for i := 1; i < len(list); i++ {
		differ |= list[i].head ^ list[0].head
		ordered = ordered && list[i-1].head <= list[i].head
	}
	if ordered {
		return list, other, nil
	}
	other = slices.Grow(other[:0], len(list))[:len(list)]
	for shift := 0; shift < 64; shift += 8 {
		if differ>>shift&0xff == 0 {
			continue
		}
		if err := ended(); err != nil {
			return list, other, err
		}
		var ends [256]int
		for i := range list {
			ends[byte(list[i].head>>shift)]++
		}
		at := 0
		for b, n := range ends {
			ends[b] = at
			at += n
		}
		for i := range list {
			end := &ends[byte(list[i].head>>shift)]
			other[*end] = list[i]
			*end++
		}
		list, other = other, list
	}
	return list, other, nil
}
