package fuse

import "math/bits"

// Unmix returns the word whose base.Mix is hash.
func Unmix(hash uint64) uint64 {
	hash ^= hash >> 33
	hash *= 0x9cb4b2f8129337db
	hash ^= hash >> 33
	hash *= 0x4f74430c22a54005
	return hash ^ hash>>33
}

// Fingerprint returns the 16 bits a table of two planes stores for the hash; the low
// byte is that of the first plane.
func Fingerprint(hash uint64) uint16 { return uint16(hash ^ hash>>32) }

// Positions returns the three slots of a hash. Spread is the hash from which the first
// position is taken: the hash itself, or the hash shifted left by the bits that chose a
// shard. All three are below s.Slots() for every hash.
func (s *Shape) Positions(hash, spread uint64) (p0, p1, p2 uint32) {
	hi, _ := bits.Mul64(spread, s.range0)
	p0 = uint32(hi)
	p1 = (p0 + s.segLen) ^ (uint32(hash>>18) & s.mask)
	p2 = (p0 + 2*s.segLen) ^ (uint32(hash) & s.mask)
	return p0, p1, p2
}
