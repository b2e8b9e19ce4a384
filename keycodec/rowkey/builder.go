package rowkey

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/keycodec"
)

// Format: parts joined by the separator 00 00; a byte 00 of a part is written 00 01. So
// at any position of a part there can be its end (00 00), a zero byte (00 01) or another
// byte, and these three sort in this order.
const (
	escape     = 0x00
	separator  = 0x00 // after escape: the part ends, another one follows
	escapedNul = 0x01 // after escape: a zero byte of the part
)

// Errors of Builder, matched with errors.Is.
var (
	ErrNoParts  = errors.New("rowkey: a key of no parts, or of one empty part, has no bytes")
	ErrNegative = errors.New("rowkey: a negative integer would sort after the positive ones")
)

// Builder collects the parts of a key. The zero value is an empty builder. A part that
// cannot be added makes the next Drain fail, so that calls can be chained:
//
//	key, err := new(rowkey.Builder).AddString("building").AddInt64(10).Drain()
type Builder struct {
	key   []byte
	parts int
	err   error
}

// AddString adds a part. Any bytes are allowed.
func (b *Builder) AddString(s string) *Builder {
	b.begin()
	b.key = keycodec.PrefixString(b.key, s)
	return b
}

// AddBytes adds a part, a copy of s.
func (b *Builder) AddBytes(s []byte) *Builder {
	b.begin()
	b.key = keycodec.PrefixBytes(b.key, s)
	return b
}

// AddInt64 adds the 8 bytes of v, big-endian, as a part. Negative integers are refused
// with ErrNegative; a caller that has to write them for another program adds their bytes.
func (b *Builder) AddInt64(v int64) *Builder {
	if v < 0 {
		b.fail(fmt.Errorf("%w: %d", ErrNegative, v))
	}
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], uint64(v))
	return b.AddBytes(buf[:])
}

// AddVarint adds the varint of v as a part.
func (b *Builder) AddVarint(v uint64) *Builder {
	var buf [maxVarintBytes]byte
	return b.AddBytes(AppendVarint(buf[:0], v))
}

// Drain returns the key and empties the builder. It fails with the error of the first
// part that could not be added, or with ErrNoParts.
//
// Ownership: the key is the caller's.
func (b *Builder) Drain() ([]byte, error) {
	key, err := b.key, b.err
	*b = Builder{}
	switch {
	case err != nil:
		return nil, err
	case len(key) == 0:
		return nil, ErrNoParts
	}
	return key, nil
}

// DrainPrefix returns what the keys begin with that have the parts added so far and at
// least one more, and empties the builder: the parts, and a separator. The key that ends
// with these parts does not begin with it. With no parts at all it is empty.
//
// The start of a part that is left open ("begins with") is the result of Drain.
func (b *Builder) DrainPrefix() ([]byte, error) {
	if b.parts > 0 {
		b.begin()
	}
	key, err := b.key, b.err
	*b = Builder{}
	if err != nil {
		return nil, err
	}
	return key, nil
}

// begin writes the separator before every part but the first.
func (b *Builder) begin() {
	if b.parts > 0 {
		b.key = append(b.key, escape, separator)
	}
	b.parts++
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}
