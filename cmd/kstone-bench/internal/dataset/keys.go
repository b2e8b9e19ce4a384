// Package dataset makes the records of the benchmarks: keys and values that are
// functions of a number, so that every record that comes back can be verified, and
// the orders and distributions in which the numbers are visited.
package dataset

import (
	"encoding/binary"
	"math/bits"
)

// KeyBytes is the length of every key: a number in decimal digits with leading
// zeros, so that the order of keys is the order of numbers.
const KeyBytes = 16

// SKUnit divides a number into partition and sort key for the layouts that have
// one: the first 8 digits are the partition, the last 8 the sort key.
const SKUnit = 100_000_000

// AppendKey appends the key of number id, which must be below 10^16.
func AppendKey(dst []byte, id uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, digits(id/SKUnit))
	return binary.LittleEndian.AppendUint64(dst, digits(id%SKUnit))
}

// digits returns the eight decimal digits of x as characters, the first in the lowest
// byte. It halves all parts of the number at once: four digits each, two, one; the
// products are divisions by 100 and by 10 that are exact for numbers this small.
func digits(x uint64) uint64 {
	x = x/10_000 | x%10_000<<32
	q := x * 10_486 >> 20 & 0x0000_007f_0000_007f
	x = q | (x-100*q)<<16
	q = x * 103 >> 10 & 0x000f_000f_000f_000f
	x = q | (x-10*q)<<8
	return x | 0x3030_3030_3030_3030
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
// without a table: multiplications by odd numbers and xors with shifts, each of which
// is a bijection of the numbers below a power of two, repeated until the result is
// below n, twice at most on average.
type Permutation struct {
	n, mask  uint64
	shift    uint
	add      uint64
	multiply [4]uint64 // odd
}

// NewPermutation returns the permutation of 0..n-1 that belongs to seed.
func NewPermutation(n, seed uint64) *Permutation {
	width := uint(bits.Len64(max(n, 2) - 1))
	p := &Permutation{n: n, mask: 1<<width - 1, shift: (width + 1) / 2}
	for i := range p.multiply {
		seed = Mix(seed + 0x9e3779b97f4a7c15)
		p.multiply[i] = seed | 1
	}
	p.add = Mix(seed)
	return p
}

// At returns the number at place i, which must be below n.
func (p *Permutation) At(i uint64) uint64 {
	for {
		i += p.add
		for _, m := range p.multiply {
			i = i * m & p.mask
			i ^= i >> p.shift
		}
		if i < p.n {
			return i
		}
	}
}

// Mix is a bijection, a finalizer that spreads every input bit over the output (Stafford's
// variant 13 of the MurmurHash3 finalizer).
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
