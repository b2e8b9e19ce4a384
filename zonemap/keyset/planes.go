package keyset

import (
	"unsafe"

	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/mapping"
)

// planes are the first planes of overlapping filters, interleaved: one question reads
// three rows, each with a byte of every filter, where it would read three bytes of
// every filter in turn. They are derived from the filters of a view, and gone when the
// segments change.
//
// Filters can be interleaved if they have the same shape and the same seed, because
// then a key has the same positions in all.
type planes struct {
	groups []planeGroup
	rest   *intervals // of the candidates, and shards, that are in no group

	// Batches of orderLeast keys are put in order of so many bits of their hashes; 0 if
	// that is never worth it.
	orderBits  uint
	orderLeast int
	orderMost  int // so many keys are put in order together
}

// maxLanes is the widest row.
const maxLanes = 16

// A planeGroup is up to maxLanes interleaved filters. The byte of row r and lane l is
// rows[r*width+l]; shards follow one another. A row is read as its first eight bytes and,
// if it has more, its last eight.
type planeGroup struct {
	rows      []byte
	width     int // 2, 4, or 8 to 16
	slots     int // of a filter
	shape     fuse.Shape
	shardBits uint
	lanes     []uint32 // the candidates
	twoPlanes bool     // a lane at least has a second plane
	core      zone     // inside of all zones; lo > hi if there is no such
	index     *intervals
	masks     [][2]uint64 // lanes by interval of index
	all       [2]uint64   // all lanes

	// Shards whose filter has another salt than the others: their lanes are empty, and
	// the candidates are asked by themselves. Both nil if there are none.
	shardMasks [][2]uint64
	alone      [][]uint32
}

// laneBit is the flag of a lane in a pair of words, which are about the first and the last
// eight lanes; a lane that is in both counts in the first.
func (g *planeGroup) laneBit(l int) (word int, bit uint64) {
	if l < 8 {
		return 0, 0x80 << (8 * l)
	}
	return 1, 0x80 << (8 * (l - g.tail()))
}

// tail is where the last eight bytes of a row begin. Requires: it is that wide.
func (g *planeGroup) tail() int { return g.width - 8 }

// shared is what filters must have in common to be interleaved.
type shared struct {
	shape     fuse.Shape
	shardBits uint
}

// groupable returns what c shares with others of its group; ok is false if it cannot be
// interleaved.
func (c *candidate) groupable(seed uint64) (shared, bool) {
	switch {
	case c.kind != partFuse || c.segment.blocked || c.segment.data == nil:
		return shared{}, false
	case c.shardBits == 0:
		return shared{c.shape, 0}, c.seed == seed
	}
	var s shared
	for i := range c.segment.parts {
		p := &c.segment.parts[i]
		switch {
		case p.kind == partEmpty:
		case s.shape == fuse.Shape{}:
			s = shared{p.shape, c.shardBits}
		case s.shape != p.shape:
			return shared{}, false
		}
	}
	return s, s.shape != fuse.Shape{}
}

// grouping returns the candidates of each group that is worth its memory.
func (v *view) grouping(budget int64) [][]uint32 {
	by := map[shared][]uint32{}
	var order []shared
	for i := range v.candidates {
		if s, ok := v.candidates[i].groupable(v.seed); ok {
			if by[s] == nil {
				order = append(order, s)
			}
			by[s] = append(by[s], uint32(i))
		}
	}
	var groups [][]uint32
	for _, s := range order {
		for rest := by[s]; len(rest) > 1; {
			left := (len(rest) + maxLanes - 1) / maxLanes // groups, about equally wide
			n := (len(rest) + left - 1) / left
			size := int64(s.shape.Slots()) << s.shardBits * int64(rowWidth(n))
			if size > budget {
				break
			}
			budget -= size
			groups = append(groups, rest[:n])
			rest = rest[n:]
		}
	}
	return groups
}

func rowWidth(lanes int) int {
	switch {
	case lanes <= 2:
		return 2
	case lanes <= 4:
		return 4
	}
	return max(8, lanes)
}

// planesWorth returns after how many keys planes have paid for being made, about: a
// row is written per slot, three are saved per key and overlapping filter. 0 is never:
// where zones hardly overlap a key has one filter to ask anyway.
func (v *view) planesWorth(opts *SetOptions) int64 {
	if v.overlap() < 1.5 {
		return 0
	}
	rows := int64(0)
	for _, g := range v.grouping(opts.MemoryBytes) {
		c := &v.candidates[g[0]]
		s, _ := c.groupable(v.seed)
		rows += int64(s.shape.Slots()) << s.shardBits
	}
	return rows / 4
}

