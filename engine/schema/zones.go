package schema

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Column zones: a block of rows keeps the least and greatest value of the columns that are Zoned,
// by their ids. A value is encoded as in a key, ascending and without marker. Types of columns
// and what rows have of columns that were added later never change, so neither do descriptions.
//
// Stored columns are compared as they are: numbers as integers in the order of their keys, others
// by their bytes. Only the least and the greatest are written as in keys. Rows of one partition
// are in the order of their sort key, so its first column is that of the first and of the last.

// zoneField is a column that zones have.
type zoneField struct {
	keyField
	id   uint64
	long bool // long texts are described, too
}

const (
	// zoneTextBytes is how much of a text is described: one more byte than bounds have.
	zoneTextBytes = zone.MaxBoundBytes + 1
	// zoneLongText is the length from which texts are not described. Why: queries do not ask
	// for ranges of them.
	zoneLongText = 64
)

// Zoned reports whether blocks may have zones of the column: its values are no lists and are
// compared by their bytes.
func (c *Column) Zoned() bool {
	return !c.Dropped && !c.List && c.Collation == keycodec.CollateBytes
}

// AppendZone appends a value of the column, which is Zoned, as it stands in zones.
func (c *Column) AppendZone(dst []byte, v expr.Value) ([]byte, error) {
	f := c.keyField(KeyColumn{})
	f.Nullable = false
	return f.append(dst, v)
}

// ZoneGroup returns the group of the table's rows in column zones.
func (t *Table) ZoneGroup() uint64 { return uint64(t.ID) }

// HasZone reports whether the table describes a column.
func (t *Table) HasZone(ordinal int) bool { return t.zoneOf(ordinal) != nil }

