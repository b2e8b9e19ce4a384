package keyset

import "slices"

// A radixSorter sorts integers; it keeps its second buffer.
type radixSorter struct {
	buf    []uint64
	counts [8][256]uint32
}

// sorted sorts keys, in place or into a buffer of its own, and returns the result.
func (r *radixSorter) sorted(keys []uint64) []uint64 {
	if slices.IsSorted(keys) {
		return keys
	}
	if len(keys) < 4096 {
		slices.Sort(keys)
		return keys
	}
	r.counts = [8][256]uint32{}
	for _, k := range keys {
		for d := range r.counts {
			r.counts[d][byte(k>>(8*d))]++
		}
	}
	r.buf = slices.Grow(r.buf[:0], len(keys))[:len(keys)]
	from, to := keys, r.buf
	for d := range r.counts {
		counts := &r.counts[d]
		if counts[byte(keys[0]>>(8*d))] == uint32(len(keys)) {
			continue // all keys have the same digit
		}
		next := uint32(0)
		for i, c := range counts {
			counts[i] = next
			next += c
		}
		for _, k := range from {
			digit := byte(k >> (8 * d))
			at := counts[digit]
			counts[digit] = at + 1
			to[at] = k
		}
		from, to = to, from
	}
	return from
}
