package dataset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// Values makes values of one size. A value starts with the number of its record and
// a version, 12 bytes; the rest is a piece of a pool, chosen by both, of which
// every 100 bytes are 50 random ones and their repetition: a fast codec halves it.
// A Values is immutable and may be shared.
type Values struct {
	size int
	pool []byte
}

const (
	stampBytes = 12
	poolBytes  = 1 << 20
	pieceBytes = 50
)

// NewValues returns the maker of values of size bytes, at least 16.
func NewValues(size int) *Values {
	v := &Values{size: max(size, 16), pool: make([]byte, 0, poolBytes+size+2*pieceBytes)}
	r := rand.New(rand.NewPCG(1, 2))
	for len(v.pool) < poolBytes+size {
		at := len(v.pool)
		for range pieceBytes {
			v.pool = append(v.pool, byte(r.Uint32()))
		}
		v.pool = append(v.pool, v.pool[at:]...)
	}
	return v
}

// Size is the length of every value in bytes.
func (v *Values) Size() int { return v.size }

// Append appends the value of record id in the given version.
func (v *Values) Append(dst []byte, id uint64, version uint32) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, id)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	return append(dst, v.body(id, version)...)
}

func (v *Values) body(id uint64, version uint32) []byte {
	at := mix(id^bits.RotateLeft64(uint64(version), 40)) % poolBytes
	return v.pool[at:][:v.size-stampBytes]
}

// Check returns an error unless value is one that Append made for id, in whatever
// version. Every byte is compared.
func (v *Values) Check(id uint64, value []byte) error {
	if len(value) != v.size {
		return fmt.Errorf("record %d: value of %d bytes, want %d", id, len(value), v.size)
	}
	if got := binary.LittleEndian.Uint64(value); got != id {
		return fmt.Errorf("record %d: value of record %d", id, got)
	}
	version := binary.LittleEndian.Uint32(value[8:])
	if !bytes.Equal(value[stampBytes:], v.body(id, version)) {
		return fmt.Errorf("record %d, version %d: damaged value", id, version)
	}
	return nil
}

// Version returns the version in a value that Check has accepted.
func Version(value []byte) uint32 { return binary.LittleEndian.Uint32(value[8:]) }
