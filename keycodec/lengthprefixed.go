package keycodec

import "encoding/binary"

// Format: the length-prefixed form of a key is
//
//	PK length u32 | PK | SK length u32 | SK
//
// with big-endian lengths; an SK length of 0 means no SK. It marks its own
// end, so anything may follow it, unlike the ordered form. It does not sort:
// lengths come first, "b" before "aa". Never compare it.

// AppendLengthPrefixed appends the length-prefixed form of k to dst.
//
// Requires: k.Validate() == nil.
func AppendLengthPrefixed(dst []byte, k Key) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(k.PK)))
	dst = append(dst, k.PK...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(k.SK)))
	return append(dst, k.SK...)
}

// DecodeLengthPrefixed reads the length-prefixed key at the start of b and returns
// the bytes after it. It fails with a *corrupt.Error if the key is incomplete, has no
// PK, or is longer than the limits.
//
// Ownership: k and rest are views into b.
func DecodeLengthPrefixed(b []byte) (k Key, rest []byte, err error) {
	pk, tail, err := lengthPrefixed(b, 0)
	if err != nil {
		return Key{}, nil, err
	}
	if len(pk) == 0 {
		return Key{}, nil, damaged("length-prefixed key", 0, "a partition key", "none")
	}
	sk, rest, err := lengthPrefixed(tail, len(b)-len(tail))
	if err != nil {
		return Key{}, nil, err
	}
	if len(sk) == 0 {
		sk = nil
	}
	return Key{PK: pk, SK: sk}, rest, nil
}

// lengthPrefixed reads one part, which lies at offset of the whole input.
func lengthPrefixed(b []byte, offset int) (part, rest []byte, err error) {
	const what = "length-prefixed key"
	if len(b) < 4 {
		return nil, nil, shifted(truncated(what, 4, len(b)), offset)
	}
	n := binary.BigEndian.Uint32(b)
	b = b[4:]
	switch {
	case n > MaxKeyBytes:
		return nil, nil, damaged(what, offset, "a length within the limit", n)
	case int(n) > len(b):
		return nil, nil, shifted(truncated(what, int(n), len(b)), offset+4)
	}
	return b[:n:n], b[n:], nil
}
