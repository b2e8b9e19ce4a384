package keyset

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// zeros flags the bytes of x that are zero with 0x80.
func zeros(x uint64) uint64 {
	const low7 = 0x7f7f7f7f7f7f7f7f
	return ^((x&low7 + low7) | x | low7)
}

// every has f in each byte.
func every(f byte) uint64 { return uint64(f) * 0x0101010101010101 }

// ask asks all groups about the keys of the batch, whose heads are in [lo, hi].
func (pl *planes) ask(sc *scratch, lo, hi uint64) error {
	for i := range pl.groups {
		g := &pl.groups[i]
		if first := g.index.find(lo); first == g.index.find(hi) && g.masks[first] == [2]uint64{} {
			continue
		}
		if err := g.ask(sc, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

func (g *planeGroup) ask(sc *scratch, lo, hi uint64) error {
	n := len(sc.heads)
	sc.probes += int64(n)
	g.address(sc, n)
	if g.width > 8 { // a row may lie in two lines
		fuse.PrefetchSpans(&sc.addrs[0], 3*n, g.width)
	} else {
		fuse.Prefetch(&sc.addrs[0], 3*n)
	}
	exact := sc.set.opts.Exact || g.twoPlanes
	inCore := lo >= g.core.lo && hi <= g.core.hi && g.shardMasks == nil
	if inCore && !exact && g.width >= 8 {
		g.mark(sc, n)
		return nil
	}
	for i := range n {
		f0, f1 := g.flags(sc.addrs[3*i], sc.addrs[3*i+1], sc.addrs[3*i+2], sc.want[i])
		mask := g.all
		if !inCore {
			mask = g.mask(sc.heads[i], sc.hashes[i])
		}
		f0, f1 = f0&mask[0], f1&mask[1]
		switch {
		case !exact:
			sc.found[i>>6] |= nonzero(f0|f1) << (i & 63)
		case f0|f1 != 0:
			g.collect(sc, uint16(i), f0, f1)
		}
		if g.alone != nil && !sc.isFound(i) {
			g.askAlone(sc, i)
		}
	}
	return sc.settle()
}

// address notes the rows of all keys.
func (g *planeGroup) address(sc *scratch, n int) {
	base, shape, shardBits := unsafe.Pointer(&g.rows[0]), g.shape, g.shardBits
	slots, width := uint64(g.slots), uint64(g.width)
	for i, h := range sc.hashes[:n] {
		p0, p1, p2 := shape.Positions(h, h<<shardBits)
		first := h >> (64 - shardBits) * slots
		sc.want[i] = byte(fuse.Fingerprint(h))
		sc.addrs[3*i] = unsafe.Add(base, (first+uint64(p0))*width)
		sc.addrs[3*i+1] = unsafe.Add(base, (first+uint64(p1))*width)
		sc.addrs[3*i+2] = unsafe.Add(base, (first+uint64(p2))*width)
	}
}

// nonzero is 1 unless x is 0.
func nonzero(x uint64) uint64 { return (x | -x) >> 63 }

// mark is the loop of the commonest case: all keys in all zones, wide rows, approximate.
func (g *planeGroup) mark(sc *scratch, n int) {
	all := g.all
	if g.width == 8 {
		for i := range n {
			a := sc.addrs[3*i : 3*i+3 : 3*i+3]
			x := row8(a[0], 0) ^ row8(a[1], 0) ^ row8(a[2], 0) ^ every(sc.want[i])
			sc.found[i>>6] |= nonzero(zeros(x)&all[0]) << (i & 63)
		}
		return
	}
	tail := g.tail()
	for i := range n {
		a := sc.addrs[3*i : 3*i+3 : 3*i+3]
		f := every(sc.want[i])
		x := row8(a[0], 0) ^ row8(a[1], 0) ^ row8(a[2], 0) ^ f
		y := row8(a[0], tail) ^ row8(a[1], tail) ^ row8(a[2], tail) ^ f
		sc.found[i>>6] |= nonzero(zeros(x)&all[0]|zeros(y)&all[1]) << (i & 63)
	}
}

// row4 and row8 read the bytes of a row so that lane l is in bits 8l to 8l+7. They are
// single loads on machines of that byte order.
func row4(a unsafe.Pointer) uint32 { return binary.LittleEndian.Uint32((*[4]byte)(a)[:]) }

func row8(a unsafe.Pointer, at int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(a, at))[:])
}

// flags returns the lanes whose filters let the key pass.
func (g *planeGroup) flags(a0, a1, a2 unsafe.Pointer, want byte) (f0, f1 uint64) {
	f := every(want)
	switch g.width {
	case 2:
		x := *(*[2]byte)(a0)
		y := *(*[2]byte)(a1)
		z := *(*[2]byte)(a2)
		v := uint64(x[0]^y[0]^z[0]) | uint64(x[1]^y[1]^z[1])<<8
		return zeros(v ^ f), 0
	case 4:
		return zeros(uint64(row4(a0)^row4(a1)^row4(a2)) ^ f), 0
	case 8:
		return zeros(row8(a0, 0) ^ row8(a1, 0) ^ row8(a2, 0) ^ f), 0
	}
	tail := g.tail()
	return zeros(row8(a0, 0) ^ row8(a1, 0) ^ row8(a2, 0) ^ f),
		zeros(row8(a0, tail) ^ row8(a1, tail) ^ row8(a2, tail) ^ f)
}

// mask returns the lanes that a key can be in.
func (g *planeGroup) mask(head, hash uint64) [2]uint64 {
	mask := g.masks[g.index.find(head)]
	if g.shardMasks != nil {
		m := &g.shardMasks[hash>>(64-g.shardBits)]
		mask[0] &= m[0]
		mask[1] &= m[1]
	}
	return mask
}

// collect notes the hits of one key.
func (g *planeGroup) collect(sc *scratch, key uint16, f0, f1 uint64) {
	for ; f0 != 0; f0 &= f0 - 1 {
		l := bits.TrailingZeros64(f0) >> 3
		sc.hits = append(sc.hits, hit{&sc.view.candidates[g.lanes[l]], key})
	}
	for ; f1 != 0; f1 &= f1 - 1 {
		l := g.tail() + bits.TrailingZeros64(f1)>>3
		sc.hits = append(sc.hits, hit{&sc.view.candidates[g.lanes[l]], key})
	}
}

// askAlone asks the filters of the key's shard that could not be interleaved. They are in
// memory, as all filters of a group.
func (g *planeGroup) askAlone(sc *scratch, i int) {
	shard := sc.hashes[i] >> (64 - g.shardBits)
	for _, at := range g.alone[shard] {
		c := &sc.view.candidates[at]
		if head := sc.heads[i]; head-c.zone.lo > c.zone.hi-c.zone.lo {
			continue
		}
		p := &c.segment.parts[shard]
		if p.probe(p.tablePtr.Load(), sc.words[i], c.shardBits, 0) {
			sc.hits = append(sc.hits, hit{c, uint16(i)})
		}
	}
}

// single asks all groups about one key.
func (pl *planes) single(s *Set, v *view, head, word, hash uint64, key []byte) (bool, error) {
	for i := range pl.groups {
		g := &pl.groups[i]
		p0, p1, p2 := g.shape.Positions(hash, hash<<g.shardBits)
		first := int(hash>>(64-g.shardBits)) * g.slots
		base := unsafe.Pointer(&g.rows[0])
		f0, f1 := g.flags(unsafe.Add(base, (first+int(p0))*g.width),
			unsafe.Add(base, (first+int(p1))*g.width),
			unsafe.Add(base, (first+int(p2))*g.width), byte(fuse.Fingerprint(hash)))
		mask := g.mask(head, hash)
		f0, f1 = f0&mask[0], f1&mask[1]
		if f0|f1 != 0 && !s.opts.Exact && !g.twoPlanes {
			return true, nil
		}
		for _, f := range []struct {
			flags uint64
			first int
		}{{f0, 0}, {f1, g.width - 8}} {
			for ; f.flags != 0; f.flags &= f.flags - 1 {
				c := &v.candidates[g.lanes[f.first+bits.TrailingZeros64(f.flags)>>3]]
				yes, err := v.askOne(s, c, head, word, hash, key)
				if yes || err != nil {
					return yes, err
				}
			}
		}
		if g.alone == nil {
			continue
		}
		for _, at := range g.alone[hash>>(64-g.shardBits)] {
			yes, err := v.askOne(s, &v.candidates[at], head, word, hash, key)
			if yes || err != nil {
				return yes, err
			}
		}
	}
	return false, nil
}
