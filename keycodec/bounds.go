package keycodec

import "encoding/binary"

// PrefixEnd appends to dst the smallest byte string that is larger than every string
// that starts with prefix: prefix without its trailing FF bytes, with one added to
// the last byte that remains. [prefix, end) is then exactly the range of the strings
// with that prefix.
//
// If nothing remains, because prefix is empty or all FF, there is no such string: ok
// is false, dst is returned as it was, and the range has no upper bound.
//
// Ownership: prefix is not changed and may share memory with dst[:len(dst)].
func PrefixEnd(dst, prefix []byte) (end []byte, ok bool) {
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	if n == 0 {
		return dst, false
	}
	dst = append(dst, prefix[:n]...)
	dst[len(dst)-1]++
	return dst, true
}

// Successor appends to dst the smallest byte string larger than key: key 00. Use it
// to make an inclusive end exclusive and an exclusive start inclusive.
func Successor(dst, key []byte) []byte {
	return append(append(dst, key...), 0)
}

// InvertFrom complements dst[start:] in place and returns dst. It makes the encoding
// of a value descending:
//
//	start := len(dst)
//	dst = keycodec.InvertFrom(keycodec.AppendString(dst, s), start)
//
// Applied to a copy of a descending encoding it gives back the ascending one.
// Requires: the whole encoding is complemented, NULL marker and terminator included.
func InvertFrom(dst []byte, start int) []byte {
	b := dst[start:]
	for ; len(b) >= 8; b = b[8:] {
		binary.NativeEndian.PutUint64(b, ^binary.NativeEndian.Uint64(b))
	}
	for i := range b {
		b[i] ^= 0xff
	}
	return dst
}
