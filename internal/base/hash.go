package base

import (
	"encoding/binary"
	"math/bits"
)

// Odd constants of the mixing hash; any odd numbers with about 32 one bits do.
// On disk: filters depend on them, never change.
const (
	mixA = 0xa0761d6478bd642f
	mixB = 0xe7037ed1a0b428db
	mixC = 0x8ebc6af09c88c6e3
)

// Hash returns a 64-bit hash of key under a secret per-database seed. Filters and
// the memtable's index use it. The construction follows the multiply-and-fold
// family (wyhash): 16 bytes a step through a 64x64→128 bit product. It is fast and
// well distributed; it is not a cryptographic hash, the seed is what keeps
// outsiders from aiming at collisions.
//
// Format: the result is stored in filter blocks; it must never change.
func Hash(key []byte, seed uint64) uint64 {
	return FoldKey(key, seed^mixA, mixB, 0, 0, mixC^uint64(len(key)))
}

// FoldKey is Hash with other constants: h is what the first step is mixed with, a and b
// mask the halves of each step, and the last product is that of the result ^ c and d.
//
// Format: as for Hash; the filters of segments depend on it, too.
func FoldKey(key []byte, h, a, b, c, d uint64) uint64 {
	for len(key) > 16 {
		h = fold(binary.LittleEndian.Uint64(key)^a, binary.LittleEndian.Uint64(key[8:])^b^h)
		key = key[16:]
	}
	switch m := len(key); {
	case m >= 8:
		a ^= binary.LittleEndian.Uint64(key)
		b ^= binary.LittleEndian.Uint64(key[m-8:])
	case m >= 4:
		a ^= uint64(binary.LittleEndian.Uint32(key))
		b ^= uint64(binary.LittleEndian.Uint32(key[m-4:]))
	case m > 0:
		a ^= uint64(key[0])<<16 | uint64(key[m>>1])<<8 | uint64(key[m-1])
	}
	return fold(fold(a, b^h)^c, d)
}

// Mix spreads word over 64 bits. It is a bijection (the finaliser of MurmurHash3), so
// different words never collide.
//
// Format: as for Hash; the positions in filters depend on it.
func Mix(word uint64) uint64 {
	word ^= word >> 33
	word *= 0xff51afd7ed558ccd
	word ^= word >> 33
	word *= 0xc4ceb9fe1a85ec53
	return word ^ word>>33
}

// fold is the high half of the product exclusive-or its low half.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
