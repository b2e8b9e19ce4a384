package schema

import (
	"encoding/binary"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap"
)

// Column zones: a block of rows keeps the least and greatest value of the columns that are Zoned,
// by their ids. A value is encoded as in a key, ascending and without marker. Types of columns
// and what rows have of columns that were added later never change, so neither do descriptions.

// zoneField is a column that zones have.
type zoneField struct {
	keyField
	id uint64
}

// zoneTextBytes is how much of a text is described: one more byte than bounds have.
const zoneTextBytes = zonemap.MaxBoundBytes + 1

// Zoned reports whether blocks may have zones of the column: it has single values, which are
// compared by their bytes.
func (c *Column) Zoned() bool {
	return !c.Dropped && !c.List && c.Collation == keycodec.CollateBytes
}

// ZoneGroup returns the group of the table's rows in column zones.
func (t *Table) ZoneGroup() uint64 { return uint64(t.ID) }

// buildZones chooses the columns to describe. Why not the first of the key: rows are in its order,
// so that a condition on it selects keys.
func (t *Table) buildZones() (fields []zoneField) {
	for i := range t.Columns {
		c := &t.Columns[i]
		if len(fields) == zonemap.MaxColumns {
			break
		}
		if c.Zoned() && i != t.PK[0].Ordinal {
			f := c.keyField(KeyColumn{})
			f.Nullable, f.ordinal = false, i
			fields = append(fields, zoneField{f, uint64(c.ID)})
		}
	}
	return fields
}

// DescribeRow describes a row for column zones. What cannot be decoded is Unknown.
func (t *Table) DescribeRow(b *zonemap.ColumnsBuilder, key keycodec.Key, value []byte) {
	v, err := t.View(value)
	if err != nil {
		b.Unknown()
		return
	}
	b.Row(t.ZoneGroup())
	for i := range t.built.zones {
		f := &t.built.zones[i]
		c := &t.Columns[f.ordinal]
		s := v.Layout.Slot(f.ordinal)
		switch {
		case s != nil && v.Null(s):
			b.Null(f.id)
		case s != nil:
			f.describe(b, &v, s)
		case t.built.key.Has(f.ordinal):
		case c.Added <= v.Layout.Version:
			// A layout of after the column was dropped: not reported, so not known.
		default:
			f.describeValue(b, c.DefaultValue())
		}
	}
	t.describeKey(b, t.built.pk, key.PK[min(rowHead, len(key.PK)):])
	t.describeKey(b, t.built.sk, key.SK)
}

// describe reports a column of a row's body.
func (f *zoneField) describe(b *zonemap.ColumnsBuilder, v *View, s *Slot) {
	if s.Width == 0 && f.isText() {
		if text, err := v.Bytes(s); err == nil {
			text = text[:min(len(text), zoneTextBytes)]
			b.Scratch = keycodec.AppendString(b.Scratch[:0], view(text))
			b.Value(f.id, b.Scratch)
		}
		return
	}
	if s.Width > 0 {
		if ordered, ok := orderedInt(f.Type, f.Unit, v.Fixed(s)); ok {
			b.Scratch = appendBig(b.Scratch[:0], ordered, s.Width)
			b.Value(f.id, b.Scratch)
			return
		}
	}
	if value, err := v.Value(s); err == nil {
		f.describeValue(b, value)
	}
}

// describeValue reports a value. One that cannot be encoded is not reported.
func (f *zoneField) describeValue(b *zonemap.ColumnsBuilder, v expr.Value) {
	if v.IsNull() {
		b.Null(f.id)
		return
	}
	if text, ok := v.AsString(); ok && len(text) > zoneTextBytes {
		v = expr.String(text[:zoneTextBytes])
	}
	out, err := f.append(b.Scratch[:0], v)
	if b.Scratch = out; err == nil {
		b.Value(f.id, out)
	}
}

// orderedInt returns a stored whole number, or ticks, such that its big-endian bytes have the
// order of keys. ok is false for other types.
func orderedInt(t keycodec.Type, unit keycodec.Unit, b []byte) (u uint64, ok bool) {
	switch t {
	case keycodec.TypeTime:
		if unit == keycodec.FullRange {
			return 0, false
		}
		return binary.LittleEndian.Uint64(b) ^ 1<<63, true
	case keycodec.TypeInt64, keycodec.TypeFixed:
		return binary.LittleEndian.Uint64(b) ^ 1<<63, true
	case keycodec.TypeUint64:
		return binary.LittleEndian.Uint64(b), true
	case keycodec.TypeInt32:
		return uint64(binary.LittleEndian.Uint32(b)) ^ 1<<31, true
	case keycodec.TypeUint32:
		return uint64(binary.LittleEndian.Uint32(b)), true
	}
	return 0, false
}

// describeKey reports the zoned columns of a part of the key.
func (t *Table) describeKey(b *zonemap.ColumnsBuilder, fields []keyField, key []byte) {
	for i := range fields {
		f := &fields[i]
		rest, err := f.skip(key)
		if err != nil {
			return
		}
		own := key[:len(key)-len(rest)]
		key = rest
		z := t.zoneOf(f.ordinal)
		switch {
		case z == nil:
		case f.plain:
			b.Value(z.id, own)
		default:
			if v, _, err := f.decode(own); err == nil {
				z.describeValue(b, v)
			}
		}
	}
}

// zoneOf returns the field of a column in zones, nil if it is not there.
func (t *Table) zoneOf(ordinal int) *zoneField {
	for i := range t.built.zones {
		if z := &t.built.zones[i]; z.ordinal == ordinal {
			return z
		}
	}
	return nil
}
