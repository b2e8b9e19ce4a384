package sst

import (
	"slices"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// # Parts of an index
//
// The index of a file with many data blocks is in parts: each has the records of a fixed number of
// neighbouring data blocks, and a filter over their keys. An index of the parts stays with the
// tail, and leads to the one part that a lookup needs. Why: in a database whose indexes and filters
// exceed the cache, a lookup that finds neither there reads a few KiB, not those of the whole file.
//
// A file with an index of its own, which is small or old, has one part, and no index of parts.

// openParts makes places for the parts of the index. Top is the decoded index of parts, of a file
// that has one. Errors have no file name.
func (t *tail) openParts(top []byte) error {
	p := t.props
	t.partBlocks, t.partRanks = max(1, t.blocks), []uint32{0, uint32(p.zone.Entries)}
	n := 1
	if t.footer.partBlocks > 0 {
		t.partBlocks = int(t.footer.partBlocks)
		n = (t.blocks + t.partBlocks - 1) / t.partBlocks
		var err error
		if t.top, err = openIndex(top); err != nil {
			return err
		}
		if t.top.n != n {
			return corrupt.New("", 0, "index", n, t.top.n)
		}
		t.partRanks = t.top.entriesBefore(0, p.zone.Entries)
	} else if p.zone.Entries > maxRank {
		t.partRanks = nil
	}
	t.parts = make([]cache.Slot[indexBlock], n)
	t.ownFilters = len(p.partitions) == n
	for i, f := range p.partitions {
		t.ownFilters = t.ownFilters && f.firstBlock == uint64(i*t.partBlocks)
	}
	return nil
}

// part returns a part of the index, from the cache or the file.
func (r *Reader) part(t *tail, p int) (*indexBlock, error) {
	if x := t.parts[p].Get(); x != nil {
		return x, nil
	}
	x, err := r.readPart(t, p)
	if err != nil {
		return nil, err
	}
	x.slots, x.group = make([]cache.Slot[dataBlock], x.n), t.group.Part()
	return cache.InsertRoot(t.group, &t.parts[p], x, x.sizeBytes(), metaWeight, x.group), nil
}

// partHandle returns the place of a part of the index.
func (t *tail) partHandle(p int) blockHandle {
	if t.footer.partBlocks == 0 {
		return t.footer.index
	}
	return t.top.handle(p)
}

func (r *Reader) readPart(t *tail, p int) (indexBlock, error) {
	h := t.partHandle(p)
	raw, err := r.readBlock(h, maxRawBytes, "index")
	if err != nil {
		return indexBlock{}, err
	}
	x, err := openIndex(raw)
	if err != nil {
		return x, r.named(err, h.off)
	}
	x.first = p * t.partBlocks
	if n := min(t.partBlocks, t.blocks-x.first); x.n != n {
		return x, corrupt.New(r.path, int64(h.off), "index", n, x.n)
	}
	x.ranks = &ranks{}
	return x, nil
}

// partOf returns the part of the index that has the record of a data block: x, which may be nil,
// if it does.
func (r *Reader) partOf(t *tail, x *indexBlock, block int) (*indexBlock, error) {
	if x != nil && block >= x.first && block < x.end() {
		return x, nil
	}
	return r.part(t, block/t.partBlocks)
}

// partFor returns the part of the index that leads to the block that decides about key at snap, the
// number of parts if there is no such block. Of the only part it says so even then.
func (r *Reader) partFor(t *tail, key []byte, snap base.SeqNum) (int, error) {
	if len(t.parts) == 1 {
		return 0, nil
	}
	p, ok := t.top.find(key, snap)
	if !ok {
		off := int64(t.footer.index.off)
		return 0, corrupt.New(r.path, off, "index", "a whole record", p)
	}
	return p, nil
}

// find returns the data block that decides about key at snap, with its part of the index; the
// number of blocks if no block does.
func (r *Reader) find(t *tail, key []byte, snap base.SeqNum) (*indexBlock, int, error) {
	p, err := r.partFor(t, key, snap)
	if err != nil || p == len(t.parts) {
		return nil, t.blocks, err
	}
	x, err := r.part(t, p)
	if err != nil {
		return nil, 0, err
	}
	i, err := r.findIn(t, x, key, snap)
	return x, i, err
}

// findIn is find in the part that partFor leads to.
func (r *Reader) findIn(t *tail, x *indexBlock, key []byte, snap base.SeqNum) (int, error) {
	i, ok := x.find(key, snap)
	if !ok || i == x.end() && i < t.blocks {
		return 0, r.damagedIndex(t, i)
	}
	return i, nil
}

// maxRank is the most entries of a file whose ranks are known.
const maxRank = 1 << 31

// ranks are how many entries of a file come before each block of a part of its index, and after
// the last.
type ranks struct {
	list atomic.Pointer[[]uint32] // nil: not computed yet
}

// entriesBefore returns how many entries come before each record of an index, and after the last,
// if that many come before the first and the one after the last; nil if the records say otherwise.
func (x *indexBlock) entriesBefore(from, to uint64) []uint32 {
	list, sum := make([]uint32, x.n+1), from
	for i := range x.n {
		list[i] = uint32(sum)
		z, _, err := x.zone(x.first + i)
		if sum += z.Entries; err != nil || sum > maxRank {
			return nil
		}
	}
	if list[x.n] = uint32(sum); sum != to {
		return nil
	}
	return list
}

// ranksOf returns the ranks of a part, which are computed once; nil if the index does not say.
func (t *tail) ranksOf(x *indexBlock) []uint32 {
	if list := x.ranks.list.Load(); list != nil {
		return *list
	}
	if t.partRanks == nil {
		return nil
	}
	p := x.first / t.partBlocks
	list := x.entriesBefore(uint64(t.partRanks[p]), uint64(t.partRanks[p+1]))
	if list != nil {
		x.ranks.list.Store(&list)
	}
	return list
}

// rankOf returns how many entries come before a block, or all for the number of blocks. x, which
// may be nil, is the likely part of the index. Requires: partRanks are known.
func (r *Reader) rankOf(t *tail, x *indexBlock, block int) (int64, error) {
	if block == t.blocks || block%t.partBlocks == 0 {
		return int64(t.partRanks[(block+t.partBlocks-1)/t.partBlocks]), nil
	}
	x, err := r.partOf(t, x, block)
	if err != nil {
		return 0, err
	}
	list := t.ranksOf(x)
	if list == nil {
		return 0, r.damagedIndex(t, block)
	}
	return int64(list[block-x.first]), nil
}

// blockAt returns the block with the entry before which that many come, and how many of these are
// in blocks before it. Requires: partRanks are known, and there is such an entry.
func (r *Reader) blockAt(t *tail, rank int64) (x *indexBlock, block int, before int64, err error) {
	at := func(list []uint32) int {
		i, found := slices.BinarySearch(list[:len(list)-1], uint32(rank))
		if !found {
			i--
		}
		return i
	}
	if x, err = r.part(t, at(t.partRanks)); err != nil {
		return nil, 0, 0, err
	}
	list := t.ranksOf(x)
	if list == nil {
		return nil, 0, 0, r.damagedIndex(t, x.first)
	}
	i := at(list)
	return x, x.first + i, int64(list[i]), nil
}
