package expr

import (
	"encoding/binary"
	"errors"
	"iter"
	"unsafe"
)

// Format: a list is its elements one after the other, each of them the number of its kind
// and
//
//	null              nothing
//	bool              1 byte, 0 or 1
//	int, uint         a varint, a uvarint
//	float             8 bytes, IEEE 754, little-endian
//	string, bytes     uvarint length, the bytes
//	list              likewise
//	time              varint seconds, uvarint nanoseconds
//	uuid              16 bytes
//	decimal           scale, 0 to 18, and a varint coefficient; or FF, uvarint length and
//	                  the ordered encoding, if it is large
//	ip, ipprefix      4 or 6, the 4 or 16 bytes; of a prefix its length in bits
//
// Elements have one encoding, so equal lists are equal bytes.

const largeDecimal = 0xff

var errList = errors.New("expr: damaged list")

// List returns a list, NULLs and lists among its elements as they are.
func List(elements []Value) Value {
	var b []byte
	for _, e := range elements {
		b = appendElement(b, e)
	}
	return Value{kind: KindList, s: view(b), n: uint64(len(elements))}
}

// Len returns the number of elements of a list, and of bytes of a text or byte string.
func (v Value) Len() int {
	if v.kind == KindList {
		return int(v.n)
	}
	return len(v.s)
}

// Size returns how many bytes the value refers to: those of a text, of the elements of a list.
func (v Value) Size() int { return len(v.s) }

// Elements iterates over the elements of a list; they share its bytes. It is empty for
// values of other kinds.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.kind != KindList {
			return
		}
		for s := v.s; s != ""; {
			var e Value
			if e, s = nextElement(s); !yield(e) {
				return
			}
		}
	}
}

// ListBytes returns the encoding of a list, which DecodeList reads; ok is false for other
// kinds.
func (v Value) ListBytes() (encoded string, ok bool) { return v.s, v.kind == KindList }

// DecodeList returns the list with the given encoding, which it keeps. It fails if
// the encoding is damaged or has lists in it.
func DecodeList(encoded string) (Value, error) {
	n, err := 0, error(nil)
	for s := encoded; s != ""; n++ {
		var e Value
		if e, s, err = readElement(s); err != nil {
			return Value{}, err
		}
		if e.kind == KindList {
			return Value{}, errList
		}
	}
	return Value{kind: KindList, s: encoded, n: uint64(n)}, nil
}

// AppendValue appends the encoding that v has as an element of a list, which ReadValue reads.
func AppendValue(dst []byte, v Value) []byte { return appendElement(dst, v) }

// ReadValue returns the first value of encoded, which it shares the bytes of, and what follows.
// It fails if the encoding is damaged, or is that of a list with lists in it.
func ReadValue(encoded string) (v Value, rest string, err error) {
	if encoded == "" {
		return Value{}, "", errList
	}
	return readElement(encoded)
}

func appendElement(b []byte, v Value) []byte {
	b = append(b, byte(v.kind))
	switch v.kind {
	case KindBool:
		return append(b, byte(v.n))
	case KindInt:
		return binary.AppendVarint(b, int64(v.n))
	case KindUint:
		return binary.AppendUvarint(b, v.n)
	case KindFloat:
		return binary.LittleEndian.AppendUint64(b, v.n)
	case KindString, KindBytes, KindList:
		return append(binary.AppendUvarint(b, uint64(len(v.s))), v.s...)
	case KindTime:
		return binary.AppendUvarint(binary.AppendVarint(b, int64(v.n)), v.m)
	case KindUUID:
		b = binary.BigEndian.AppendUint64(b, v.n)
		return binary.BigEndian.AppendUint64(b, v.m)
	case KindDecimal:
		if v.s != "" {
			b = binary.AppendUvarint(append(b, largeDecimal), uint64(len(v.s)))
			return append(b, v.s...)
		}
		return binary.AppendVarint(append(b, v.places), int64(v.n))
	case KindIP, KindIPPrefix:
		b = append(b, v.family)
		if v.family == 6 {
			b = binary.BigEndian.AppendUint64(b, v.n)
			b = binary.BigEndian.AppendUint64(b, v.m)
		} else {
			b = binary.BigEndian.AppendUint32(b, uint32(v.m))
		}
		if v.kind == KindIPPrefix {
			b = append(b, v.places)
		}
	}
	return b
}

// AppendValues appends values as AppendValue does.
func AppendValues(dst []byte, values []Value) []byte {
	for i := range values {
		if n, ok := values[i].Integer(); ok {
			dst = binary.AppendVarint(append(dst, byte(KindInt)), n)
		} else {
			dst = appendElement(dst, values[i])
		}
	}
	return dst
}

// ReadValues reads values as ReadValue does, one for each place of dst, and returns what follows.
func ReadValues(dst []Value, encoded string) (rest string, err error) {
	for i := range dst {
		if n := readInt(&dst[i], encoded); n > 0 {
			encoded = encoded[n:]
		} else if dst[i], encoded, err = ReadValue(encoded); err != nil {
			return "", err
		}
	}
	return encoded, nil
}

