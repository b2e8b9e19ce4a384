package typed

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// The opposite of rowReader: structs become the bytes of rows by the offsets of their
// fields, if all their columns are of the kinds that hold their bytes in memory. Structs
// with others take the way over values.

// rowWriter writes structs as rows of the present layout. It is immutable.
type rowWriter struct {
	keys [2][]*field // of the partition key and of the sort key
	body []slotField // in the order of the slots
}

// newRowWriter returns nil if the rows have to be made of values.
func newRowWriter(fields []*field, b *binding) *rowWriter {
	if !b.full || b.schema.TTL != nil {
		return nil
	}
	r := &rowWriter{}
	for part, columns := range [][]schema.KeyColumn{b.schema.PK, b.schema.SK} {
		for _, k := range columns {
			c, f := &b.schema.Columns[k.Ordinal], fields[k.Ordinal]
			if c.Nullable || k.Desc || c.Collation != keycodec.CollateBytes || !f.stored() {
				return nil
			}
			r.keys[part] = append(r.keys[part], f)
		}
	}
	l := b.schema.Layout()
	for i := range l.Slots {
		f := fields[l.Slots[i].Ordinal]
		if !f.stored() {
			return nil
		}
		r.body = append(r.body, slotField{slot: &l.Slots[i], field: f})
	}
	return r
}

// stored reports whether appendBig and putLittle know the field.
func (f *field) stored() bool {
	if f.column.List {
		return false
	}
	switch f.kind {
	case kindTime:
		return f.column.Unit > keycodec.Second && f.column.Unit <= keycodec.Nanosecond
	case kindBytes, kindIP, kindPrefix, kindDecimal, kindFloat32, kindFloat64:
		return false
	}
	return true
}

// present returns where the value of the field is, nil if it is NULL.
func (f *field) present(row unsafe.Pointer) unsafe.Pointer {
	p := f.at(row)
	switch {
	case f.pointer:
		return *(*unsafe.Pointer)(p)
	case f.zero && f.isZero(p):
		return nil
	}
	return p
}

// appendKey appends one part of the primary key; ok is false if values are needed.
func (r *rowWriter) appendKey(dst []byte, part int, row unsafe.Pointer) (_ []byte, ok bool) {
	for _, f := range r.keys[part] {
		if dst, ok = f.appendBig(dst, f.at(row)); !ok {
			return dst, false
		}
	}
	return dst, true
}

// appendRow appends the value of a row; ok is false if values are needed.
func (r *rowWriter) appendRow(dst []byte, t *schema.Table, row unsafe.Pointer) (_ []byte,
	ok bool) {
	size := 0
	for i := range r.body {
		if s := &r.body[i]; s.slot.Width == 0 {
			if p := s.field.present(row); p != nil {
				size += len(*(*string)(p))
			}
		}
	}
	w := t.Writer(dst, size)
	for i := range r.body {
		s := &r.body[i]
		p := s.field.present(row)
		switch {
		case p == nil:
			w.Null(s.slot)
		case s.slot.Width == 0:
			w.Text(s.slot, *(*string)(p))
		case !s.field.putLittle(w.Fixed(s.slot), p):
			return dst, false
		}
	}
	out, _, ok := w.Finish()
	return out, ok
}

// putLittle writes a fixed column of a row, all of b.
func (f *field) putLittle(b []byte, p unsafe.Pointer) bool {
	switch len(b) {
	case 1:
		b[0] = *(*uint8)(p)
	case 2:
		binary.LittleEndian.PutUint16(b, *(*uint16)(p))
	case 4:
		binary.LittleEndian.PutUint32(b, *(*uint32)(p))
	case 8:
		u := *(*uint64)(p)
		if f.kind == kindTime {
			ticks, ok := ticksOfTime(*(*time.Time)(p), f.column.Unit)
			if !ok {
				return false
			}
			u = uint64(ticks)
		}
		binary.LittleEndian.PutUint64(b, u)
	default:
		copy(b, (*[16]byte)(p)[:])
	}
	return true
}

// appendBig appends the ordered encoding of a column.
func (f *field) appendBig(dst []byte, p unsafe.Pointer) (_ []byte, ok bool) {
	switch f.kind {
	case kindString:
		return keycodec.AppendString(dst, *(*string)(p)), true
	case kindInt64, kindCoefficient:
		return keycodec.AppendInt64(dst, *(*int64)(p)), true
	case kindUint64:
		return keycodec.AppendUint64(dst, *(*uint64)(p)), true
	case kindUUID:
		return keycodec.AppendUUID(dst, *(*[16]byte)(p)), true
	case kindTime:
		ticks, ok := ticksOfTime(*(*time.Time)(p), f.column.Unit)
		return keycodec.AppendInt64(dst, ticks), ok
	case kindInt32:
		return keycodec.AppendInt32(dst, *(*int32)(p)), true
	case kindUint32:
		return keycodec.AppendUint32(dst, *(*uint32)(p)), true
	case kindInt16:
		return keycodec.AppendInt16(dst, *(*int16)(p)), true
	case kindUint16:
		return keycodec.AppendUint16(dst, *(*uint16)(p)), true
	case kindInt8:
		return keycodec.AppendInt8(dst, *(*int8)(p)), true
	case kindUint8:
		return keycodec.AppendUint8(dst, *(*uint8)(p)), true
	case kindBool:
		return keycodec.AppendBool(dst, *(*bool)(p)), true
	}
	return dst, false
}

// ticksOfTime returns how many units a time is after 1970; ok is false if it is so far away
// that they might be too many.
func ticksOfTime(t time.Time, unit keycodec.Unit) (ticks int64, ok bool) {
	if s := t.Unix(); s <= -1<<33 || s >= 1<<33 {
		return 0, false
	}
	switch unit {
	case keycodec.Millisecond:
		return t.UnixMilli(), true
	case keycodec.Microsecond:
		return t.UnixMicro(), true
	}
	return t.UnixNano(), true
}
