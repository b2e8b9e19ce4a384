package keycodec

import (
	"encoding/binary"
	"math"
)

// Format: numbers are big-endian and of fixed width, so they need neither escape nor
// terminator. Signed ones have their sign bit flipped. Floats have the sign bit set if
// positive and all bits inverted if negative; -0 becomes +0 and every NaN becomes zero
// bytes, which sort first.
//
// Why one zero and one NaN: an equality condition then is one point of the key space.

// signBit of the 64-bit types.
const signBit = 1 << 63

// AppendInt64 appends the ordered encoding of v, 8 bytes.
func AppendInt64(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^signBit)
}

// DecodeInt64 reads the int64 at the start of b and returns what follows it.
func DecodeInt64(b []byte) (v int64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, truncatedInt64(b)
	}
	return int64(binary.BigEndian.Uint64(b) ^ signBit), b[8:], nil
}

// truncatedInt64 is a function so that the compiler inlines DecodeInt64.
//
//go:noinline
func truncatedInt64(b []byte) error { return truncated("int64", 8, len(b)) }

// AppendUint64 appends the ordered encoding of v, 8 bytes.
func AppendUint64(dst []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, v)
}

// DecodeUint64 reads the uint64 at the start of b and returns what follows it.
func DecodeUint64(b []byte) (v uint64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, truncated("uint64", 8, len(b))
	}
	return binary.BigEndian.Uint64(b), b[8:], nil
}

// AppendBool appends the ordered encoding of v, one byte; false sorts first.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// DecodeBool reads the bool at the start of b and returns what follows it.
func DecodeBool(b []byte) (v bool, rest []byte, err error) {
	if len(b) == 0 {
		return false, nil, truncated("bool", 1, 0)
	}
	if b[0] > 1 {
		return false, nil, damaged("bool", 0, "00 or 01", hexByte(b[0]))
	}
	return b[0] == 1, b[1:], nil
}

// AppendFloat64 appends the ordered encoding of v, 8 bytes. The order is NaN, -Inf,
// negative numbers, zero, positive numbers, +Inf; all NaNs are one value, and so are
// the two zeros.
func AppendFloat64(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(dst, floatBits(v))
}

func floatBits(v float64) uint64 {
	switch bits := math.Float64bits(v); {
	case v != v:
		return 0
	case v == 0:
		return signBit
	case bits&signBit != 0:
		return ^bits
	default:
		return bits | signBit
	}
}

// AppendFloat32 appends the ordered encoding of v, 4 bytes, with the order of
// AppendFloat64.
func AppendFloat32(dst []byte, v float32) []byte {
	return binary.BigEndian.AppendUint32(dst, float32Bits(v))
}

func float32Bits(v float32) uint32 {
	switch bits := math.Float32bits(v); {
	case v != v:
		return 0
	case v == 0:
		return 1 << 31
	case bits&(1<<31) != 0:
		return ^bits
	default:
		return bits | 1<<31
	}
}

// DecodeFloat32 reads the float32 at the start of b and returns what follows it.
func DecodeFloat32(b []byte) (v float32, rest []byte, err error) {
	if len(b) < 4 {
		return 0, nil, truncated("float32", 4, len(b))
	}
	bits := binary.BigEndian.Uint32(b)
	switch {
	case bits == 0:
		return float32(math.NaN()), b[4:], nil
	case bits&(1<<31) != 0:
		v = math.Float32frombits(bits ^ 1<<31)
	default:
		v = math.Float32frombits(^bits)
	}
	if float32Bits(v) != bits {
		return 0, nil, damaged("float32", 0, "one NaN and one zero", "another")
	}
	return v, b[4:], nil
}

// DecodeFloat64 reads the float64 at the start of b and returns what follows it.
func DecodeFloat64(b []byte) (v float64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, truncated("float64", 8, len(b))
	}
	bits := binary.BigEndian.Uint64(b)
	switch {
	case bits == 0:
		return math.NaN(), b[8:], nil
	case bits&signBit != 0:
		v = math.Float64frombits(bits ^ signBit)
	default:
		v = math.Float64frombits(^bits)
	}
	if floatBits(v) != bits {
		return 0, nil, damaged("float64", 0, "one NaN and one zero", "another")
	}
	return v, b[8:], nil
}
