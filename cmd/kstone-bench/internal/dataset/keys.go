// Package dataset makes the records of the benchmarks: keys and values that are
// functions of a number, so that every record that comes back can be verified, and
// the orders and distributions in which the numbers are visited.
package dataset

import "math/bits"

// KeyBytes is the length of every key: a number in decimal digits with leading
// zeros, so that the order of keys is the order of numbers.
const KeyBytes = 16

// SKUnit divides a number into partition and sort key for the layouts that have
// one: the first 8 digits are the partition, the last 8 the sort key.
const SKUnit = 100_000_000

// AppendKey appends the key of number id, which must be below 10^16.
func AppendKey(dst []byte, id uint64) []byte {
	const zeros = "0000000000000000"
	dst = append(dst, zeros...)
	for p := len(dst) - 1; id > 0; p-- {
		q := id / 10
		dst[p] = byte('0' + id - 10*q)
		id = q
	}
	return dst
}

// ParseKey returns the number of a key given in two parts (the second may be
// empty); ok is false if they are not a key of this package.
func ParseKey(a, b []byte) (id uint64, ok bool) {
	if len(a)+len(b) != KeyBytes {
		return 0, false
	}
	for _, part := range [2][]byte{a, b} {
		for _, c := range part {
			if c < '0' || c > '9' {
				return 0, false
			}
			id = id*10 + uint64(c-'0')
		}
	}
	return id, true
}

// Permutation visits the numbers below n in a random order, each exactly once,
// without a table: a Feistel network over the next even number of bits that walks
// on until it is back below n.
type Permutation struct {
	n    uint64
	half uint
	mask uint64
	keys [4]uint64
}

// NewPermutation returns the permutation of 0..n-1 that belongs to seed.
func NewPermutation(n, seed uint64) *Permutation {
	half := uint(bits.Len64(max(n, 2)-1)+1) / 2
	p := &Permutation{n: n, half: half, mask: 1<<half - 1}
	for i := range p.keys {
		seed = mix(seed + 0x9e3779b97f4a7c15)
		p.keys[i] = seed
	}
	return p
}

// At returns the number at place i, which must be below n.
func (p *Permutation) At(i uint64) uint64 {
	for {
		l, r := i>>p.half, i&p.mask
		for _, k := range p.keys {
			l, r = r, l^(mix(r+k)&p.mask)
		}
		if i = l<<p.half | r; i < p.n {
			return i
		}
	}
}

// mix is a finalizer that spreads every input bit over the output (Stafford's
// variant 13 of the MurmurHash3 finalizer).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
