package keycodec

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"time"
)

// Format: a tagged tuple describes itself. Each element is a tag and, for some, a
// value in the encoding of its type:
//
//	05        NULL
//	10 11     false, true
//	18 to 1f  a negative integer in 8 to 1 bytes: the complement of its absolute value
//	20        the integer 0
//	21 to 28  a positive integer in 1 to 8 bytes, the first not 0
//	30        float64
//	38        decimal of any precision
//	40        time of full range
//	48        UUID
//	50        IP address
//	58        IP prefix
//	60        bytes
//	68        string
//
// A descending element is complemented as a whole, which makes its tag 80 or more.
//
// Why it sorts: elements of one type sort like their values, elements of different types
// in the order of the tags. Integers of all sizes are one type; they do not compare with
// floats and decimals. A tuple sorts before those that it is the beginning of. The end
// has no mark, so nothing may follow a tagged tuple in a key.

// On disk: the tags.
const (
	tagNull     = 0x05
	tagFalse    = 0x10
	tagTrue     = 0x11
	tagZero     = 0x20 // ±1 for each byte of an integer
	tagFloat    = 0x30
	tagDecimal  = 0x38
	tagTime     = 0x40
	tagUUID     = 0x48
	tagIP       = 0x50
	tagIPPrefix = 0x58
	tagBytes    = 0x60
	tagString   = 0x68
)

// taggedTypes maps the tags of values in the encoding of a field to that field.
var taggedTypes = map[byte]*Field{
	tagFloat: {Type: TypeFloat64}, tagDecimal: {Type: TypeDecimal},
	tagTime: {Type: TypeTime, Unit: FullRange}, tagUUID: {Type: TypeUUID}, tagIP: {Type: TypeIP},
	tagIPPrefix: {Type: TypeIPPrefix}, tagBytes: {Type: TypeBytes}, tagString: {Type: TypeString},
}

// Descending is an element of a tagged tuple that sorts the other way round.
type Descending struct {
	Value any
}

// AppendTagged appends the encoding of a tuple that describes itself: DecodeTagged reads
// it without a schema. The elements are nil, bool, all integers, float32, float64, string,
// []byte, time.Time, UUID, [16]byte, Decimal, netip.Addr, netip.Prefix, and Descending
// with one of them. It fails, with dst as it was, for everything else.
//
// It takes a byte more for each element than a schema, and fewer bytes for small integers.
// Tuples with different types in one place sort by type.
func AppendTagged(dst []byte, elements ...any) ([]byte, error) {
	out := dst
	for i, v := range elements {
		start := len(out)
		d, desc := v.(Descending)
		if desc {
			v = d.Value
		}
		var err error
		if out, err = appendElement(out, v); err != nil {
			return dst, fmt.Errorf("keycodec: element %d: %w", i, err)
		}
		if desc {
			InvertFrom(out, start)
		}
	}
	return out, nil
}

func appendElement(dst []byte, v any) ([]byte, error) {
	var tag byte
	switch n := v.(type) {
	case nil:
		return append(dst, tagNull), nil
	case bool:
		if n {
			return append(dst, tagTrue), nil
		}
		return append(dst, tagFalse), nil
	case float64, float32:
		tag = tagFloat
	case Decimal:
		tag = tagDecimal
	case time.Time:
		tag = tagTime
	case UUID, [16]byte:
		tag = tagUUID
	case netip.Addr:
		tag = tagIP
	case netip.Prefix:
		tag = tagIPPrefix
	case []byte:
		tag = tagBytes
	case string:
		tag = tagString
	default:
		if i, ok := asInt64(v); ok {
			return appendTaggedInt(dst, i), nil
		}
		if u, ok := asUint64(v); ok {
			return appendTaggedUint(dst, u), nil
		}
		return dst, fmt.Errorf("a value of type %T has no tag", v)
	}
	return taggedTypes[tag].appendValue(append(dst, tag), v)
}

func appendTaggedUint(dst []byte, u uint64) []byte {
	n := (bits.Len64(u) + 7) / 8
	return appendUint(append(dst, byte(tagZero+n)), u, n)
}

func appendTaggedInt(dst []byte, i int64) []byte {
	if i >= 0 {
		return appendTaggedUint(dst, uint64(i))
	}
	n := (bits.Len64(-uint64(i)) + 7) / 8
	return appendUint(append(dst, byte(tagZero-n)), ^-uint64(i), n)
}

