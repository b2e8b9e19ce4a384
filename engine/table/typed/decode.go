package typed

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// Rows are read into structs by the offsets of their fields. Fixed columns and texts, which
// most columns are, go from the bytes to the field; all others take the way over a value.

// rowReader reads rows of one layout into structs. It is immutable.
type rowReader struct {
	layout *schema.Layout
	body   []slotField
	keys   [2][]partField // of the partition key and of the sort key
	absent []*field       // columns that rows of the layout do not have
	fill   []expr.Value   // what these are
}

// slotField is a column in the value of a row.
type slotField struct {
	slot   *schema.Slot
	field  *field
	direct bool // not over a value
}

// partField is a column of the primary key.
type partField struct {
	column *schema.Column
	key    schema.KeyColumn
	field  *field // nil: passed over
	direct bool
}

func newRowReader(fields []*field, b *binding, l *schema.Layout) *rowReader {
	r := &rowReader{layout: l}
	byOrdinal := map[int]*field{}
	for i, o := range b.ordinals {
		byOrdinal[o] = fields[i]
	}
	inKey := map[int]bool{}
	for part, columns := range [][]schema.KeyColumn{b.schema.PK, b.schema.SK} {
		for _, k := range columns {
			c := &b.schema.Columns[k.Ordinal]
			f := byOrdinal[k.Ordinal]
			if c.Collation != keycodec.CollateBytes {
				f = nil // it is in the value, too, and not folded there
			} else {
				inKey[k.Ordinal] = true
			}
			direct := !c.Nullable && !k.Desc && f != nil && f.direct()
			r.keys[part] = append(r.keys[part], partField{c, k, f, direct})
		}
	}
	for i, o := range b.ordinals {
		switch s := l.Slot(o); {
		case inKey[o]:
		case s != nil:
			r.body = append(r.body, slotField{s, fields[i], fields[i].direct()})
		default:
			r.absent = append(r.absent, fields[i])
			r.fill = append(r.fill, b.schema.Columns[o].BeforeValue())
		}
	}
	return r
}

// texts returns how many texts are read from the value.
func (r *rowReader) texts() (n int) {
	for i := range r.body {
		if s := &r.body[i]; s.direct && s.slot.Width == 0 {
			n++
		}
	}
	return n
}

// direct reports whether readFixed and setString know the field.
func (f *field) direct() bool {
	if f.pointer || f.column.List {
		return false
	}
	switch f.kind {
	case kindTime:
		return f.column.Unit > keycodec.Second && f.column.Unit <= keycodec.Nanosecond
	case kindBytes, kindIP, kindPrefix, kindDecimal, kindBool:
		return false
	}
	return true
}

// read reads a row into the struct that row points to. With keep the struct shares no bytes
// with the item. It fails with an error that matches engine.ErrCorrupt if the item is
// damaged.
func (b *binding) read(row unsafe.Pointer, key store.Key, value []byte, keep bool) error {
	return b.readParts(row, key, value, keep, keep)
}

// readParts is read; keepTexts is keep for the texts in the value that are read directly.
func (b *binding) readParts(row unsafe.Pointer, key store.Key, value []byte,
	keep, keepTexts bool) error {
	v, err := b.schema.View(value)
	if err != nil {
		return err
	}
	r := b.readers[0]
	for i := 1; r.layout != v.Layout; i++ {
		r = b.readers[i]
	}
	for i := range r.body {
		if err := r.body[i].read(row, &v, keep, keepTexts); err != nil {
			return err
		}
	}
	for i, f := range r.absent {
		if err := f.set(row, r.fill[i], keep); err != nil {
			return err
		}
	}
	if id, ok := schema.RowTable(key.PK); !ok || id != b.schema.ID {
		return fmt.Errorf("typed: a key of table %d instead of %d", id, b.schema.ID)
	}
	if !b.schema.Sharded() { // else there are no columns in it
		if err := readKey(row, r.keys[0], key.PK[rowHead:], keep); err != nil {
			return err
		}
	}
	return readKey(row, r.keys[1], key.SK, keep)
}

// mostShared is the longest value that is copied as a whole for the texts in it.
const mostShared = 1 << 10

// shares reports whether the texts of a row to keep share one copy of its value, because there
// are several.
func (b *binding) shares(value []byte) bool { return b.texts > 1 && len(value) <= mostShared }

// rowHead is the length of what precedes the columns in the partition key of a row.
const rowHead = 5

