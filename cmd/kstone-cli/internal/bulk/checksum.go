package bulk

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
)

// checksum is that of rows in any order: the sum of hashes of their values. The same rows have the
// same one in every store.
type checksum struct {
	rows int64
	sum  [2]uint64
}

// add adds a row.
func (c *checksum) add(row []expr.Value) {
	var b []byte
	for _, v := range row {
		text := v.Canonical().String()
		b = append(b, byte(v.Kind()))
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	h := sha256.Sum256(b)
	c.rows++
	c.sum[0] += binary.BigEndian.Uint64(h[:])
	c.sum[1] += binary.BigEndian.Uint64(h[8:])
}

// String returns it in hexadecimal.
func (c checksum) String() string { return fmt.Sprintf("%016x%016x", c.sum[0], c.sum[1]) }
