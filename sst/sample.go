package sst

import (
	"github.com/kstonedb/kstone/internal/base"
)

// BlocksBetween returns which data blocks, [from, to), have a last key at or above lower
// and below upper; a nil upper is no bound. It reads the index, never a data block.
func (r *Reader) BlocksBetween(lower, upper []byte) (from, to int, err error) {
	t, err := r.loadTail()
	if err != nil {
		return 0, 0, err
	}
	to = t.blocks
	if _, from, err = r.find(t, lower, base.MaxSeqNum); err == nil && upper != nil {
		_, to, err = r.find(t, upper, base.MaxSeqNum)
	}
	return from, max(from, to), err
}

// AppendLastKey appends the last key of a data block. Requires: there is such a block.
func (r *Reader) AppendLastKey(dst []byte, block int) ([]byte, error) {
	t, err := r.loadTail()
	if err != nil {
		return dst, err
	}
	x, err := r.partOf(t, nil, block)
	if err != nil {
		return dst, err
	}
	last, ok := x.lastSuffix(block)
	if !ok {
		return dst, r.damagedIndex(t, block)
	}
	return append(append(dst, x.prefix()...), last...), nil
}

// CountBetween estimates how many entries are between two keys, a nil upper being no bound, by the
// numbers of entries of the blocks that BlocksBetween returns. block is the number in the block of
// lower: by about as much the estimate may be wrong.
func (r *Reader) CountBetween(lower, upper []byte) (n, block float64, err error) {
	from, to, err := r.BlocksBetween(lower, upper)
	if err != nil {
		return 0, 0, err
	}
	t, err := r.loadTail()
	switch {
	case err != nil:
		return 0, 0, err
	case t.partRanks == nil:
		return 0, 0, r.damagedIndex(t, from)
	case from == t.blocks:
		return 0, 0, nil
	}
	var ranks [3]int64
	for i, block := range []int{from, from + 1, to} {
		if ranks[i], err = r.rankOf(t, nil, block); err != nil {
			return 0, 0, err
		}
	}
	return float64(ranks[2] - ranks[0]), float64(ranks[1] - ranks[0]), nil
}
