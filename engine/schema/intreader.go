package schema

import (
	"encoding/binary"
	"math"

	"github.com/kstonedb/kstone/keycodec"
)

// IntReader reads columns of 64-bit integers of many rows at a time. It is immutable.
type IntReader struct {
	layout *Layout // the newest
	slots  []*Slot
	// Most bodies are narrow: of least bytes, up to most more.
	least, most int
}

// IntReader returns a reader of some columns, nil if they are not all of that type and in the value
// of a row.
func (t *Table) IntReader(ordinals []int) *IntReader {
	l := t.Layout()
	r := &IntReader{layout: l, least: l.base + max(l.Vars-1, 0)*formatNarrow}
	if l.Vars > 0 {
		r.most = math.MaxUint8
	}
	for _, o := range ordinals {
		s := l.Slot(o)
		if s == nil || s.Type != keycodec.TypeInt64 || s.List {
			return nil
		}
		r.slots = append(r.slots, s)
	}
	return r
}

// Read sets columns[k][i] to column k of values[i], and keep[i] to whether none of row i is NULL.
// It reports false if it cannot: a row has another layout, or is damaged. Requires: all lengths
// are those of values.
func (r *IntReader) Read(columns [][]int64, keep []bool, values [][]byte) bool {
	version := r.layout.Version
	for i, v := range values {
		if len(v) < 2 || v[1] >= 0x80 || uint32(v[1]) != version {
			return false
		}
		if v[0] != formatNarrow || uint(len(v)-2-r.least) > uint(r.most) {
			if _, err := r.layout.view(v[0], v[2:]); err != nil {
				return false
			}
		}
		keep[i] = true
	}
	for k, s := range r.slots {
		out, at := columns[k][:len(values)], 2+s.Offset
		if s.Null < 0 {
			for i, v := range values {
				out[i] = int64(binary.LittleEndian.Uint64(v[at:]))
			}
			continue
		}
		null, bit := 2+s.Null>>3, byte(1)<<(s.Null&7)
		for i, v := range values {
			out[i] = int64(binary.LittleEndian.Uint64(v[at:]))
			keep[i] = keep[i] && v[null]&bit == 0
		}
	}
	return true
}
