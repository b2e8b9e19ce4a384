package schema

import (
	"encoding/binary"
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

// Format: the PK of a row is 74 ('t'), the id of the table as 4 bytes, and the ordered
// encodings of the columns of the partition key; its SK is the encodings of those of the
// sort key, nil if there are none. Under a sharded primary key the PK has a bucket instead of
// columns (see BucketPK), and the SK has all columns of the key. The value is a format byte, the
// version of the layout as a uvarint, and a body (see Layout) of the columns that are not in the
// key. Texts of key columns with a collation are in the body too, as keys hold their folded form
// only.

// On disk: the first bytes of partition keys.
const (
	rowMark   = 't'
	entryMark = 'i'

	// rowHead is the length of what precedes the columns in the PK of a row.
	rowHead = 5
	// entryBytes is the length of the PK of an index entry.
	entryBytes = 13
)

// AppendRowPrefix appends what all partition keys of the table's rows begin with.
func (t *Table) AppendRowPrefix(dst []byte) []byte {
	return binary.BigEndian.AppendUint32(append(dst, rowMark), t.ID)
}

// AppendRowKey appends the PK and the SK of a row to two buffers. Without columns of the
// sort key sk is returned as it is, and the row has no SK. Errors are those of
// Column.Convert, and those of keycodec.Key.Validate.
func (t *Table) AppendRowKey(pk, sk []byte, row []expr.Value) (pk2, sk2 []byte, err error) {
	if err := t.checkLen(row); err != nil {
		return pk, sk, err
	}
	pk2 = pk
	if sk2, err = appendFields(sk, t.built.sk, row); err == nil {
		pk2, err = t.AppendRowPartition(pk, sk2[len(sk):])
	}
	if err == nil {
		pk2, err = appendFields(pk2, t.built.pk, row)
	}
	if err == nil && max(len(pk2)-len(pk), len(sk2)-len(sk)) > keycodec.MaxKeyBytes {
		err = keycodec.ErrKeyTooLarge
	}
	if err != nil {
		return pk, sk, err
	}
	return pk2, sk2, nil
}

// AppendRowPartition appends what the PK of a row consists of before the columns of the partition
// key: the prefix or, of a sharded table, all of it. sk is the SK of the row, or begins it.
func (t *Table) AppendRowPartition(dst, sk []byte) ([]byte, error) {
	x := t.built.primary
	if x == nil {
		return t.AppendRowPrefix(dst), nil
	}
	bucket, err := x.BucketOf(sk)
	if err != nil {
		return dst, err
	}
	return x.BucketPK(dst, bucket), nil
}

// AppendPK appends the PK of the rows with the given values of the partition key's columns,
// in their order. Errors are those of AppendRowKey. Requires: the table is not sharded.
func (t *Table) AppendPK(dst []byte, values ...expr.Value) ([]byte, error) {
	out := t.AppendRowPrefix(dst)
	if len(values) != len(t.built.pk) {
		return dst, fmt.Errorf("schema: %d values for a partition key of %d columns", len(values),
			len(t.built.pk))
	}
	for i, v := range values {
		var err error
		if out, err = t.built.pk[i].append(out, v); err != nil {
			return dst, err
		}
	}
	return out, nil
}

func appendFields(dst []byte, fields []keyField, row []expr.Value) ([]byte, error) {
	for i := range fields {
		var err error
		if dst, err = fields[i].append(dst, row[fields[i].ordinal]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (t *Table) checkLen(row []expr.Value) error {
	if len(row) != len(t.Columns) {
		return fmt.Errorf("schema: a row of %d values for %d columns of table %q", len(row),
			len(t.Columns), t.Name)
	}
	return nil
}

// AppendRow appends the value of a row. The row has a value for each column of the table,
// of any kind that Column.Convert takes; those of dropped columns are ignored. It
// allocates nothing if dst has room and the values need no conversion. On error dst is
// returned as it was; errors are those of Column.Convert.
func (t *Table) AppendRow(dst []byte, row []expr.Value) ([]byte, error) {
	if err := t.checkLen(row); err != nil {
		return dst, err
	}
	l := t.Layout()
	size := 0
	for i := range l.Slots[len(l.Slots)-l.Vars:] {
		s := &l.Slots[len(l.Slots)-l.Vars+i]
		size += s.varSize(row[s.Ordinal])
	}
	format := len(dst)
	out, err := l.appendBody(t.appendRowHead(dst), format, row, size)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Writer starts the value of a row after what dst holds; see Layout and Writer. Size is
// what the variable columns take, if it is known, or less.
func (t *Table) Writer(dst []byte, size int) Writer {
	return t.Layout().writer(t.appendRowHead(dst), len(dst), size)
}

// appendRowHead appends a place for the format, and the version of the layout.
func (t *Table) appendRowHead(dst []byte) []byte {
	return binary.AppendUvarint(append(dst, 0), uint64(t.Layout().Version))
}

// View returns a view of the value of a row. It fails with a *corrupt.Error if the value
// is damaged; one that a later version of the table wrote matches corrupt.ErrVersion.
func (t *Table) View(value []byte) (View, error) {
	if len(value) < 2 {
		return View{}, damaged("row", 0, "a format and a version", "the end")
	}
	version, n := uint64(value[1]), 1
	if version >= 0x80 {
		version, n = binary.Uvarint(value[1:])
		if n <= 0 || value[n] == 0 {
			return View{}, damaged("row", 1, "a version", "another number")
		}
	}
	l := t.Layout()
	if uint64(l.Version) != version {
		var err error
		if l, err = t.layoutOf(version); err != nil {
			return View{}, err
		}
	}
	return l.view(value[0], value[1+n:])
}

func (t *Table) layoutOf(version uint64) (*Layout, error) {
	for _, l := range t.built.layouts {
		if uint64(l.Version) == version {
			return l, nil
		}
	}
	if last := t.Layout().Version; version > uint64(last) {
		return nil, corrupt.NewVersion("", "row", last, version)
	}
	return nil, damaged("row", 1, "a version of the table", version)
}

// Decode reads the wanted columns of a row, all if want is nil, into dst, which has a place
// for each column of the table; other places stay as they are. Columns that were added
// after the row was written have their default, dropped ones are NULL. It allocates
// nothing, except for descending texts and texts with zero bytes in the key. It fails with
// a *corrupt.Error if the row is damaged.
//
// Ownership: the values may share the bytes of key and value; CloneRow ends that.
func (t *Table) Decode(dst []expr.Value, key keycodec.Key, value []byte, want *ColumnSet) error {
	if err := t.checkLen(dst); err != nil {
		return err
	}
	if want == nil {
		want = &t.built.all
	}
	if err := t.decodeValue(dst, value, want, nil); err != nil {
		return err
	}
	if err := t.DecodeKey(dst, key, want); err != nil {
		return fmt.Errorf("schema: table %q: %w", t.Name, err)
	}
	return nil
}

// decodeValue reads the wanted columns that are not in the key into their places: see placeOf.
func (t *Table) decodeValue(dst []expr.Value, value []byte, want *ColumnSet, at []int) error {
	v, err := t.View(value)
	if err != nil {
		return err
	}
	if err := v.decode(dst, want, at); err != nil {
		return fmt.Errorf("schema: table %q: %w", t.Name, err)
	}
	if v.Layout != t.Layout() {
		t.fillIn(dst, v.Layout, want, at)
	}
	return nil
}

// decode reads the wanted columns that the layout has into their places: see placeOf.
func (v *View) decode(dst []expr.Value, want *ColumnSet, at []int) error {
	for i := range v.Layout.Slots {
		s := &v.Layout.Slots[i]
		if !want.Has(s.Ordinal) {
			continue
		}
		value, err := v.Value(s)
		if err != nil {
			return err
		}
		dst[placeOf(s.Ordinal, at)] = value
	}
	return nil
}

// fillIn sets the wanted columns that a row of an old version does not have.
func (t *Table) fillIn(dst []expr.Value, l *Layout, want *ColumnSet, at []int) {
	for i := range t.Columns {
		c := &t.Columns[i]
		switch {
		case !want.Has(i):
		case c.Dropped:
			dst[placeOf(i, at)] = expr.Value{}
		case c.Added > l.Version:
			dst[placeOf(i, at)] = c.BeforeValue()
		}
	}
}

// DecodeKey is Decode of the columns that the key holds. Collated texts, whose folded form
// alone is in the key, are left out. A part of the key that has no wanted column is
// ignored.
func (t *Table) DecodeKey(dst []expr.Value, key keycodec.Key, want *ColumnSet) error {
	if want == nil {
		want = &t.built.all
	}
	if err := t.checkHead(key.PK); err != nil {
		return err
	}
	if want.meets(t.built.coveredPK) {
		rest, err := decodeFields(dst, t.built.pk, key.PK[rowHead:], want, nil)
		if err = keyEnd(key.PK, rest, err); err != nil {
			return err
		}
	}
	if !want.meets(t.built.coveredSK) {
		return nil
	}
	rest, err := decodeFields(dst, t.built.sk, key.SK, want, nil)
	return keyEnd(key.SK, rest, err)
}

// KeyValues returns the values of the primary key's columns: of the partition key, then of the sort
// key. Collated texts are in their folded form.
func (t *Table) KeyValues(key keycodec.Key) (values []expr.Value, err error) {
	if err := t.checkHead(key.PK); err != nil {
		return nil, err
	}
	part, rest := key.PK, key.PK[rowHead:] // of a sharded table the bucket, not looked at
	for i, fields := range [][]keyField{t.built.pk, t.built.sk} {
		if i == 1 {
			part, rest = key.SK, key.SK
		}
		for j := range fields {
			var v expr.Value
			if v, rest, err = fields[j].decode(rest); err != nil {
				return nil, err
			}
			values = append(values, v.Clone())
		}
		if err = keyEnd(part, rest, nil); err != nil && len(fields) > 0 {
			return nil, err
		}
	}
	return values, nil
}

// keyEnd returns err, or that a part of a key goes on after its fields.
func keyEnd(part, rest []byte, err error) error {
	if err == nil && len(rest) > 0 {
		err = damaged("row key", len(part)-len(rest), "the end", "more bytes")
	}
	return err
}

// checkHead returns an error if a partition key does not begin as those of the table's rows do.
func (t *Table) checkHead(pk []byte) error {
	if len(pk) < rowHead || pk[0] != rowMark || binary.BigEndian.Uint32(pk[1:]) != t.ID {
		return damaged("row key", 0, "the mark of the table", "other bytes")
	}
	return nil
}

// decodeFields reads the fields that are wanted into their places, see placeOf, and passes over the
// others.
func decodeFields(dst []expr.Value, fields []keyField, b []byte, want *ColumnSet, at []int) (
	rest []byte, err error) {
	for i := range fields {
		f := &fields[i]
		to := -1
		if f.readable && want.Has(f.ordinal) {
			to = placeOf(f.ordinal, at)
		}
		switch {
		case to < 0:
			b, err = f.skip(b)
		case f.isInt && len(b) >= 8:
			dst[to].SetInt(int64(binary.BigEndian.Uint64(b) ^ 1<<63))
			b = b[8:]
		case f.plain && f.width > 0 && len(b) >= f.width:
			dst[to], err = f.decodeFixed(b[:f.width])
			b = b[f.width:]
		default:
			dst[to], b, err = f.decode(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Complete fills the places of a row that a writer left open with the defaults of their
// columns. given says which places have a value.
func (t *Table) Complete(row []expr.Value, given *ColumnSet) {
	for i := range t.Columns {
		if c := &t.Columns[i]; !given.Has(i) && !c.Dropped {
			row[i] = c.DefaultValue()
		}
	}
}

// Convert converts the values of a row in place to what its columns store; see
// Column.Convert. Those of dropped columns become NULL. A row that was converted is what
// Decode returns for it.
func (t *Table) Convert(row []expr.Value) error {
	if err := t.checkLen(row); err != nil {
		return err
	}
	for i := range t.Columns {
		if t.Columns[i].Dropped {
			row[i] = expr.Value{}
			continue
		}
		v, err := t.Columns[i].Convert(row[i])
		if err != nil {
			return err
		}
		row[i] = v
	}
	return nil
}

// RowTable returns the id of the table that a partition key belongs to, and reports whether
// that partition holds rows; otherwise it may hold index entries.
func RowTable(pk []byte) (id uint32, ok bool) {
	if len(pk) < rowHead || pk[0] != rowMark {
		return 0, false
	}
	return binary.BigEndian.Uint32(pk[1:]), true
}

// EntryTable is RowTable of a partition of index entries.
func EntryTable(pk []byte) (id uint32, ok bool) {
	if len(pk) != entryBytes || pk[0] != entryMark {
		return 0, false
	}
	return binary.BigEndian.Uint32(pk[1:]), true
}

// Row returns a row of NULLs for the table.
func (t *Table) Row() []expr.Value { return make([]expr.Value, len(t.Columns)) }
