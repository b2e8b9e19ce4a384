package base

import "encoding/binary"

// KeyHead returns the first eight bytes of key, padded with zeros, as a number that
// orders like them. Equal heads say nothing about the order of the keys.
func KeyHead(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}
