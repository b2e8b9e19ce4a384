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
	n := len(key)
	h := seed ^ mixA
	for len(key) > 16 {
		h = mix(binary.LittleEndian.Uint64(key)^mixB, binary.LittleEndian.Uint64(key[8:])^h)
		key = key[16:]
	}
	var a, b uint64
	switch m := len(key); {
	case m >= 8:
		a = binary.LittleEndian.Uint64(key)
		b = binary.LittleEndian.Uint64(key[m-8:])
	case m >= 4:
		a = uint64(binary.LittleEndian.Uint32(key))
		b = uint64(binary.LittleEndian.Uint32(key[m-4:]))
	case m > 0:
		a = uint64(key[0])<<16 | uint64(key[m>>1])<<8 | uint64(key[m-1])
	}
	return mix(mixC^uint64(n), mix(a^mixB, b^h))
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
