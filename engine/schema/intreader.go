package schema

import (
	"encoding/binary"
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// IntReader reads columns of 64-bit integers of many rows at a time. It is immutable.
type IntReader struct {
	layout *Layout // the newest
	slots  []*Slot
	// Most bodies are narrow, and values begin with head: of least bytes, up to most more.
	head        uint16
	least, most int
}

// IntReader returns a reader of some columns, nil if they are not all of that type and in the value
// of a row.
func (t *Table) IntReader(ordinals []int) *IntReader {
	l := t.Layout()
	r := &IntReader{layout: l, least: 2 + l.base + max(l.Vars-1, 0)*formatNarrow}
	if l.Version >= 0x80 {
		return nil // it takes two bytes
	}
	r.head = formatNarrow | uint16(l.Version)<<8
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

// Read sets columns[k][i] to column k of value i, and keep[i] to whether none of row i is NULL. It
// reports false if it cannot: a row has another layout, or is damaged. Requires: all lengths are
// those of values.
func (r *IntReader) Read(columns [][]int64, keep []bool, values *base.Values) bool {
	keep = keep[:values.Len()]
	for k, s := range r.slots {
		out, at := columns[k][:len(keep)], 2+s.Offset
		null, bit := 0, byte(0) // of a byte that is there
		if s.Null >= 0 {
			null, bit = 2+s.Null>>3, byte(1)<<(s.Null&7)
		}
		for i := range out {
			v := values.At(i)
			if k == 0 {
				if len(v) < 2 || binary.LittleEndian.Uint16(v) != r.head ||
					uint(len(v)-r.least) > uint(r.most) {
					if !r.wide(v) {
						return false
					}
				}
				keep[i] = true
			}
			out[i] = int64(binary.LittleEndian.Uint64(v[at:]))
			if v[null]&bit != 0 {
				keep[i] = false
			}
		}
	}
	return true
}

// wide reports whether a value is of the layout, in another form than most are.
func (r *IntReader) wide(v []byte) bool {
	if len(v) < 2 || uint32(v[1]) != r.layout.Version {
		return false
	}
	_, err := r.layout.view(v[0], v[2:])
	return err == nil
}
