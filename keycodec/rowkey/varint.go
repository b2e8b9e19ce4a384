package rowkey

import (
	"encoding/binary"
	"fmt"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// maxVarintBytes is the length of the longest varint.
const maxVarintBytes = 9

// Format: the varint of SQLite 4 (https://sqlite.org/src4/doc/trunk/www/varint.wiki).
// The first byte a says how long it is:
//
//	a <= 240       1 byte, the value a
//	241 to 248     2 bytes, 240 + 256 × (a-241) + the second
//	249            3 bytes, 2288 + the big-endian integer after it
//	250 to 255     4 to 9 bytes, the big-endian integer of a-247 bytes after it
//
// Every value has the shortest of its encodings, so longer values sort after shorter.
const (
	varintOne   = 240 // largest value, and first byte, of 1 byte
	varintTwo   = 248 // largest first byte of 2 bytes
	varintThree = 249 // first byte of 3 bytes

	varintMin3 = 2288  // smallest value of 3 bytes
	varintMin4 = 67824 // smallest value of 4 bytes
)

// AppendVarint appends the varint of v, 1 to 9 bytes. Varints compare like their values,
// and none is a prefix of another.
func AppendVarint(dst []byte, v uint64) []byte {
	switch {
	case v <= varintOne:
		return append(dst, byte(v))
	case v < varintMin3:
		v -= varintOne
		return append(dst, byte(v>>8)+varintOne+1, byte(v))
	case v < varintMin4:
		v -= varintMin3
		return append(dst, varintThree, byte(v>>8), byte(v))
	}
	n := 3
	for v>>(8*n) > 0 && n < 8 {
		n++
	}
	dst = append(dst, byte(varintThree+n-2))
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// DecodeVarint reads the varint at the start of b and returns what follows it. It fails
// with a *corrupt.Error if b is too short, or for a value that has a shorter encoding.
func DecodeVarint(b []byte) (v uint64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, corrupt.New("", 0, "varint", "1 byte", "0 bytes")
	}
	n := varintLen(b[0])
	if len(b) < n {
		return 0, nil, corrupt.New("", int64(len(b)), "varint", fmt.Sprintf("%d bytes", n),
			fmt.Sprintf("%d bytes", len(b)))
	}
	least := uint64(0)
	switch n {
	case 1:
		v = uint64(b[0])
	case 2:
		v = varintOne + uint64(b[0]-varintOne-1)<<8 + uint64(b[1])
		least = varintOne + 1
	case 3:
		v = varintMin3 + uint64(b[1])<<8 + uint64(b[2])
	default:
		var word [8]byte
		copy(word[9-n:], b[1:n])
		v, least = binary.BigEndian.Uint64(word[:]), varintMin4
		if n > 4 {
			least = 1 << (8 * (n - 2))
		}
	}
	if v < least {
		return 0, nil, corrupt.New("", 0, "varint", "the shortest encoding",
			fmt.Sprintf("%d in %d bytes", v, n))
	}
	return v, b[n:], nil
}

func varintLen(first byte) int {
	switch {
	case first <= varintOne:
		return 1
	case first <= varintTwo:
		return 2
	}
	return int(first) - varintThree + 3
}
