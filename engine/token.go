package engine

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
)

// Cursor is the position after an item of a query or scan, from CursorAfter. It
// holds the item's key, so it stays exact whatever is written in between. It is
// checksummed and bound to the query or scan it came from.
//
// Format: version 1 byte | fingerprint of the query, 4 bytes BE | key in ordered
// form | CRC-32C of all before, 4 bytes BE.
type Cursor []byte

const cursorVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newCursor(fingerprint uint32, k Key) Cursor {
	c := make([]byte, 0, 16+len(k.PK)+len(k.SK))
	c = append(c, cursorVersion)
	c = binary.BigEndian.AppendUint32(c, fingerprint)
	c = keycodec.AppendOrdered(c, k)
	return binary.BigEndian.AppendUint32(c, crc32.Checksum(c, castagnoli))
}

// String returns the cursor as unpadded base64url text; ParseCursor reads it back.
func (c Cursor) String() string { return base64.RawURLEncoding.EncodeToString(c) }

// ParseCursor reads what Cursor.String wrote. The error matches ErrInvalidCursor.
func ParseCursor(s string) (Cursor, error) {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return nil, fmt.Errorf("%w: line break at byte %d", ErrInvalidCursor, i) // base64 skips it
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidCursor, err)
	}
	c := Cursor(b)
	if _, _, err := c.decode(); err != nil {
		return nil, err
	}
	return c, nil
}

// position returns the key, if the cursor belongs to the fingerprint.
func (c Cursor) position(fingerprint uint32) (Key, error) {
	f, k, err := c.decode()
	if err != nil {
		return Key{}, err
	}
	if f != fingerprint {
		return Key{}, fmt.Errorf("%w: it belongs to another query", ErrInvalidCursor)
	}
	return k, nil
}

func (c Cursor) decode() (fingerprint uint32, k Key, err error) {
	if len(c) < 9 {
		return 0, Key{}, fmt.Errorf("%w: %d bytes are too short", ErrInvalidCursor, len(c))
	}
	body, sum := c[:len(c)-4], binary.BigEndian.Uint32(c[len(c)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return 0, Key{}, fmt.Errorf("%w: checksum differs", ErrInvalidCursor)
	}
	if body[0] != cursorVersion {
		return 0, Key{}, fmt.Errorf("%w: version %d is unknown", ErrInvalidCursor, body[0])
	}
	k, _, err = keycodec.DecodeOrdered(body[5:], nil)
	if err != nil {
		return 0, Key{}, fmt.Errorf("%w: %w", ErrInvalidCursor, err)
	}
	return binary.BigEndian.Uint32(body[1:]), k, nil
}

// fingerprinter folds the fields that a cursor depends on into 32 bits.
type fingerprinter struct{ crc uint32 }

func newFingerprint(kind string) *fingerprinter {
	f := &fingerprinter{}
	f.bytes([]byte(kind))
	return f
}

func (f *fingerprinter) bytes(b []byte) {
	f.int(len(b))
	f.crc = crc32.Update(f.crc, castagnoli, b)
}

func (f *fingerprinter) int(n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	f.crc = crc32.Update(f.crc, castagnoli, b[:])
}

func (f *fingerprinter) byte(b byte) { f.int(int(b)) }

func (f *fingerprinter) bool(b bool) {
	if b {
		f.int(1)
	} else {
		f.int(0)
	}
}

func (f *fingerprinter) sum() uint32 { return f.crc }
