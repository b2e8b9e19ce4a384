package keycodec

import (
	"bytes"
	"slices"
)

// Format: the ordered form of a key is
//
//	esc(PK) 00 00 SK
//
// where esc replaces every 00 in the PK by 00 01. The SK is raw, as it ends the key.
//
// Why it sorts: the pair (end of PK = 00 00, byte 0 = 00 01, byte b = b) is a prefix
// code whose words ascend in that order, so a PK that ends sorts before a PK that
// goes on. After equal PKs, "no SK" is the empty rest and sorts first.

// On disk: the escape of every variable-length value.
const (
	escape     = 0x00 // introduces the terminator or a zero byte
	terminator = 0x00 // second byte of the terminator
	escapedNul = 0x01 // second byte of a zero byte that belongs to the value
)

// AppendOrdered appends the ordered form of k to dst. It allocates only when dst has
// no room for it.
//
// Requires: k.Validate() == nil. An empty SK would be written as no SK.
func AppendOrdered(dst []byte, k Key) []byte {
	if bytes.IndexByte(k.PK, 0) >= 0 {
		return append(AppendOrderedPK(dst, k.PK), k.SK...)
	}
	start, pkLen := len(dst), len(k.PK)
	dst = slices.Grow(dst, pkLen+2+len(k.SK))[:start+pkLen+2+len(k.SK)]
	copy(dst[start:], k.PK)
	dst[start+pkLen], dst[start+pkLen+1] = escape, terminator
	copy(dst[start+pkLen+2:], k.SK)
	return dst
}

// zero is what is escaped.
var zero = []byte{escape}

// AppendOrderedPK appends esc(PK) 00 00 to dst: the ordered form of the key without
// SK, and at the same time the prefix of all keys of the partition. The range of the
// partition is [it, PrefixEnd(it)).
func AppendOrderedPK(dst, pk []byte) []byte {
	n := len(pk) + bytes.Count(pk, zero) + 2
	return append(appendEscaped(slices.Grow(dst, n), pk), escape, terminator)
}

// DecodeOrdered reads the ordered form of one key, all of b. It fails with a
// *corrupt.Error if b is not what AppendOrdered writes for a valid key.
//
// Ownership: k.SK is a view into b, and so is k.PK unless it contains zero bytes;
// then it is written to scratch, whose previous contents are lost (pass nil to have
// it allocated). scratch2 is the buffer to pass to the next call, which invalidates
// k.PK.
func DecodeOrdered(b, scratch []byte) (k Key, scratch2 []byte, err error) {
	i := bytes.IndexByte(b, escape)
	if i > 0 && i+1 < len(b) && b[i+1] == terminator {
		k.PK = b[:i:i]
		k.SK = b[i+2:]
	} else {
		var n int
		scratch, n, err = appendUnescaped(scratch[:0], b, "ordered key")
		if err != nil {
			return Key{}, scratch, err
		}
		k.PK = scratch[:len(scratch):len(scratch)]
		k.SK = b[n:]
	}
	if len(k.SK) == 0 {
		k.SK = nil
	}
	if err := checkDecoded(k, "ordered key"); err != nil {
		return Key{}, scratch, err
	}
	return k, scratch, nil
}

// checkDecoded turns a key that cannot have been stored into a corruption error.
func checkDecoded(k Key, what string) error {
	switch {
	case len(k.PK) == 0:
		return damaged(what, 0, "a partition key", "none")
	case len(k.PK) > MaxKeyBytes:
		return damaged(what, 0, "a PK within the limit", len(k.PK))
	case len(k.SK) > MaxKeyBytes:
		return damaged(what, 0, "an SK within the limit", len(k.SK))
	}
	return nil
}

// OrderedPKLen returns the length of the partition's prefix, esc(PK) 00 00, of the
// ordered key b. ok is false if b has none.
func OrderedPKLen(b []byte) (n int, ok bool) {
	n, _ = terminated(b, 0)
	return n, n > 2
}

// terminated returns the length of the escaped string at the start of b, its
// terminator included. If there is no terminator it returns 0 and the offset of the
// byte that is wrong (len(b) if b just ends). mask is 00, or FF for a value that is
// stored complemented.
func terminated(b []byte, mask byte) (n, wrong int) {
	for {
		i := bytes.IndexByte(b[n:], escape^mask)
		if i < 0 {
			return 0, len(b)
		}
		// Zero bytes come in runs: numbers inside keys are full of them.
		for n += i; n < len(b) && b[n] == escape^mask; n += 2 {
			switch {
			case n+1 == len(b):
				return 0, len(b)
			case b[n+1] == terminator^mask:
				return n + 2, 0
			case b[n+1] != escapedNul^mask:
				return 0, n + 1
			}
		}
	}
}

// appendEscaped appends s with every 00 replaced by 00 01.
func appendEscaped(dst, s []byte) []byte {
	for len(s) > shortString {
		i := bytes.IndexByte(s, escape)
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(append(dst, s[:i]...), escape, escapedNul)
		s = s[i+1:]
	}
	at := len(dst)
	if cap(dst)-at < 2*len(s) {
		dst = slices.Grow(dst, len(s)+bytes.Count(s, []byte{escape}))
	}
	dst = dst[:cap(dst)]
	for _, c := range s {
		dst[at] = c
		at++
		if c == escape {
			dst[at] = escapedNul
			at++
		}
	}
	return dst[:at]
}

// appendUnescaped reads an escaped, terminated string at the start of b, appends it
// to dst, and returns how many bytes of b it took. On error dst is unchanged.
func appendUnescaped(dst, b []byte, what string) (out []byte, n int, err error) {
	from := len(dst)
	out = slices.Grow(dst, min(len(b), shortString))
	out = out[:cap(out)]
	at := from
	for n < len(b) {
		c := b[n]
		switch {
		case at == len(out): // it is a long one
			i := bytes.IndexByte(b[n:], escape)
			if i < 0 {
				return dst, 0, unterminated(what, b, len(b))
			}
			out = slices.Grow(append(out, b[n:n+i]...), shortString)
			out, n, at = out[:cap(out)], n+i, at+i
		case c != escape:
			out[at] = c
			n, at = n+1, at+1
		case n+1 == len(b):
			return dst, 0, unterminated(what, b, len(b))
		case b[n+1] == terminator:
			return out[:at], n + 2, nil
		case b[n+1] != escapedNul:
			return dst, 0, unterminated(what, b, n+1)
		default:
			out[at] = 0
			n, at = n+2, at+1
		}
	}
	return dst, 0, unterminated(what, b, len(b))
}

// shortString is how many bytes are copied one by one. Why not in pieces between zeros: most keys
// are short, and numbers are full of zeros.
const shortString = 32

// unterminated returns the error for an escaped string that goes wrong at an offset of b.
func unterminated(what string, b []byte, offset int) error {
	if offset == len(b) {
		return damaged(what, offset, "a terminator", "the end")
	}
	return damaged(what, offset, "00 or 01 after 00", hexByte(b[offset]))
}
