package sst

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// guideBlocks is how many blocks with equal heads it takes for a guide to be worth it.
const guideBlocks = 4

// guide leads a search among blocks whose heads in the index are equal: what their last keys
// have in common is skipped, and the eight bytes after it are compared. It is made when
// an index is opened. Why: a file with several partitions has a short prefix or none, and
// then eight bytes hardly tell more than the partition; a search would compare whole keys,
// each in a place of its own.
type guide struct {
	from, to int    // the blocks
	shared   []byte // what their last keys begin with, after the prefix of the file
}

// makeGuides makes the guides of an index. It leaves out blocks whose records are damaged
// or not in order: searches meet them as they are.
func (x *indexBlock) makeGuides() {
	for from := 0; from < x.n; {
		to := from + 1
		for to < x.n && x.head(to) == x.head(from) {
			to++
		}
		if to-from >= guideBlocks {
			x.makeGuide(from, to)
		}
		from = to
	}
}

func (x *indexBlock) makeGuide(from, to int) {
	first, ok1 := x.lastSuffix(from)
	last, ok2 := x.lastSuffix(to - 1)
	if !ok1 || !ok2 {
		return
	}
	shared := first[:commonPrefix(first, last)]
	if x.tails == nil {
		x.tails = make([]uint64, x.n)
	}
	for i := from; i < to; i++ {
		last, ok := x.lastSuffix(i)
		if !ok || !bytes.HasPrefix(last, shared) {
			return
		}
		x.tails[i] = base.KeyHead(last[len(shared):])
		if i > from && x.tails[i] < x.tails[i-1] {
			return
		}
	}
	x.guides = append(x.guides, guide{from, to, shared})
}

// guideAt returns the guide of the blocks from number from on, or nil.
func (x *indexBlock) guideAt(from int) *guide {
	lo, hi := 0, len(x.guides)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if x.guides[mid].from < from {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(x.guides) || x.guides[lo].from != from {
		return nil
	}
	return &x.guides[lo]
}

// narrow returns which of the blocks of a guide, which are all that have the head of suffix,
// a search for it has to look at: the first whose last key is at or after suffix is one of
// them, or the one that follows them.
func (x *indexBlock) narrow(g *guide, suffix []byte) (int, int) {
	lo, hi, shared := g.from, g.to, g.shared
	switch c := bytes.Compare(suffix[:min(len(suffix), len(shared))], shared); {
	case c < 0:
		return lo, lo
	case c > 0:
		return hi, hi
	}
	tail := base.KeyHead(suffix[len(shared):])
	n, found := slices.BinarySearch(x.tails[lo:hi], tail)
	first := lo + n
	if !found {
		return first, first
	}
	end := first + 1
	if end < hi && x.tails[end] == tail {
		if end = hi; tail != 1<<64-1 {
			n, _ = slices.BinarySearch(x.tails[first:hi], tail+1)
			end = first + n
		}
	}
	return first, end
}