// buildZones chooses the columns to describe. Why not the first of the key: rows are in its order,
// so that a condition on it selects keys.
func (t *Table) buildZones() (fields []zoneField) {
	for i := range t.Columns {
		c := &t.Columns[i]
		if len(fields) == zone.MaxColumns {
			break
		}
		wanted := t.Zones == nil || slices.Contains(t.Zones, i)
		if wanted && c.Zoned() && i != t.firstOfKey() {
			f := c.keyField(KeyColumn{})
			f.Nullable, f.ordinal = false, i
			fields = append(fields, zoneField{f, uint64(c.ID), t.Zones != nil})
		}
	}
	return fields
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

// RowRun returns the table of the rows from an item on, and where they end. row is false if the
// item is not a row; then no item up to the end is one.
func RowRun(items *zone.Items, from int) (id uint32, row bool, to int) {
	key := items.Key(from)
	id, n, row := rowHeadOf(key)
	if !row {
		for to = from + 1; to < items.Len() && !row; to++ {
			_, _, row = rowHeadOf(items.Key(to))
		}
		if row {
			to--
		}
		return 0, false, to
	}
	return id, true, runOf(items, from, items.Len(), key[:n])
}

// rowHeadOf returns the table of a row by its key in ordered form, and how much of
// the key names it.
func rowHeadOf(key []byte) (id uint32, n int, ok bool) {
	long, n, ok := headOf(key, rowMark, rowHead)
	return uint32(long), n, ok
}

// headOf returns the number in a head of so many bytes, which begins with a mark, and how much of a
// key in ordered form it is.
func headOf(key []byte, mark byte, size int) (id uint64, n int, ok bool) {
	if len(key) == 0 || key[0] != mark {
		return 0, 0, false
	}
	n = 1
	for range size - 1 {
		if n+1 >= len(key) || key[n] == 0 && key[n+1] == 0 {
			return 0, 0, false
		}
		id = id<<8 | uint64(key[n])
		if key[n] == 0 {
			n++
		}
		n++
	}
	return id, n, true
}

// runOf returns where the items whose keys begin with prefix, as that of from does, end.
func runOf(items *zone.Items, from, to int, prefix []byte) int {
	if bytes.HasPrefix(items.Key(to-1), prefix) {
		return to
	}
	for from++; bytes.HasPrefix(items.Key(from), prefix); {
		from++
	}
	return from
}

// DescribeRows describes items, which are rows of the table, for column zones. What cannot be
// decoded is Unknown.
func (t *Table) DescribeRows(b *zone.ColumnsBuilder, items *zone.Items, from, to int) {
	b.Rows(t.ZoneGroup(), to-from)
	if t.built.zonedKey && !t.describeKeys(b, items, from, to) {
		b.Unknown()
		return
	}
	var rows [64]zoneBody
	for from < to {
		n, l := t.zoneBodies(rows[:min(len(rows), to-from)], items, from)
		if n == 0 || !t.describeBodies(b, rows[:n], l) {
			b.Unknown()
			return
		}
		from += n
	}
}

// zoneBody is the body of a row. width is that of its ends.
type zoneBody struct {
	body  []byte
	width int
}

// zoneBodies fills rows from items on while they have one layout, and returns how many. What is
// checked is that all fixed columns and ends are there.
func (t *Table) zoneBodies(rows []zoneBody, items *zone.Items, from int) (int, *Layout) {
	v, err := t.View(items.Value(from))
	if err != nil {
		return 0, nil
	}
	l := v.Layout
	version := items.Value(from)[1 : len(items.Value(from))-len(v.body)]
	for i := range rows {
		value := items.Value(from + i)
		if len(value) <= len(version) || !bytes.Equal(value[1:1+len(version)], version) {
			return i, l
		}
		if !rows[i].set(value[0], value[1+len(version):], l) {
			return 0, nil
		}
	}
	return len(rows), l
}

// describeBodies describes the columns that are not in the key.
func (t *Table) describeBodies(b *zone.ColumnsBuilder, rows []zoneBody, l *Layout) bool {
	for i := range t.built.zones {
		f := &t.built.zones[i]
		s := l.Slot(f.ordinal)
		switch {
		case t.built.key.Has(f.ordinal):
		case s == nil && f.column.Added <= l.Version:
			// The layout is later than the drop of the column: not reported, so not known.
		case s == nil:
			f.describeValue(b, f.column.BeforeValue(), len(rows))
		case !f.describe(b, rows, l, s):
			return false
		}
	}
	return true
}

// describeValue reports a value of n rows. One that cannot be encoded is not reported.
func (f *zoneField) describeValue(b *zone.ColumnsBuilder, v expr.Value, n int) {
	if v.IsNull() {
		b.Nulls(f.id, n)
		return
	}
	if text, ok := v.AsString(); ok && len(text) > zoneTextBytes {
		v = expr.String(text[:zoneTextBytes])
	}
	out, err := f.append(b.Scratch[:0], v)
	if b.Scratch = out; err == nil {
		b.Values(f.id, n, out, out)
	}
}

// describeKeys describes the zoned columns of the key.
func (t *Table) describeKeys(b *zone.ColumnsBuilder, items *zone.Items, from, to int) bool {
	for from < to {
		n, ok := keycodec.OrderedPKLen(items.Key(from))
		if !ok {
			return false
		}
		pk := items.Key(from)[:n]
		end := runOf(items, from, to, pk)
		if t.built.zonedPK && !t.describePK(b, pk, end-from) ||
			!t.describeSK(b, items, from, end, n, t.built.sk, 0) {
			return false
		}
		from = end
	}
	return true
}

// describePK reports the columns of the partition key of n rows. It stands in its ordered form.
func (t *Table) describePK(b *zone.ColumnsBuilder, pk []byte, n int) bool {
	key, _, err := keycodec.DecodeOrdered(pk, nil)
	if err != nil || len(key.PK) < rowHead {
		return false
	}
	rest := key.PK[rowHead:]
	for i := range t.built.pk {
		f := &t.built.pk[i]
		after, err := f.skip(rest)
		if err != nil {
			return false
		}
		if z := t.zoneOf(f.ordinal); z != nil {
			own := rest[:len(rest)-len(after)]
			z.describeStored(b, f, own, own, n)
		}
		rest = after
	}
	return true
}

// describeSK reports the columns, but for some first ones, of the fields that sort keys begin with,
// of items of one partition, whose form has n bytes. A column after some that are the same in the
// first and the last item is in order.
func (t *Table) describeSK(b *zone.ColumnsBuilder, items *zone.Items, from, to, n int,
	fields []keyField, unreported int,
) bool {
	first, last := items.Key(from)[n:], items.Key(to - 1)[n:]
	same := true
	for i := range fields {
		f := &fields[i]
		var z *zoneField
		if i >= unreported {
			z = t.zoneOf(f.ordinal)
		}
		if !same || f.Nullable {
			if z != nil && !z.describeSKs(b, items, from, to, n, fields[:i+1]) {
				return false
			}
			same = false
			continue
		}
		first2, err := f.skip(first)
		last2, err2 := f.skip(last)
		if err != nil || err2 != nil {
			return false
		}
		low, high := first[:len(first)-len(first2)], last[:len(last)-len(last2)]
		if z != nil {
			z.describeStored(b, f, low, high, to-from)
		}
		first, last, same = first2, last2, bytes.Equal(low, high)
	}
	return true
}

// describeSKs reports the last of these columns of a sort key, row by row.
func (z *zoneField) describeSKs(b *zone.ColumnsBuilder, items *zone.Items, from, to, n int,
	fields []keyField,
) bool {
	last := &fields[len(fields)-1]
	var low, high []byte
	nulls := 0
	for i := from; i < to; i++ {
		rest, own := items.Key(i)[n:], []byte(nil)
		for j := range fields {
			after, err := fields[j].skip(rest)
			if err != nil {
				return false
			}
			own, rest = rest[:len(rest)-len(after)], after
		}
		switch {
		case last.Nullable && last.isNull(own[0]):
			nulls++
		case low == nil:
			low, high = own, own
		case bytes.Compare(own, low) < 0:
			low = own
		case bytes.Compare(own, high) > 0:
			high = own
		}
	}
	if nulls > 0 {
		b.Nulls(z.id, nulls)
	}
	if low != nil {
		z.describeStored(b, last, low, high, to-from-nulls)
	}
	return true
}

// describeStored reports the first and the last of n fields of a key in the order of keys.
func (z *zoneField) describeStored(b *zone.ColumnsBuilder, f *keyField, low, high []byte,
	n int,
) {
	if f.plain {
		b.Values(z.id, n, low, high)
		return
	}
	v, _, err := f.decode(low)
	w, _, err2 := f.decode(high)
	switch {
	case err != nil || err2 != nil: // not reported
	case v.IsNull() || bytes.Equal(low, high):
		z.describeValue(b, v, n)
	default:
		z.describeValue(b, v, n-1)
		z.describeValue(b, w, 1)
	}
}
