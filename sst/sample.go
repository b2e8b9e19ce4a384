package sst

import (
	"github.com/kstonedb/kstone/internal/base"
)

// BlocksBetween returns which data blocks, [from, to), have a last key at or above lower
// and below upper; a nil upper is no bound. It reads the index, never a data block.
func (r *Reader) BlocksBetween(lower, upper []byte) (from, to int, err error) {
	t, x, err := r.tailIndex()
	if err != nil {
		return 0, 0, err
	}
	to = x.n
	from, ok := x.find(lower, base.MaxSeqNum)
	if ok && upper != nil {
		to, ok = x.find(upper, base.MaxSeqNum)
	}
	if !ok {
		return 0, 0, r.damagedIndex(t, from)
	}
	return from, max(from, to), nil
}

// AppendLastKey appends the last key of a data block. Requires: there is such a block.
func (r *Reader) AppendLastKey(dst []byte, block int) ([]byte, error) {
	t, x, err := r.tailIndex()
	if err != nil {
		return dst, err
	}
	last, ok := x.lastSuffix(block)
	if !ok {
		return dst, r.damagedIndex(t, block)
	}
	return append(append(dst, x.prefix()...), last...), nil
}

func (r *Reader) tailIndex() (*tail, *indexBlock, error) {
	t, err := r.loadTail()
	if err != nil {
		return nil, nil, err
	}
	x, err := r.index(t)
	return t, x, err
}

// CountBetween estimates how many entries are between two keys, a nil upper being no bound, by the
// numbers of entries of the blocks that BlocksBetween returns. block is the number in the block of
// lower: by about as much the estimate may be wrong.
func (r *Reader) CountBetween(lower, upper []byte) (n, block float64, err error) {
	from, to, err := r.BlocksBetween(lower, upper)
	if err != nil {
		return 0, 0, err
	}
	t, x, ranks, err := r.entryRanks()
	switch {
	case err != nil:
		return 0, 0, err
	case ranks == nil:
		return 0, 0, r.damagedIndex(t, from)
	case from == x.n:
		return 0, 0, nil
	}
	return float64(ranks[to] - ranks[from]), float64(ranks[from+1] - ranks[from]), nil
}