func (s *slotField) read(row unsafe.Pointer, v *schema.View, keep, keepTexts bool) error {
	f := s.field
	if !s.direct || s.slot.Null >= 0 && v.Null(s.slot) {
		value, err := v.Value(s.slot)
		if err != nil {
			return err
		}
		return f.set(row, value, keep)
	}
	if s.slot.Width > 0 {
		b := v.Fixed(s.slot)
		if len(b) == 8 && f.kind != kindTime { // most columns
			*(*uint64)(f.at(row)) = binary.LittleEndian.Uint64(b)
			return nil
		}
		f.setLittle(f.at(row), b)
		return nil
	}
	text, err := v.Bytes(s.slot)
	if err != nil {
		return err
	}
	setString((*string)(f.at(row)), unsafe.String(unsafe.SliceData(text), len(text)), keepTexts)
	return nil
}

// setLittle stores the little-endian bytes of a fixed column for read.
func (f *field) setLittle(p unsafe.Pointer, b []byte) {
	switch len(b) {
	case 1:
		*(*uint8)(p) = b[0]
	case 2:
		*(*uint16)(p) = binary.LittleEndian.Uint16(b)
	case 4:
		*(*uint32)(p) = binary.LittleEndian.Uint32(b)
	case 8: // read has stored all others
		*(*time.Time)(p) = timeOfTicks(int64(binary.LittleEndian.Uint64(b)), f.column.Unit)
	default:
		*(*[16]byte)(p) = [16]byte(b)
	}
}

// timeOfTicks returns the time that many units after 1970. Seconds are not among the units:
// not all of them are times.
func timeOfTicks(ticks int64, unit keycodec.Unit) time.Time {
	switch unit {
	case keycodec.Millisecond:
		return time.UnixMilli(ticks).UTC()
	case keycodec.Microsecond:
		return time.UnixMicro(ticks).UTC()
	}
	return time.Unix(0, ticks).UTC()
}

// readKey reads the columns of one part of the primary key, all of b.
func readKey(row unsafe.Pointer, parts []partField, b []byte, keep bool) error {
	for i := range parts {
		p := &parts[i]
		if p.direct {
			if rest, ok := p.field.setBig(p.field.at(row), b, keep); ok {
				b = rest
				continue
			}
		}
		v, rest, err := p.column.DecodeField(b, p.key)
		if err != nil {
			return err
		}
		if p.field != nil {
			if err := p.field.set(row, v, keep); err != nil {
				return err
			}
		}
		b = rest
	}
	if len(b) > 0 {
		return fmt.Errorf("typed: %d more bytes after a key", len(b))
	}
	return nil
}

// setBig stores a column from the ordered encoding in a key, and returns what follows it; ok
// is false if the short way cannot read it.
func (f *field) setBig(p unsafe.Pointer, b []byte, keep bool) (rest []byte, ok bool) {
	if f.kind == kindString {
		text, rest, err := keycodec.DecodeBytes(b)
		if err != nil {
			return nil, false
		}
		setString((*string)(p), unsafe.String(unsafe.SliceData(text), len(text)), keep)
		return rest, true
	}
	width := int(f.size)
	if f.kind == kindTime {
		width = 8
	}
	if len(b) < width {
		return nil, false
	}
	switch f.kind {
	case kindUUID:
		*(*[16]byte)(p) = [16]byte(b)
	case kindTime:
		ticks := int64(binary.BigEndian.Uint64(b) ^ 1<<63)
		*(*time.Time)(p) = timeOfTicks(ticks, f.column.Unit)
	case kindInt64, kindCoefficient:
		*(*uint64)(p) = binary.BigEndian.Uint64(b) ^ 1<<63
	case kindInt32:
		*(*uint32)(p) = binary.BigEndian.Uint32(b) ^ 1<<31
	case kindUint64:
		*(*uint64)(p) = binary.BigEndian.Uint64(b)
	case kindUint32:
		*(*uint32)(p) = binary.BigEndian.Uint32(b)
	default:
		return nil, false
	}
	return b[width:], true
}

// setValues reads a row of values, as queries return it, into a struct: a value for each
// field, in their order.
func setValues(row unsafe.Pointer, fields []*field, values []expr.Value, keep bool) error {
	for i, f := range fields {
		if err := f.set(row, values[i], keep); err != nil {
			return err
		}
	}
	return nil
}

// appendValues appends the row of values that a struct is: a place for each column of the
// table. Columns that the struct does not have get their default. Texts share the bytes of
// the struct.
func (b *binding) appendValues(dst []expr.Value, fields []*field,
	row unsafe.Pointer) []expr.Value {
	if b.full {
		for _, f := range fields {
			dst = append(dst, f.get(row))
		}
		return dst
	}
	start := len(dst)
	for range b.schema.Columns {
		dst = append(dst, expr.Value{})
	}
	b.schema.Complete(dst[start:], &b.all)
	for i, f := range fields {
		dst[start+b.ordinals[i]] = f.get(row)
	}
	return dst
}
