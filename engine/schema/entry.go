package schema

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// Format: the SK of an index entry is the ordered encodings of the columns of the index
// and then, unless the index is unique and none of the columns is NULL, the key of the
// row: the encodings of the columns of the partition key and of the sort key. The bucket of a
// row under a sharded primary key is not in it, since it follows from them.
//
// The value of an entry whose SK ends without the row's key begins with it: its length as
// a uvarint, then its bytes. What follows in the value, or all of it, is nothing if the
// index includes no columns, otherwise a format byte and a body (see Layout).

// Entry is one entry of an index.
type Entry struct {
	Index  *Index
	PK, SK []byte
	Value  []byte
	// Unique says that no other row may have the entry's key: the index is unique and none
	// of its columns is NULL.
	Unique bool
	// Kept says, of an entry in Changes.Put, that the old row has an entry with this key.
	Kept bool
}

// Entries collects entries. The zero Entries is empty. Its memory is used again after
// Reset.
type Entries struct {
	List []Entry
	buf  []byte
}

// Reset removes all entries. Their bytes are overwritten later.
func (s *Entries) Reset() { s.List, s.buf = s.List[:0], s.buf[:0] }

// AppendEntries adds the entries that a row has in the index, in ascending order of their
// keys if there are several: none if the index is partial and its condition is not true
// for the row, or if the list of its Each column is empty or NULL. Key is the key of the
// row. The error is an *EntryError if the condition fails or a key is too long.
//
// Requires: the row is one that Table.Convert or Decode has made. Why: the condition has to
// see what a later reader of the row sees.
func (x *Index) AppendEntries(s *Entries, key keycodec.Key, row []expr.Value) error {
	b := x.built
	if err := b.table.checkLen(row); err != nil {
		return err
	}
	if b.filtered {
		truth, err := b.where.Test(row, nil)
		if err != nil {
			return x.noEntry(fmt.Errorf("its condition %s: %w", x.Where, err))
		}
		if truth != expr.True {
			return nil
		}
	}
	if b.each < 0 {
		return x.appendEntry(s, key, row, expr.Value{})
	}
	start := len(s.List)
	list, err := b.fields[b.each].column.Convert(row[b.fields[b.each].ordinal])
	if err != nil {
		return err
	}
	for element := range list.Elements() {
		if err := x.appendEntry(s, key, row, element); err != nil {
			return err
		}
	}
	own := s.List[start:]
	slices.SortFunc(own, func(a, b Entry) int { return compareEntries(&a, &b) })
	own = slices.CompactFunc(own, func(a, b Entry) bool { return compareEntries(&a, &b) == 0 })
	s.List = s.List[:start+len(own)]
	return nil
}

// appendEntry adds one entry; element is that of the Each column.
func (x *Index) appendEntry(s *Entries, key keycodec.Key, row []expr.Value,
	element expr.Value) error {
	b, start := x.built, len(s.buf)
	buf, unique := s.buf, x.Unique
	for i := range b.fields {
		f := &b.fields[i]
		v := row[f.ordinal]
		if f.each {
			v = element
		}
		unique = unique && !v.IsNull()
		var err error
		if buf, err = f.append(buf, v); err != nil {
			return x.noEntry(err)
		}
	}
	if !unique {
		buf = b.table.appendKeyColumns(buf, key)
	}
	skEnd := len(buf)
	if skEnd-start > keycodec.MaxKeyBytes {
		return x.noEntry(keycodec.ErrKeyTooLarge)
	}
	bucket, err := x.bucketOfEntry(buf[start:skEnd], key.PK)
	if err != nil {
		return err
	}
	buf = x.BucketPK(buf, bucket)
	pkEnd := len(buf)
	if unique {
		n := len(b.table.pkColumns(key)) + len(key.SK)
		buf = b.table.appendKeyColumns(binary.AppendUvarint(buf, uint64(n)), key)
	}
	if buf, err = x.appendIncluded(buf, row); err != nil {
		return x.noEntry(err)
	}
	s.buf = buf
	s.List = append(s.List, Entry{Index: x, SK: buf[start:skEnd:skEnd],
		PK: buf[skEnd:pkEnd:pkEnd], Value: buf[pkEnd:len(buf):len(buf)], Unique: unique})
	return nil
}

// pkColumns returns the encodings of the columns of the partition key.
func (t *Table) pkColumns(key keycodec.Key) []byte {
	if t.Sharded() {
		return nil
	}
	return key.PK[rowHead:]
}

// appendKeyColumns appends the encodings of the columns of a row's key.
func (t *Table) appendKeyColumns(dst []byte, key keycodec.Key) []byte {
	return append(append(dst, t.pkColumns(key)...), key.SK...)
}

func (x *Index) noEntry(err error) error {
	return &EntryError{x.built.table.Name, x.Name, err}
}

func (x *Index) bucketOfEntry(sk, rowPK []byte) (int, error) {
	if x.Placement == Local {
		return int(keycodec.Stripe(rowPK)), nil
	}
	return x.BucketOf(sk)
}