// overlap estimates how many zones a stored key lies in, taking keys as evenly spread
// over their zones.
func (v *view) overlap() float64 {
	var keys, times float64
	x := v.index
	for i := range x.starts {
		width := float64(x.end(i)-x.starts[i]) + 1
		list := x.list(i)
		for _, at := range list {
			c := &v.candidates[at]
			n := float64(c.segment.keys)
			if c.part != nil {
				n = float64(c.part.keys)
			}
			n *= min(1, width/(float64(c.zone.hi-c.zone.lo)+1))
			keys += n
			times += n * float64(len(list))
		}
	}
	return times / max(keys, 1)
}

// interleave makes the planes of v, unless they exist or are not worth it. Requires: the
// mutex of the Set is held.
func (v *view) interleave(opts *SetOptions) {
	if v.worth == 0 || v.planes.Load() != nil {
		return
	}
	pl := &planes{}
	inGroup := make([]bool, len(v.candidates))
	for _, lanes := range v.grouping(opts.MemoryBytes) {
		pl.groups = append(pl.groups, v.newGroup(lanes))
		for _, at := range lanes {
			inGroup[at] = true
		}
	}
	pl.rest = v.findSoles(newIntervals(v.zones, func(i int) bool { return !inGroup[i] }))
	pl.orderFor()
	v.planes.Store(pl)
}

func (v *view) newGroup(lanes []uint32) planeGroup {
	s, _ := v.candidates[lanes[0]].groupable(v.seed)
	g := planeGroup{width: rowWidth(len(lanes)), slots: s.shape.Slots(), shape: s.shape,
		shardBits: s.shardBits, lanes: lanes, core: v.zones[lanes[0]]}
	g.rows = make([]byte, g.slots<<s.shardBits*g.width)
	mapping.AdviseHuge(g.rows)
	chosen := map[uint32]int{}
	for l, at := range lanes {
		chosen[at] = l
		z := v.zones[at]
		g.core = zone{max(g.core.lo, z.lo), min(g.core.hi, z.hi)}
		w, bit := g.laneBit(l)
		g.all[w] |= bit
		g.twoPlanes = g.twoPlanes || v.candidates[at].twoPlanes
	}
	g.index = newIntervals(v.zones, func(i int) bool { _, ok := chosen[uint32(i)]; return ok })
	for i := range g.index.starts {
		var mask [2]uint64
		for _, at := range g.index.list(i) {
			w, bit := g.laneBit(chosen[at])
			mask[w] |= bit
		}
		g.masks = append(g.masks, mask)
	}
	for shard := range 1 << s.shardBits {
		g.weave(v, shard)
	}
	return g
}

// weave fills the rows of one shard, some thousand at a time, so that they stay in the
// cache until all lanes have been written.
func (g *planeGroup) weave(v *view, shard int) {
	const stretch = 4096
	var tables [maxLanes][]byte
	for l, at := range g.lanes {
		c := &v.candidates[at]
		p := &c.segment.parts[shard]
		if p.kind == partEmpty {
			g.leaveOut(shard, l)
			continue
		}
		if p.salt != 0 {
			g.leaveOut(shard, l)
			g.alone[shard] = append(g.alone[shard], at)
			continue
		}
		tables[l] = unsafe.Slice(p.tablePtr.Load(), g.slots)
	}
	rows := g.rows[shard*g.slots*g.width:][:g.slots*g.width]
	for from := 0; from < g.slots; from += stretch {
		to := min(from+stretch, g.slots)
		for l, t := range tables[:len(g.lanes)] {
			if t == nil {
				continue
			}
			out := rows[from*g.width+l:]
			for i, b := range t[from:to] {
				out[i*g.width] = b
			}
		}
	}
}

// leaveOut takes a lane of a shard out of the answers.
func (g *planeGroup) leaveOut(shard, l int) {
	if g.shardMasks == nil {
		g.shardMasks = make([][2]uint64, 1<<g.shardBits)
		for i := range g.shardMasks {
			g.shardMasks[i] = g.all
		}
		g.alone = make([][]uint32, 1<<g.shardBits)
	}
	w, bit := g.laneBit(l)
	g.shardMasks[shard][w] &^= bit
}
