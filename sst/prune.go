package sst

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// # Pruning
//
// The index has a zone map of each data block, so a reading that wants only some versions knows
// blocks without any before it reads them.
//
// The naive way: leave out each block whose zone map rules out what is wanted.
//
// Why it fails: a version hides the older ones of its key, whether it is wanted or not. The
// block with k@9, which has expired, is left out; a block of an older run shows k@4, which has
// not, and was overwritten. A tombstone is never wanted, and hides as well.
//
// The way taken: a block is left out only if nothing beneath its keys is wanted either. Then
// what its absence uncovers is not wanted, and the caller, which has to look at each row
// anyway, drops it as it drops the others.
//
// Invariant: a block of a run is pruned only if no wanted version lies in it, in an older run
// between its first and its last key, or in the next block under its last key. Hence every row
// that a pruned reading shows is the newest visible version of its key, or is not wanted; and
// every key whose newest visible version is wanted is shown with it.
//
// Proof of the second half: the block of a wanted version is never pruned, and what is newer and
// visible does not exist. Of the first: a row that is not the newest was uncovered by a
// pruned block. Older sources have nothing wanted there, and of the same run only the next
// block continues a key.
//
// Each block is judged by itself, so reading one that could be left out is always right: zone
// maps that cannot be decoded, and indexes that cannot be read, count as wanted. Range tombstones
// are no part of blocks, and act whatever is pruned.

// Pruner knows what a reading wants. While the reading lasts that may become less, never more: what
// a pruned block uncovers is not wanted then, and still is not when it is shown.
type Pruner interface {
	// Unwanted reports that no version in a zone is wanted. The keys of the map are not set.
	Unwanted(z *zonemap.Map, columns zone.Columns) bool
	// Beneath reports whether the sources older than the file may have a wanted version of a key
	// from first to last, both inclusive.
	Beneath(first, last []byte) bool
	// Count takes note of blocks that were read, and of those that were not.
	Count(read, skipped int)
}

// Prune makes the cursor leave out blocks, see Pruner. Call it after InitCursor, for a file that is
// wanted as a whole: its only block is not tested again.
func (c *Cursor) Prune(p Pruner) { c.pruner = p }

// keptFrom returns the first block from i on, in the direction, that is not pruned: the number of
// blocks or -1 without one.
func (c *Cursor) keptFrom(i int, reverse bool) int {
	if c.pruner == nil || c.t.blocks == 1 {
		return i
	}
	step := stepOf(reverse)
	from := i
	if s := c.route.from(i, reverse); s != nil {
		i = int(s.block)
	} else {
		for i >= 0 && i < c.t.blocks && c.pruned(i) {
			i += step
		}
	}
	if n := (i - from) * step; n > 0 {
		c.r.stats.prunedBlocks.Add(uint64(n))
		c.pruner.Count(0, n)
	}
	return i
}

// pruned reports whether block i can be left out.
func (c *Cursor) pruned(i int) bool {
	x, err := c.r.partOf(c.t, c.x, i)
	if err != nil {
		return false
	}
	c.x = x
	z := &c.zone
	var collected []byte
	if *z, collected, err = x.zone(i); err != nil {
		return false
	}
	first, last := z.First, z.Last
	z.First, z.Last = nil, nil
	if !c.pruner.Unwanted(z, c.t.props.columnsOf(collected)) {
		return false
	}
	p := x.prefix()
	c.bounds = append(append(c.bounds[:0], p...), first...)
	n := len(c.bounds)
	c.bounds = append(append(c.bounds, p...), last...)
	if i+1 < c.t.blocks {
		y, err := c.r.partOf(c.t, x, i+1)
		if err != nil {
			return false
		}
		next, _, err := y.zone(i + 1)
		if err != nil || sameKey(c.bounds[n:], y.prefix(), next.First) {
			return false
		}
	}
	return !c.pruner.Beneath(c.bounds[:n:n], c.bounds[n:])
}

// Wanted reports whether a block may have a version that p wants of a key from first to last,
// both inclusive. It reads the index and no data.
func (r *Reader) Wanted(first, last []byte, p Pruner) bool {
	t, err := r.loadTail()
	if err != nil {
		return true
	}
	x, i, err := r.find(t, first, base.MaxSeqNum)
	if err != nil {
		return true
	}
	for ; i < t.blocks; i++ {
		if x, err = r.partOf(t, x, i); err != nil {
			return true
		}
		z, collected, err := x.zone(i)
		if err != nil {
			return true
		}
		if afterKey(x.prefix(), z.First, last) {
			return false
		}
		z.First, z.Last = nil, nil
		if !p.Unwanted(&z, t.props.columnsOf(collected)) {
			return true
		}
	}
	return false
}

// afterKey reports whether prefix and suffix together come after key.
func afterKey(prefix, suffix, key []byte) bool {
	if bytes.HasPrefix(key, prefix) {
		return bytes.Compare(suffix, key[len(prefix):]) > 0
	}
	return bytes.Compare(prefix, key) > 0
}

// sameKey reports whether prefix and suffix together are key.
func sameKey(key, prefix, suffix []byte) bool {
	return len(key) == len(prefix)+len(suffix) && bytes.HasSuffix(key, suffix) &&
		bytes.HasPrefix(key, prefix)
}

// CountPruned counts a file that a reading has left out, and returns how many blocks it has, 0 if
// the file was not looked at.
func (r *Reader) CountPruned() int {
	r.stats.prunedFiles.Add(1)
	if t := r.tail.Peek(); t != nil {
		return (*t).blocks
	}
	return 0
}

// SamplePruned tests blocks with keys from lower on and below upper, a nil upper being no bound:
// about most of them, evenly spread. It returns how many a reading with p would leave out, and how
// many it has tested. It reads the index and no data.
func (r *Reader) SamplePruned(lower, upper []byte, p Pruner, most int) (pruned, tested int,
	err error) {
	from, to, err := r.BlocksBetween(lower, upper)
	if err != nil {
		return 0, 0, err
	}
	t, err := r.loadTail()
	if err != nil {
		return 0, 0, err
	}
	to = min(to+1, t.blocks) // the block of upper
	c := Cursor{r: r, t: t, pruner: p}
	step := max(1, (to-from)/most)
	for i := from + step/2; i < to; i += step {
		tested++
		if c.pruned(i) {
			pruned++
		}
	}
	return pruned, tested, nil
}