func (x *Index) appendIncluded(dst []byte, row []expr.Value) ([]byte, error) {
	l := x.built.include
	if len(l.Slots) == 0 {
		return dst, nil
	}
	out, err := l.appendBody(append(dst, 0), len(dst), row, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// DecodeEntry reads the wanted columns of an entry, all that the index covers if want is
// nil, into dst, which has a place for each column of the table; other places, and
// columns that are not covered, stay as they are. The key of the row is returned too: its
// PK is appended to buf, which is returned as buf2. It fails with a *corrupt.Error if the
// entry is damaged.
//
// Ownership: the values and the SK may share the bytes of sk and value, and the PK is a
// view into buf2.
func (x *Index) DecodeEntry(dst []expr.Value, buf, sk, value []byte, want *ColumnSet) (
	key keycodec.Key, buf2 []byte, err error) {
	b := x.built
	if err := b.table.checkLen(dst); err != nil {
		return keycodec.Key{}, buf, err
	}
	if want == nil {
		want = &b.covers
	}
	rest, unique, err := x.decodeOwn(dst, sk, want)
	if err == nil {
		key, buf2, rest, err = x.rowKey(buf, rest, value, unique)
	}
	if err == nil {
		err = b.table.DecodeKey(dst, key, want)
	}
	if err == nil {
		err = x.decodeIncluded(dst, rest, want)
	}
	if err != nil {
		return keycodec.Key{}, buf, fmt.Errorf("schema: index %q: %w", x.Name, err)
	}
	return key, buf2, nil
}

// DecodeOwn is DecodeEntry of columns among OwnColumns only. It skips the row's key.
func (x *Index) DecodeOwn(dst []expr.Value, sk, value []byte, want *ColumnSet) error {
	err := x.built.table.checkLen(dst)
	if err != nil {
		return err
	}
	rest, unique, err := x.decodeOwn(dst, sk, want)
	if err == nil && unique {
		_, value, err = cutRowKey(rest, value)
	}
	if err == nil {
		err = x.decodeIncluded(dst, value, want)
	}
	if err != nil {
		return fmt.Errorf("schema: index %q: %w", x.Name, err)
	}
	return nil
}

// RowKey returns the key of the row that an entry belongs to: DecodeEntry without columns.
func (x *Index) RowKey(buf, sk, value []byte) (key keycodec.Key, buf2 []byte, err error) {
	rest, unique, err := x.decodeOwn(nil, sk, &ColumnSet{})
	if err == nil {
		key, buf2, _, err = x.rowKey(buf, rest, value, unique)
	}
	if err != nil {
		return keycodec.Key{}, buf, fmt.Errorf("schema: index %q: %w", x.Name, err)
	}
	return key, buf2, nil
}

// decodeOwn reads the columns of the index. unique says that the row's key does not
// follow them.
func (x *Index) decodeOwn(dst []expr.Value, sk []byte, want *ColumnSet) (rest []byte,
	unique bool, err error) {
	unique, rest = x.Unique, sk
	for i := range x.built.fields {
		f := &x.built.fields[i]
		if unique && f.Nullable && len(rest) > 0 && f.isNull(rest[0]) {
			unique = false
		}
		if f.readable && want.Has(f.ordinal) {
			dst[f.ordinal], rest, err = f.decode(rest)
		} else {
			rest, err = f.skip(rest)
		}
		if err != nil {
			return nil, false, err
		}
	}
	return rest, unique, nil
}

// isNull reports whether the first byte of a nullable field says NULL.
func (f *keyField) isNull(marker byte) bool {
	if f.Desc {
		marker = ^marker
	}
	return marker != 1
}

// rowKey finds the row's key: in rest, what follows the columns of the index, or at the
// start of the value. included is the other part of the value.
func (x *Index) rowKey(buf, rest, value []byte, unique bool) (key keycodec.Key, buf2,
	included []byte, err error) {
	if unique {
		if rest, value, err = cutRowKey(rest, value); err != nil {
			return key, buf, nil, err
		}
	}
	t := x.built.table
	tail := rest
	for i := range t.built.pk {
		if tail, err = t.built.pk[i].skip(tail); err != nil {
			return key, buf, nil, err
		}
	}
	start := len(buf)
	if buf, err = t.AppendRowPartition(buf, tail); err != nil {
		return key, buf, nil, err
	}
	buf = append(buf, rest[:len(rest)-len(tail)]...)
	key.PK = buf[start:len(buf):len(buf)]
	if len(t.built.sk) > 0 {
		key.SK = tail
	} else if len(tail) > 0 {
		return key, buf, nil, damaged("index entry", 0, "the end of the row's key", "more bytes")
	}
	return key, buf, value, nil
}

// cutRowKey divides the value of an entry whose SK ends with the columns of the index: rest is
// what follows them, nothing.
func cutRowKey(rest, value []byte) (key, included []byte, err error) {
	if len(rest) > 0 {
		return nil, nil, damaged("index entry", 0, "the end of the key", "more bytes")
	}
	n, used := binary.Uvarint(value)
	if used <= 0 || used > 1 && value[used-1] == 0 || n > uint64(len(value)-used) {
		return nil, nil, damaged("index entry", 0, "the key of the row", "the end")
	}
	return value[used : used+int(n)], value[used+int(n):], nil
}

func (x *Index) decodeIncluded(dst []expr.Value, b []byte, want *ColumnSet) error {
	l := x.built.include
	if len(l.Slots) == 0 {
		if len(b) > 0 {
			return damaged("index entry", 0, "the end of the value", "more bytes")
		}
		return nil
	}
	if len(b) == 0 {
		return damaged("index entry", 0, "included columns", "the end")
	}
	v, err := l.view(b[0], b[1:])
	if err != nil {
		return err
	}
	return v.decode(dst, want, nil)
}
