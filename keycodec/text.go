package keycodec

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
)

// Format: strings and byte strings are escaped like a PK and end with 00 00. The order
// is that of the unsigned bytes, which for UTF-8 is the order of the code points.
//
// Why two bytes at the end: without type codes the next field may begin with any byte,
// so a terminator of one byte would look like an escape.

// AppendString appends the ordered encoding of s. Any bytes are allowed.
func AppendString(dst []byte, s string) []byte { return appendTerminated(dst, bytesOf(s)) }

// bytesOf returns a view of s, which must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// PrefixString appends the encoding of s without its terminator. It is a prefix of the
// encodings of exactly those strings that begin with s; see PrefixEnd for the range.
func PrefixString(dst []byte, s string) []byte { return appendEscaped(dst, bytesOf(s)) }

// AppendBytes appends the ordered encoding of s, which is that of the equal string.
func AppendBytes(dst, s []byte) []byte { return appendTerminated(dst, s) }

// wordBytes is the length up to which texts are handled in words of 8 bytes. Longer ones profit
// from the vector instructions of package bytes, whose start costs more.
const wordBytes = 64

// appendTerminated appends s, escaped, and the terminator. Why by words: it copies while
// it looks for zero bytes, which keys rarely have.
func appendTerminated(dst, s []byte) []byte {
	start, n := len(dst), len(s)
	if n < 8 || n > wordBytes {
		return append(appendEscaped(dst, s), escape, terminator)
	}
	if cap(dst)-start < n+2 {
		dst = slices.Grow(dst, n+2)
	}
	to, from := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(s))
	to = unsafe.Add(to, start)
	zeros := zeroBytes(copyWord(to, from))
	for i := 8; i < n-8; i += 8 {
		zeros |= zeroBytes(copyWord(unsafe.Add(to, i), unsafe.Add(from, i)))
	}
	// The last word may overlap the one before.
	zeros |= zeroBytes(copyWord(unsafe.Add(to, n-8), unsafe.Add(from, n-8)))
	if zeros != 0 {
		return append(appendEscaped(dst, s), escape, terminator)
	}
	*(*[2]byte)(unsafe.Add(to, n)) = [2]byte{escape, terminator}
	return dst[:start+n+2]
}

// zeroBytes has the highest bit set in the first zero byte of w, counted from the lowest,
// and maybe in higher bytes; it is 0 if w has none.
func zeroBytes(w uint64) uint64 {
	return (w - 0x0101010101010101) &^ w & 0x8080808080808080
}

// firstZero returns the index of the first zero byte of b, len(b) if there is none.
func firstZero(b []byte) int {
	i := 0
	for ; i+8 <= len(b) && i < wordBytes; i += 8 {
		if z := zeroBytes(binary.LittleEndian.Uint64(b[i:])); z != 0 {
			return i + bits.TrailingZeros64(z)/8
		}
	}
	if n := bytes.IndexByte(b[i:], 0); n >= 0 {
		return i + n
	}
	return len(b)
}

// PrefixBytes is PrefixString for bytes.
func PrefixBytes(dst, s []byte) []byte { return appendEscaped(dst, s) }

// DecodeString reads the string at the start of b and returns what follows it.
//
// Ownership: s is a copy, rest a view into b.
func DecodeString(b []byte) (s string, rest []byte, err error) {
	v, rest, err := DecodeBytes(b)
	return string(v), rest, err
}

// DecodeBytes reads the byte string at the start of b and returns what follows it.
//
// Ownership: rest is a view into b. So is v unless it contains zero bytes; then it is
// allocated. Use DecodeAppendBytes to choose where it goes.
func DecodeBytes(b []byte) (v, rest []byte, err error) {
	i := 0
	if len(b) > 16 { // most texts end in the first two words
		z := zeroBytes(binary.LittleEndian.Uint64(b))
		if z == 0 {
			i, z = 8, zeroBytes(binary.LittleEndian.Uint64(b[8:]))
		}
		if i += bits.TrailingZeros64(z) / 8; z != 0 && b[i+1] == terminator {
			return b[:i:i], b[i+2:], nil
		}
	}
	i = firstZero(b)
	if i+1 < len(b) && b[i+1] == terminator {
		return b[:i:i], b[i+2:], nil
	}
	return DecodeAppendBytes(nil, b)
}

// DecodeAppendBytes reads the byte string at the start of b, appends it to dst, and
// returns what follows it. It allocates only when dst has no room. On error dst is
// returned as it was.
func DecodeAppendBytes(dst, b []byte) (out, rest []byte, err error) {
	out, n, err := appendUnescaped(dst, b, "string")
	if err != nil {
		return dst, nil, err
	}
	return out, b[n:], nil
}
