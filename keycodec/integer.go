package keycodec

import "encoding/binary"

// The integers of 8, 16 and 32 bits. Their encodings are those of 64 bits in 1, 2 and 4
// bytes.

// AppendInt8 appends the ordered encoding of v, 1 byte.
func AppendInt8(dst []byte, v int8) []byte { return append(dst, uint8(v)^1<<7) }

// AppendInt16 appends the ordered encoding of v, 2 bytes.
func AppendInt16(dst []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(dst, uint16(v)^1<<15)
}

// AppendInt32 appends the ordered encoding of v, 4 bytes.
func AppendInt32(dst []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v)^1<<31)
}

// AppendUint8 appends the ordered encoding of v, 1 byte.
func AppendUint8(dst []byte, v uint8) []byte { return append(dst, v) }

// AppendUint16 appends the ordered encoding of v, 2 bytes.
func AppendUint16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }

// AppendUint32 appends the ordered encoding of v, 4 bytes.
func AppendUint32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

// DecodeInt8 reads the int8 at the start of b and returns what follows it.
func DecodeInt8(b []byte) (v int8, rest []byte, err error) {
	u, rest, err := decodeUint(b, 1, "int8")
	return int8(u ^ 1<<7), rest, err
}

// DecodeInt16 reads the int16 at the start of b and returns what follows it.
func DecodeInt16(b []byte) (v int16, rest []byte, err error) {
	u, rest, err := decodeUint(b, 2, "int16")
	return int16(u ^ 1<<15), rest, err
}

// DecodeInt32 reads the int32 at the start of b and returns what follows it.
func DecodeInt32(b []byte) (v int32, rest []byte, err error) {
	u, rest, err := decodeUint(b, 4, "int32")
	return int32(u ^ 1<<31), rest, err
}

// DecodeUint8 reads the uint8 at the start of b and returns what follows it.
func DecodeUint8(b []byte) (v uint8, rest []byte, err error) {
	u, rest, err := decodeUint(b, 1, "uint8")
	return uint8(u), rest, err
}

// DecodeUint16 reads the uint16 at the start of b and returns what follows it.
func DecodeUint16(b []byte) (v uint16, rest []byte, err error) {
	u, rest, err := decodeUint(b, 2, "uint16")
	return uint16(u), rest, err
}

// DecodeUint32 reads the uint32 at the start of b and returns what follows it.
func DecodeUint32(b []byte) (v uint32, rest []byte, err error) {
	u, rest, err := decodeUint(b, 4, "uint32")
	return uint32(u), rest, err
}

// appendUint appends the last width bytes of v.
func appendUint(dst []byte, v uint64, width int) []byte {
	for shift := 8 * (width - 1); shift >= 0; shift -= 8 {
		dst = append(dst, byte(v>>shift))
	}
	return dst
}

// decodeUint reads a number of width bytes.
func decodeUint(b []byte, width int, what string) (v uint64, rest []byte, err error) {
	if len(b) < width {
		return 0, nil, truncated(what, width, len(b))
	}
	for _, c := range b[:width] {
		v = v<<8 | uint64(c)
	}
	return v, b[width:], nil
}
