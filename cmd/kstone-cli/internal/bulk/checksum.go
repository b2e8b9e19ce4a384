package bulk

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
)

// Checksum is that of rows in any order: the sum of hashes of their values. The same rows have the
// same one in every store.
type Checksum struct {
	rows int64
	sum  [2]uint64
}

// addRow adds a row.
func (c *Checksum) addRow(row []expr.Value) {
	var b []byte
	for _, v := range row {
		text := v.Canonical().String()
		b = append(b, byte(v.Kind()))
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	c.add(b)
}

// Add adds something that consists of some parts; a nil part is not an empty one.
func (c *Checksum) Add(parts ...[]byte) {
	var b []byte
	for _, part := range parts {
		length := uint64(len(part)) + 1
		if part == nil {
			length = 0
		}
		b = append(binary.AppendUvarint(b, length), part...)
	}
	c.add(b)
}

func (c *Checksum) add(b []byte) {
	h := sha256.Sum256(b)
	c.rows++
	c.sum[0] += binary.BigEndian.Uint64(h[:])
	c.sum[1] += binary.BigEndian.Uint64(h[8:])
}

// Rows returns how many rows there are.
func (c *Checksum) Rows() int64 { return c.rows }

// String returns it in hexadecimal.
func (c Checksum) String() string { return fmt.Sprintf("%016x%016x", c.sum[0], c.sum[1]) }
