package dataset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// Values makes values of one size. A value is the number of its record and a version,
// 12 bytes, then random bytes that follow from both, then the repetition of the random
// bytes: a fast codec halves it. A Values is immutable and may be shared.
//
// Why the random bytes are computed and not cut from a table: comparing with a table
// would fetch one or two cache lines for each record read, which is as much as what
// is measured.
type Values struct {
	size int
	half int // random bytes, a multiple of 8
}

const (
	stampBytes = 12
	leastBytes = stampBytes + 8
)

// NewValues returns the maker of values of size bytes, or of 20 if that is more.
func NewValues(size int) *Values {
	size = max(size, leastBytes)
	return &Values{size: size, half: max((size-stampBytes)/2/8, 1) * 8}
}

// Size is the length of every value in bytes.
func (v *Values) Size() int { return v.size }

// Append appends the value of record id in the given version.
func (v *Values) Append(dst []byte, id uint64, version uint32) []byte {
	at := len(dst)
	dst = slices.Grow(dst, v.size)[:at+v.size]
	out := dst[at:]
	binary.LittleEndian.PutUint64(out, id)
	binary.LittleEndian.PutUint32(out[8:], version)
	body := out[stampBytes:]
	random := body[:v.half]
	for x := seed(id, version); len(random) >= 8; random = random[8:] {
		x = next(x)
		binary.LittleEndian.PutUint64(random, x^x>>32)
	}
	for n := v.half; n < len(body); n += v.half {
		copy(body[n:], body[:v.half])
	}
	return dst
}

func seed(id uint64, version uint32) uint64 {
	return Mix(id ^ bits.RotateLeft64(uint64(version), 40))
}

// next is a step of Knuth's linear congruential generator.
func next(x uint64) uint64 { return x*6364136223846793005 + 1442695040888963407 }

// Check returns an error unless value is one that Append made for id, in whatever
// version. Every byte is compared.
func (v *Values) Check(id uint64, value []byte) error {
	if len(value) != v.size {
		return fmt.Errorf("record %d: value of %d bytes, want %d", id, len(value), v.size)
	}
	if got := binary.LittleEndian.Uint64(value); got != id {
		return fmt.Errorf("record %d: value of record %d", id, got)
	}
	version := binary.LittleEndian.Uint32(value[8:])
	body := value[stampBytes:]
	diff := uint64(0)
	for x, i := seed(id, version), 0; i < v.half; i += 8 {
		x = next(x)
		diff |= binary.LittleEndian.Uint64(body[i:]) ^ x ^ x>>32
	}
	if diff != 0 || !bytes.Equal(body[v.half:], body[:len(body)-v.half]) {
		return fmt.Errorf("record %d, version %d: damaged value", id, version)
	}
	return nil
}

// Version returns the version in a value that Check has accepted.
func Version(value []byte) uint32 { return binary.LittleEndian.Uint32(value[8:]) }
