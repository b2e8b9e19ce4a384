package shard

import (
	"crypto/des" //nolint:gosec // a hash for other systems' data, not a secret
	"crypto/md5" //nolint:gosec // likewise
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
)

// Function is a hash function. The zero value is invalid.
type Function uint8

// The functions. Each gives 64 bits; a Spec takes the remainder by its number
// of buckets.
//
// On disk (stored specs): the numbers.
const (
	// Tidb encrypts the integer, as 8 big-endian bytes, with DES under a key of zeros
	// and reads the result as a big-endian integer. It takes integers only, no seed.
	Tidb Function = iota + 1
	// MD5 is the first 8 bytes of the MD5 sum as a big-endian integer. No seed.
	MD5
	// XXHash is XXH64 with the seed.
	XXHash
	// Murmur3 is the first half of MurmurHash3_x64_128. Its seed has 32 bits.
	Murmur3
	// CRC32 is CRC-32 with the IEEE polynomial. No seed.
	CRC32
	// Mix64 is a few multiplications for every 8 bytes, with the seed.
	Mix64
)

// On disk (text form of specs): the names.
var functionNames = [...]string{Tidb: "tidb", MD5: "md5", XXHash: "xxhash",
	Murmur3: "murmur3", CRC32: "crc32", Mix64: "mix64"}

// String returns the name: "tidb", "md5", "xxhash", "murmur3", "crc32" or "mix64".
func (f Function) String() string {
	if f.valid() {
		return functionNames[f]
	}
	return fmt.Sprintf("function %d", uint8(f))
}

func (f Function) valid() bool { return f >= Tidb && f <= Mix64 }

// ParseFunction returns the function with that name.
func ParseFunction(name string) (Function, error) {
	i := slices.Index(functionNames[:], name)
	if i < int(Tidb) {
		return 0, fmt.Errorf("shard: unknown function %q; there are tidb, md5, xxhash, murmur3,"+
			" crc32, mix64", name)
	}
	return Function(i), nil
}

// maxSeed returns the largest seed of the function, 0 if it takes none.
func (f Function) maxSeed() uint64 {
	switch f {
	case XXHash, Mix64:
		return 1<<64 - 1
	case Murmur3:
		return 1<<32 - 1
	}
	return 0
}

// hash returns the 64 bits of b. Requires: a valid function, and for Tidb 8 bytes.
func (f Function) hash(b []byte, seed uint64) uint64 {
	switch f {
	case Tidb:
		return tidb(binary.BigEndian.Uint64(b))
	case MD5:
		sum := md5.Sum(b) //nolint:gosec // a hash for other systems' data, not a secret
		return binary.BigEndian.Uint64(sum[:])
	case XXHash:
		return xxh64(b, seed)
	case Murmur3:
		return murmur3(b, uint32(seed))
	case CRC32:
		return uint64(crc32.ChecksumIEEE(b))
	}
	return mix64(b, seed)
}

// tidb encrypts v. Why the block is pooled: what is passed to a cipher escapes.
func tidb(v uint64) uint64 {
	block := blocks.Get().(*[8]byte)
	binary.BigEndian.PutUint64(block[:], v)
	nullKey.Encrypt(block[:], block[:])
	v = binary.BigEndian.Uint64(block[:])
	blocks.Put(block)
	return v
}

var blocks = sync.Pool{New: func() any { return new([8]byte) }}

// nullKey is DES under eight zero bytes.
var nullKey, _ = des.NewCipher(make([]byte, 8)) //nolint:gosec // see Tidb
