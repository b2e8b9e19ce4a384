package schema

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// RowReader reads the same columns of many rows. What depends on the table and the columns alone
// is decided when it is made, and each value goes to its place in a row of the caller's. It is
// immutable.
type RowReader struct {
	table  *Table
	layout *Layout // the newest
	want   ColumnSet
	at     []int        // the place of each column that is wanted; nil: its ordinal
	slots  []placedSlot // of the newest layout
	room   [2]placedSlot
	// Most bodies are narrow: of data bytes before the variable part, which has up to most.
	data, most int
	inKey      bool       // columns are read from the key,
	inBody     bool       // and from the value,
	ints       bool       // where all are integers that are never NULL
	pk, sk     []keyField // of the key; nil: nothing is read from them
}

// placedSlot is a wanted column of a layout.
type placedSlot struct {
	*Slot
	at, offset int
	isInt      bool // and never NULL
}

// RowReader returns a reader of the columns that are wanted. Column i goes to place at[i], or to i
// if at is nil; at must not be changed any more. Columns that are dropped are NULL.
func (t *Table) RowReader(want ColumnSet, at []int) *RowReader {
	if want.Empty() {
		return &noColumns
	}
	r := new(RowReader)
	r.Init(t, want, at)
	return r
}

// Init makes r that reader of a table, in its memory. It must not be copied after that.
func (r *RowReader) Init(t *Table, want ColumnSet, at []int) {
	if want.Empty() {
		return
	}
	l := t.Layout()
	r.table, r.layout, r.want, r.at, r.ints = t, l, want, at, true
	if r.slots = r.room[:0]; want.Len() > len(r.room) {
		r.slots = make([]placedSlot, 0, want.Len())
	}
	for i := range l.Slots {
		if s := &l.Slots[i]; want.Has(s.Ordinal) {
			isInt := s.Type == keycodec.TypeInt64 && !s.List && s.Null < 0
			r.slots = append(r.slots, placedSlot{s, placeOf(s.Ordinal, at), s.Offset, isInt})
			r.ints = r.ints && isInt
		}
	}
	r.data = l.base + max(l.Vars-1, 0)*formatNarrow
	if l.Vars > 0 {
		r.most = math.MaxUint8
	}
	if want.meets(t.built.coveredPK) {
		r.pk = t.built.pk
	}
	if want.meets(t.built.coveredSK) {
		r.sk = t.built.sk
	}
	r.inKey = r.pk != nil || r.sk != nil
	r.inBody = !want.Without(*t.built.coveredPK).Without(*t.built.coveredSK).Empty()
}

// placeOf returns the place of a column: its ordinal if at is nil.
func placeOf(ordinal int, at []int) int {
	if at == nil {
		return ordinal
	}
	return at[ordinal]
}

// noColumns reads nothing.
var noColumns RowReader

// NeedsKey reports whether Read looks at the key of a row.
func (r *RowReader) NeedsKey() bool { return r.inKey }

// Read reads the columns of a row into dst, as Table.Decode does. Without NeedsKey the key may be
// the zero Key.
//
// Ownership: the values may share the bytes of key and value.
func (r *RowReader) Read(dst []expr.Value, key keycodec.Key, value []byte) error {
	if r.inBody {
		l := r.layout
		if len(value) < 2 || value[1] >= 0x80 || uint32(value[1]) != l.Version {
			if err := r.table.decodeValue(dst, value, &r.want, r.at); err != nil {
				return err
			}
			return r.readKey(dst, key)
		}
		if body := value[2:]; r.ints && value[0] == formatNarrow &&
			uint(len(body)-r.data) <= uint(r.most) {
			for i := range r.slots {
				s := &r.slots[i]
				dst[s.at].SetInt(int64(binary.LittleEndian.Uint64(body[s.offset:])))
			}
			if !r.inKey {
				return nil
			}
			return r.readKey(dst, key)
		}
		v, err := View{Layout: l, body: value[2:], width: formatNarrow, data: r.data}, error(nil)
		if value[0] != formatNarrow || uint(len(v.body)-r.data) > uint(r.most) {
			v, err = l.view(value[0], value[2:])
		}
		if err == nil {
			err = r.readBody(dst, &v)
		}
		if err != nil {
			return fmt.Errorf("schema: table %q: %w", r.table.Name, err)
		}
	}
	return r.readKey(dst, key)
}

// readKey reads the columns that are in the key.
func (r *RowReader) readKey(dst []expr.Value, key keycodec.Key) error {
	if !r.inKey {
		return nil
	}
	err := r.table.checkHead(key.PK)
	if err == nil && r.pk != nil {
		var rest []byte
		rest, err = decodeFields(dst, r.pk, key.PK[rowHead:], &r.want, r.at)
		err = keyEnd(key.PK, rest, err)
	}
	if err == nil && r.sk != nil {
		var rest []byte
		rest, err = decodeFields(dst, r.sk, key.SK, &r.want, r.at)
		err = keyEnd(key.SK, rest, err)
	}
	if err != nil {
		return fmt.Errorf("schema: table %q: %w", r.table.Name, err)
	}
	return nil
}

// readBody reads the columns that are in the value.
func (r *RowReader) readBody(dst []expr.Value, v *View) error {
	for i := range r.slots {
		s := &r.slots[i]
		if s.isInt {
			dst[s.at].SetInt(int64(binary.LittleEndian.Uint64(v.body[s.offset:])))
			continue
		}
		switch {
		case s.Null >= 0 && v.body[s.Null>>3]>>(s.Null&7)&1 != 0:
			dst[s.at] = expr.Value{}
			continue
		case s.Type == keycodec.TypeInt64 && !s.List:
			dst[s.at].SetInt(int64(binary.LittleEndian.Uint64(v.body[s.offset:])))
			continue
		}
		var err error
		if s.Width > 0 {
			dst[s.at], err = s.fixedValue(v.body[s.Offset : s.Offset+s.Width])
		} else if b, failed := v.Bytes(s.Slot); failed == nil {
			dst[s.at], err = s.varValue(b)
		} else {
			err = failed
		}
		if err != nil {
			return err
		}
	}
	return nil
}
