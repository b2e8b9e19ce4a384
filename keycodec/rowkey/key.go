package rowkey

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// Key is a decoded key. The zero Key has no parts.
type Key struct {
	raw   []byte
	parts []part
}

// part is where a part stands in the key.
type part struct {
	start, end int
	zeros      int // escaped zero bytes in it
}

// Parse reads a key. It fails with a *corrupt.Error, whose offset is a position in raw,
// if no builder writes these bytes. If it does not fail, the parts that it found, added
// to a builder again, give raw.
//
// Ownership: the Key refers to raw.
func Parse(raw []byte) (Key, error) {
	if len(raw) == 0 {
		return Key{}, corrupt.New("", 0, "row key", "a part", "no bytes")
	}
	k := Key{raw: raw, parts: make([]part, 0, 4)}
	p := part{}
	for i := 0; ; i += 2 { // i is after an escape sequence
		n := bytes.IndexByte(raw[i:], escape)
		if n < 0 {
			break
		}
		i += n
		switch {
		case i+1 == len(raw):
			return Key{}, corrupt.New("", int64(i), "row key", "00 00 or 00 01", "00 and the end")
		case raw[i+1] == escapedNul:
			p.zeros++
		case raw[i+1] == separator:
			p.end = i
			k.parts = append(k.parts, p)
			p = part{start: i + 2}
		default:
			return Key{}, corrupt.New("", int64(i), "row key", "00 00 or 00 01",
				fmt.Sprintf("00 %02x", raw[i+1]))
		}
	}
	p.end = len(raw)
	k.parts = append(k.parts, p)
	return k, nil
}

// Len returns the number of parts.
func (k Key) Len() int { return len(k.parts) }

// Offset returns the position in the key at which part i begins. Requires: 0 <= i < Len().
func (k Key) Offset(i int) int { return k.parts[i].start }

// Bytes returns part i, counted from 0. It fails only if there is no such part.
//
// Ownership: the result is a view into the key, unless the part contains zero bytes; then
// it is a copy.
func (k Key) Bytes(i int) ([]byte, error) {
	if i < 0 || i >= len(k.parts) {
		return nil, fmt.Errorf("rowkey: part %d of a key of %d parts", i, len(k.parts))
	}
	p := k.parts[i]
	b := k.raw[p.start:p.end:p.end]
	if p.zeros == 0 {
		return b, nil
	}
	out := make([]byte, 0, len(b)-p.zeros)
	for j := 0; j < len(b); j++ {
		out = append(out, b[j])
		if b[j] == escape {
			j++
		}
	}
	return out, nil
}

// String returns part i as a string. Errors are those of Bytes.
func (k Key) String(i int) (string, error) {
	b, err := k.Bytes(i)
	return string(b), err
}

// Int64 returns part i, which must have the 8 bytes of an integer. It also reads negative
// integers, which other programs may have written.
func (k Key) Int64(i int) (int64, error) {
	b, err := k.Bytes(i)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, k.damaged(i, "8 bytes of an integer", fmt.Sprintf("%d bytes", len(b)))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// Varint returns part i, which must be one varint.
func (k Key) Varint(i int) (uint64, error) {
	b, err := k.Bytes(i)
	if err != nil {
		return 0, err
	}
	v, rest, err := DecodeVarint(b)
	if err != nil || len(rest) > 0 {
		return 0, k.damaged(i, "a varint", fmt.Sprintf("%x", b))
	}
	return v, nil
}

func (k Key) damaged(i int, want, got any) error {
	return corrupt.New("", int64(k.parts[i].start), fmt.Sprintf("part %d of a row key", i), want,
		got)
}