// DecodeTagged reads a tuple that AppendTagged wrote, all of b. The elements are nil,
// bool, int64, uint64 (for integers above the largest int64), float64, Decimal, time.Time,
// UUID, netip.Addr, netip.Prefix, []byte, string, and Descending with one of them. It
// fails with a *corrupt.Error if b is not what AppendTagged writes.
//
// Ownership: the elements share no memory with b.
func DecodeTagged(b []byte) ([]any, error) {
	var elements []any
	for at := 0; at < len(b); {
		n, err := taggedLen(b[at:])
		if err != nil {
			return nil, shifted(err, at)
		}
		element := b[at : at+n]
		desc := element[0] >= 0x80
		if desc {
			element = InvertFrom(append([]byte(nil), element...), 0)
		}
		v, err := decodeElement(element)
		if err != nil {
			return nil, shifted(err, at)
		}
		if desc {
			v = Descending{v}
		}
		elements = append(elements, v)
		at += n
	}
	return elements, nil
}

// SkipTagged returns what follows the element at the start of b, a view into b, without
// decoding it. It allocates nothing.
func SkipTagged(b []byte) (rest []byte, err error) {
	n, err := taggedLen(b)
	if err != nil {
		return nil, err
	}
	return b[n:], nil
}

// taggedLen returns the length of the element at the start of b, its tag included.
func taggedLen(b []byte) (int, error) {
	const what = "tagged tuple"
	if len(b) == 0 {
		return 0, truncated(what, 1, 0)
	}
	mask := byte(0)
	if b[0] >= 0x80 {
		mask = 0xff
	}
	tag, n := b[0]^mask, 0
	switch {
	case tag == tagNull || tag == tagFalse || tag == tagTrue:
		return 1, nil
	case tag >= tagZero-8 && tag <= tagZero+8:
		n = max(int(tag)-tagZero, tagZero-int(tag))
		if len(b) < 1+n {
			return 0, truncated(what, 1+n, len(b))
		}
	case taggedTypes[tag] == nil:
		return 0, damaged(what, 0, "a tag", hexByte(b[0]))
	default:
		var err error
		if n, err = taggedTypes[tag].valueLen(b[1:], mask); err != nil {
			return 0, shifted(err, 1)
		}
	}
	return 1 + n, nil
}

// decodeElement reads one ascending element, whose length is known to be right.
func decodeElement(b []byte) (any, error) {
	switch tag := b[0]; {
	case tag == tagNull:
		return nil, nil
	case tag == tagFalse || tag == tagTrue:
		return tag == tagTrue, nil
	case tag >= tagZero-8 && tag <= tagZero+8:
		return decodeTaggedInt(b)
	default:
		v, _, err := taggedTypes[tag].decodeValue(b[1:])
		if err != nil {
			return nil, shifted(err, 1)
		}
		return v, nil
	}
}

func decodeTaggedInt(b []byte) (any, error) {
	var word [8]byte
	copy(word[8-len(b[1:]):], b[1:])
	u := binary.BigEndian.Uint64(word[:])
	negative := b[0] < tagZero
	if negative {
		u = ^u & (1<<(8*len(b[1:])) - 1) // for 8 bytes the shift gives 0, the difference FF…
	}
	switch {
	case (bits.Len64(u)+7)/8 != len(b)-1:
		return nil, damaged("tagged integer", 1, "no zero byte in front", hexByte(b[1]))
	case negative && u > 1<<63:
		return nil, damaged("tagged integer", 1, "an int64", "less")
	case negative:
		return int64(-u), nil
	case u > 1<<63-1:
		return u, nil
	}
	return int64(u), nil
}

// FormatTagged renders a tagged tuple for people: as Schema.Format does, with strings in
// quotes, bytes as x"hex", and " desc" after descending elements. Errors are those of
// DecodeTagged.
func FormatTagged(b []byte) (string, error) {
	elements, err := DecodeTagged(b)
	if err != nil {
		return "", err
	}
	var out []byte
	for i, v := range elements {
		if i > 0 {
			out = append(out, fieldSeparator...)
		}
		d, desc := v.(Descending)
		if desc {
			v = d.Value
		}
		switch v := v.(type) {
		case string:
			out = fmt.Appendf(out, "%q", v)
		case []byte:
			out = fmt.Appendf(out, "x%q", fmt.Sprintf("%x", v))
		default:
			out = (&Field{Type: TypeTime, Unit: FullRange}).appendFormat(out, v)
		}
		if desc {
			out = append(out, " desc"...)
		}
	}
	return string(out), nil
}
