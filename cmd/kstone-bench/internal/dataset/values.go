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
// bytes: a fast codec halves it. A large value is made of such pieces, so that what is repeated is
// in the window of every codec. A Values is immutable and may be shared.
//
// Why the random bytes are computed and not cut from a table: comparing with a table
// would fetch one or two cache lines for each record read, which is as much as what
// is measured.
type Values struct{ size int }

const (
	stampBytes = 12
	leastBytes = stampBytes + 8
	pieceBytes = 4 << 10
)

// piece returns the length of the next piece of a value that lacks n bytes, and how many of
// its bytes are random, a multiple of 8.
func piece(n int) (length, random int) {
	if n > pieceBytes*3/2 {
		n = pieceBytes
	}
	return n, max(n/2/8, 1) * 8
}

// NewValues returns the maker of values of size bytes, or of 20 if that is more.
func NewValues(size int) *Values {
	return &Values{size: max(size, leastBytes)}
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
	x := seed(id, version)
	for body := out[stampBytes:]; len(body) > 0; {
		length, half := piece(len(body))
		for random := body[:half]; len(random) >= 8; random = random[8:] {
			x = next(x)
			binary.LittleEndian.PutUint64(random, x^x>>32)
		}
		for n := half; n < length; n += half {
			copy(body[n:length], body[:half])
		}
		body = body[length:]
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
	for x := seed(id, version); len(body) > 0; {
		length, half := piece(len(body))
		diff := uint64(0)
		for i := 0; i < half; i += 8 {
			x = next(x)
			diff |= binary.LittleEndian.Uint64(body[i:]) ^ x ^ x>>32
		}
		if diff != 0 || !bytes.Equal(body[half:length], body[:length-half]) {
			return fmt.Errorf("record %d, version %d: damaged value", id, version)
		}
		body = body[length:]
	}
	return nil
}

// Version returns the version in a value that Check has accepted.
func Version(value []byte) uint32 { return binary.LittleEndian.Uint32(value[8:]) }
