package shard

import (
	"encoding/binary"
	"math/bits"
)

// On disk: nothing in this file may change, or keys would move to other buckets. The
// vectors in hash_internal_test.go and the check value of stored specs check that.

// Primes of XXH64.
const (
	xxPrime1 = 0x9e3779b185ebca87
	xxPrime2 = 0xc2b2ae3d27d4eb4f
	xxPrime3 = 0x165667b19e3779f9
	xxPrime4 = 0x85ebca77c2b2ae63
	xxPrime5 = 0x27d4eb2f165667c5
)

// xxh64 is the 64-bit xxHash of b (https://xxhash.com, algorithm description 0.1.1).
func xxh64(b []byte, seed uint64) uint64 {
	n := uint64(len(b))
	h := seed + xxPrime5
	if n >= 32 {
		var lane [4]uint64
		lane[0] = seed + xxPrime1
		lane[0] += xxPrime2 // as two steps: the sum of the constants overflows
		lane[1], lane[2], lane[3] = seed+xxPrime2, seed, seed-xxPrime1
		for ; len(b) >= 32; b = b[32:] {
			for i := range lane {
				lane[i] = xxRound(lane[i], binary.LittleEndian.Uint64(b[8*i:]))
			}
		}
		h = bits.RotateLeft64(lane[0], 1) + bits.RotateLeft64(lane[1], 7) +
			bits.RotateLeft64(lane[2], 12) + bits.RotateLeft64(lane[3], 18)
		for _, v := range lane {
			h = (h^xxRound(0, v))*xxPrime1 + xxPrime4
		}
	}
	h += n
	for ; len(b) >= 8; b = b[8:] {
		h ^= xxRound(0, binary.LittleEndian.Uint64(b))
		h = bits.RotateLeft64(h, 27)*xxPrime1 + xxPrime4
	}
	if len(b) >= 4 {
		h ^= uint64(binary.LittleEndian.Uint32(b)) * xxPrime1
		h = bits.RotateLeft64(h, 23)*xxPrime2 + xxPrime3
		b = b[4:]
	}
	for _, c := range b {
		h ^= uint64(c) * xxPrime5
		h = bits.RotateLeft64(h, 11) * xxPrime1
	}
	h = (h ^ h>>33) * xxPrime2
	h = (h ^ h>>29) * xxPrime3
	return h ^ h>>32
}

func xxRound(acc, word uint64) uint64 {
	return bits.RotateLeft64(acc+word*xxPrime2, 31) * xxPrime1
}

// Multipliers of MurmurHash3_x64_128.
const (
	murmur1 = 0x87c37b91114253d5
	murmur2 = 0x4cf5ad432745937f
)

// murmur3 is the first 64 bits of MurmurHash3_x64_128 (A. Appleby, SMHasher).
func murmur3(b []byte, seed uint32) uint64 {
	n := uint64(len(b))
	h1, h2 := uint64(seed), uint64(seed)
	for ; len(b) >= 16; b = b[16:] {
		h1 ^= murmurFirst(binary.LittleEndian.Uint64(b))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= murmurSecond(binary.LittleEndian.Uint64(b[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	if len(b) > 8 {
		h2 ^= murmurSecond(littleEndian(b[8:]))
		b = b[:8]
	}
	if len(b) > 0 {
		h1 ^= murmurFirst(littleEndian(b))
	}
	h1, h2 = h1^n, h2^n
	h1 += h2
	h2 += h1
	return murmurFinal(h1) + murmurFinal(h2)
}

func murmurFirst(k uint64) uint64  { return bits.RotateLeft64(k*murmur1, 31) * murmur2 }
func murmurSecond(k uint64) uint64 { return bits.RotateLeft64(k*murmur2, 33) * murmur1 }

func murmurFinal(k uint64) uint64 {
	k = (k ^ k>>33) * 0xff51afd7ed558ccd
	k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

// littleEndian reads up to 8 bytes as an integer.
func littleEndian(b []byte) uint64 {
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:])
}

// mix64 chains, for every 8 bytes of b read big-endian (the last word filled with zero
// bytes), the finalizer of MurmurHash3. Why that: it is a bijection of 64 bits, so values
// of up to 8 bytes and equal length never collide before the remainder is taken.
func mix64(b []byte, seed uint64) uint64 {
	h := seed + uint64(len(b))*xxPrime1
	for ; len(b) >= 8; b = b[8:] {
		h = murmurFinal(h^binary.BigEndian.Uint64(b)) + xxPrime3
	}
	if len(b) > 0 {
		var word [8]byte
		copy(word[:], b)
		h = murmurFinal(h^binary.BigEndian.Uint64(word[:])) + xxPrime3
	}
	return murmurFinal(h)
}

// mix64Int is mix64 of the 8 bytes of v.
func mix64Int(v, seed uint64) uint64 {
	const length uint64 = 8
	seed += length * (xxPrime1 & (1<<61 - 1)) // 8 times it, modulo 2^64
	return murmurFinal(murmurFinal(seed^v) + xxPrime3)
}
