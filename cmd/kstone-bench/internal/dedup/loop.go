package dedup

import (
	"slices"

	"github.com/FastFilter/xorfilter"
)

// loop is the obvious way: one segment after the other, zone map first, then the filter
// of the library.
type loop []loopSegment

type loopSegment struct {
	zone
	filter xorfilter.BinaryFuse[uint8]
}

type zone struct{ min, max uint64 }

func zoneOf(keys []uint64) zone { return zone{slices.Min(keys), slices.Max(keys)} }

func newLoop(b *xorfilter.BinaryFuseBuilder, sets [][]uint64) (loop, error) {
	var l loop
	for _, keys := range sets {
		// The builder may change the order of the keys it is given.
		f, err := xorfilter.BuildBinaryFuse[uint8](b, slices.Clone(keys))
		if err != nil {
			return nil, err
		}
		f.Fingerprints = slices.Clone(f.Fingerprints)
		l = append(l, loopSegment{zoneOf(keys), f})
	}
	return l, nil
}

func (l loop) contains(key uint64) bool {
	for i := range l {
		s := &l[i]
		if key >= s.min && key <= s.max && s.filter.Contains(key) {
			return true
		}
	}
	return false
}

// blockLoop is the obvious way with a filter for each block: a binary search over the
// zone maps of each segment.
type blockLoop []loop

// newBlockLoop sorts each segment before it is cut into blocks.
func newBlockLoop(b *xorfilter.BinaryFuseBuilder, sets [][]uint64, blockKeys int,
) (blockLoop, error) {
	var l blockLoop
	for _, keys := range sets {
		sorted := slices.Sorted(slices.Values(keys))
		blocks, err := newLoop(b, slices.Collect(slices.Chunk(sorted, blockKeys)))
		if err != nil {
			return nil, err
		}
		l = append(l, blocks)
	}
	return l, nil
}

func (l blockLoop) contains(key uint64) bool {
	for _, blocks := range l {
		i, end := 0, len(blocks)
		for i < end { // by hand: sort.Search calls a function for each step
			if mid := int(uint(i+end) >> 1); blocks[mid].max < key {
				i = mid + 1
			} else {
				end = mid
			}
		}
		if i < len(blocks) && key >= blocks[i].min && blocks[i].filter.Contains(key) {
			return true
		}
	}
	return false
}
