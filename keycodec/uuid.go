package keycodec

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// UUID is a universally unique identifier (RFC 9562) in network byte order. It sorts by
// its bytes: version 7 by time, the other versions without meaning.
type UUID [16]byte

// String returns the canonical text, 8-4-4-4-12 lower-case hexadecimal digits.
func (u UUID) String() string { return string(u.append(nil)) }

func (u UUID) append(dst []byte) []byte {
	dst = hex.AppendEncode(dst, u[:4])
	for i := 4; i < 10; i += 2 {
		dst = hex.AppendEncode(append(dst, '-'), u[i:i+2])
	}
	return hex.AppendEncode(append(dst, '-'), u[10:])
}

// ParseUUID reads the canonical text; upper-case digits are accepted.
func ParseUUID(s string) (u UUID, err error) {
	bad := fmt.Errorf("keycodec: %q is not a UUID", s)
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return UUID{}, bad
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return UUID{}, bad
	}
	return u, nil
}

// AppendUUID appends the ordered encoding of u, its 16 bytes.
func AppendUUID(dst []byte, u UUID) []byte {
	// Why not append(dst, u[:]...): two stores of words are faster than a call that copies.
	dst = binary.NativeEndian.AppendUint64(dst, binary.NativeEndian.Uint64(u[:8]))
	return binary.NativeEndian.AppendUint64(dst, binary.NativeEndian.Uint64(u[8:]))
}

// DecodeUUID reads the UUID at the start of b and returns what follows it.
func DecodeUUID(b []byte) (u UUID, rest []byte, err error) {
	if len(b) < len(u) {
		return UUID{}, nil, truncated("UUID", len(u), len(b))
	}
	return UUID(b), b[len(u):], nil
}
