package keycodec

import (
	"bytes"
	"strings"
)

// Format: strings and byte strings are escaped like a PK and end with 00 00. The order
// is that of the unsigned bytes, which for UTF-8 is the order of the code points.
//
// Why two bytes at the end: without type codes the next field may begin with any byte,
// so a terminator of one byte could not be told from an escape.

// AppendString appends the ordered encoding of s. Any bytes are allowed.
func AppendString(dst []byte, s string) []byte {
	if strings.IndexByte(s, 0) < 0 {
		return append(append(dst, s...), escape, terminator)
	}
	return append(PrefixString(dst, s), escape, terminator)
}

// PrefixString appends the encoding of s without its terminator. It is a prefix of the
// encodings of exactly those strings that begin with s; see PrefixEnd for the range.
func PrefixString(dst []byte, s string) []byte {
	if strings.IndexByte(s, 0) < 0 {
		return append(dst, s...)
	}
	for i := range len(s) {
		dst = append(dst, s[i])
		if s[i] == 0 {
			dst = append(dst, escapedNul)
		}
	}
	return dst
}

// AppendBytes appends the ordered encoding of s, which is that of the equal string.
func AppendBytes(dst, s []byte) []byte {
	return append(appendEscaped(dst, s), escape, terminator)
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
	i := bytes.IndexByte(b, escape)
	if i >= 0 && i+1 < len(b) && b[i+1] == terminator {
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
