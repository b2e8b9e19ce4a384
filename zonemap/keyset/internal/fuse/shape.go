package fuse

import "math"

// MaxKeys is the largest number of keys of one table: the builder has 27 bits for the
// number of a key.
const MaxKeys = 1<<27 - 1

// maxSegLen keeps the window of three segments, with the builder's 4 bytes a slot, in
// the processor's own cache. Why: with segments eight times as long, which is what the
// usual formula gives for millions of keys, building takes half as long again.
const maxSegLen = 1 << 13

// Shape is the geometry of a table: segments of a power of two slots, two more of them
// than a first position can lie in. The zero Shape has no slots.
type Shape struct {
	segLen, mask, segCount uint32
	range0                 uint64 // number of first positions
}

// NewShape returns the shape with the given segments; ok is false if no table can have
// it.
func NewShape(segLen, segCount uint32) (s Shape, ok bool) {
	slots := (uint64(segCount) + 2) * uint64(segLen)
	if segLen == 0 || segLen&(segLen-1) != 0 || segCount == 0 || slots > math.MaxInt32 {
		return Shape{}, false
	}
	return Shape{segLen, segLen - 1, segCount, uint64(segCount) * uint64(segLen)}, true
}

// ShapeFor returns the shape for n keys, 1 to MaxKeys. Numbers that differ by less than
// about 0.2 % mostly get the same shape, so tables of about as many keys share positions.
func ShapeFor(n int) Shape {
	if step := n >> 9; step > 0 {
		step = 1 << int(math.Log2(float64(step)))
		n = (n + step - 1) / step * step
	}
	ln := math.Log(float64(max(n, 2)))
	segLen := uint32(1) << int(math.Floor(ln/math.Log(3.33)+2.25))
	if n < 2 {
		segLen = 4
	}
	segLen = min(segLen, maxSegLen)
	factor := max(1.1252, 0.875+0.25*math.Log(1e6)/ln)
	segments := (uint32(math.Round(float64(n)*factor)) + segLen - 1) / segLen
	s, _ := NewShape(segLen, max(segments, 3)-2)
	return s
}

// Segments returns the length and the number of the segments, for NewShape.
func (s *Shape) Segments() (segLen, segCount uint32) { return s.segLen, s.segCount }

// Slots is the number of bytes of each plane of a table.
func (s *Shape) Slots() int { return int(s.range0) + 2*int(s.segLen) }