// readInt reads a value of KindInt, and returns its length, 0 if it is not one, or not one of most.
func readInt(v *Value, s string) int {
	if s == "" || Kind(s[0]) != KindInt {
		return 0
	}
	x := uint64(0)
	for i := 1; i < min(len(s), binary.MaxVarintLen64); i++ {
		c := s[i]
		x |= uint64(c&0x7f) << (7 * (i - 1))
		if c < 0x80 {
			v.SetInt(int64(x>>1 ^ -(x & 1)))
			return i + 1
		}
	}
	return 0
}

// nextElement is readElement of a list that is known to be valid.
func nextElement(s string) (Value, string) {
	v, rest, err := readElement(s)
	if err != nil {
		return Value{}, ""
	}
	return v, rest
}

// readElement reads the first element of s, which is not empty; it shares the bytes.
func readElement(s string) (v Value, rest string, err error) {
	v.kind, s = Kind(s[0]), s[1:]
	ok := true
	switch v.kind {
	case KindNull:
		return v, s, nil
	case KindBool:
		if ok = s != "" && s[0] <= 1; ok {
			v.n, s = uint64(s[0]), s[1:]
		}
	case KindInt:
		v.n, s, ok = readVarint(s)
	case KindUint:
		v.n, s, ok = readUvarint(s)
	case KindFloat:
		if ok = len(s) >= 8; ok {
			v.n, s = binary.LittleEndian.Uint64(bytesOf(s)), s[8:]
			ok = Float(floatOf(v)).n == v.n
		}
	case KindString, KindBytes, KindList:
		v.s, s, ok = readText(s)
		if ok && v.kind == KindList {
			return nestedList(v.s, s)
		}
	case KindTime:
		if v.n, s, ok = readVarint(s); ok {
			v.m, s, ok = readUvarint(s)
			ok = ok && v.m < 1e9
		}
	case KindUUID:
		if ok = len(s) >= 16; ok {
			v.n, v.m, s = bigEndian(s), bigEndian(s[8:]), s[16:]
		}
	case KindDecimal:
		return readDecimal(s)
	case KindIP, KindIPPrefix:
		return readAddress(v.kind, s)
	default:
		ok = false
	}
	if !ok {
		return Value{}, "", errList
	}
	return v, s, nil
}

// nestedList checks the elements of a list inside a list.
func nestedList(encoded, rest string) (Value, string, error) {
	v, err := DecodeList(encoded)
	return v, rest, err
}

func readDecimal(s string) (v Value, rest string, err error) {
	if s == "" {
		return Value{}, "", errList
	}
	head, s := s[0], s[1:]
	if head == largeDecimal {
		encoded, rest, ok := readText(s)
		if !ok || !ValidDecimal(encoded) {
			return Value{}, "", errList
		}
		v = DecimalOf(encoded)
		if v.s == "" {
			return Value{}, "", errList // it is small
		}
		return v, rest, nil
	}
	n, rest, ok := readVarint(s)
	if !ok || head > maxSmallScale || Scaled(int64(n), int32(head)).places != head {
		return Value{}, "", errList
	}
	return Value{kind: KindDecimal, n: n, places: head}, rest, nil
}

func readAddress(kind Kind, s string) (v Value, rest string, err error) {
	v.kind = kind
	width, bits := 4, uint8(32)
	if s != "" && s[0] == 6 {
		width, bits = 16, 128
	}
	need := 1 + width
	if kind == KindIPPrefix {
		need++
	}
	if len(s) < need || (s[0] != 4 && s[0] != 6) {
		return Value{}, "", errList
	}
	v.family = s[0]
	if width == 4 {
		v.m = uint64(binary.BigEndian.Uint32(bytesOf(s[1:])))
	} else {
		v.n, v.m = bigEndian(s[1:]), bigEndian(s[9:])
	}
	if kind == KindIPPrefix {
		v.places = s[need-1]
		if v.places > bits {
			return Value{}, "", errList
		}
		if p, _ := v.AsPrefix(); p != p.Masked() {
			return Value{}, "", errList
		}
	}
	return v, s[need:], nil
}

func readText(s string) (text, rest string, ok bool) {
	n, s, ok := readUvarint(s)
	if !ok || n > uint64(len(s)) {
		return "", "", false
	}
	return s[:n], s[n:], true
}

// readUvarint refuses encodings that are longer than necessary.
func readUvarint(s string) (u uint64, rest string, ok bool) {
	u, n := binary.Uvarint(bytesOf(s))
	if n <= 0 || (n > 1 && s[n-1] == 0) {
		return 0, "", false
	}
	return u, s[n:], true
}

// readVarint returns the two's complement of a signed varint.
func readVarint(s string) (u uint64, rest string, ok bool) {
	zigzag, rest, ok := readUvarint(s)
	u = zigzag >> 1
	if zigzag&1 != 0 {
		u = ^u
	}
	return u, rest, ok
}

func bigEndian(s string) uint64 { return binary.BigEndian.Uint64(bytesOf(s)) }

// bytesOf returns s as bytes that are shared and must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
