package typed

import (
	"context"
	"errors"
	"strings"
	"sync"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// getScratch is the memory of a Get.
type getScratch struct {
	row           []expr.Value
	pk, sk, value []byte
	name          []byte // of a cache
}

var getPool = sync.Pool{New: func() any { return new(getScratch) }}

func (s *getScratch) release() {
	if cap(s.value) <= rowio.MaxPooledBytes {
		clear(s.row)
		getPool.Put(s)
	}
}

// blank makes s.row a row of NULLs.
func (s *getScratch) blank(n int) {
	if cap(s.row) < n {
		s.row = make([]expr.Value, n)
	}
	s.row = s.row[:n]
}

// Get returns the row with a primary key, with a single read: the predicates are an Eq for each
// column of the key and no others. Times are cut to the unit of their column, as when they were
// written. The error matches table.ErrNotFound if there is no such row, and table.ErrInvalid for
// other predicates: those are for Where, and Query.First.
func (t *Table[T]) Get(ctx context.Context, r table.Reader, key ...Predicate[T]) (row T,
	err error) {
	b, err := t.bind(r.DB())
	if err != nil {
		return row, err
	}
	s := getPool.Get().(*getScratch)
	defer s.release()
	if err := t.setKey(b, s, key); err != nil {
		return row, err
	}
	err = t.load(ctx, r, b, s, unsafe.Pointer(&row))
	return row, err
}

// setKey makes s.row the row of values whose primary key the predicates are.
func (t *Table[T]) setKey(b *binding, s *getScratch, key []Predicate[T]) error {
	s.blank(len(b.schema.Columns))
	for _, o := range b.schema.KeyOrdinals() {
		i := findKey(b, o, key)
		if i < 0 {
			return t.noKey(b, "no Eq of "+b.schema.Columns[o].Name)
		}
		s.row[o] = key[i].value
	}
	if len(key) != len(b.schema.KeyOrdinals()) {
		return t.noKey(b, "more predicates than these")
	}
	return nil
}

// findKey returns the place of the first predicate that is an Eq of a column, or -1.
func findKey[T any](b *binding, ordinal int, predicates []Predicate[T]) int {
	for i := range predicates {
		if f := predicates[i].field; f != nil && b.ordinals[f.index] == ordinal {
			return i
		}
	}
	return -1
}

// noKey is the error of a read by primary key whose predicates are none.
func (t *Table[T]) noKey(b *binding, what string) error {
	var names []string
	for _, o := range b.schema.KeyOrdinals() {
		names = append(names, b.schema.Columns[o].Name)
	}
	return invalid("Get reads a row of %s by its primary key, with an Eq for each of (%s), and "+
		"got %s; a Query finds rows by other conditions: Where(…).First",
		t.name, strings.Join(names, ", "), what)
}

// Load reads the row that has the primary key of row, into row: the fastest way to a row. Texts
// that are equal stay as they are, without a copy: a struct of Each keeps those of its key, which
// are not valid after the loop. The error matches table.ErrNotFound if there is none; row is
// unchanged then.
func (t *Table[T]) Load(ctx context.Context, r table.Reader, row *T) error {
	b, err := t.bind(r.DB())
	if err != nil {
		return err
	}
	s := getPool.Get().(*getScratch)
	defer s.release()
	s.blank(len(b.schema.Columns))
	t.fillKey(b, s.row, row)
	return t.load(ctx, r, b, s, unsafe.Pointer(row))
}

// fillKey puts the primary key of a struct into a row of values.
func (t *Table[T]) fillKey(b *binding, values []expr.Value, row *T) {
	for _, f := range t.fields {
		if f.key != noKey {
			values[b.ordinals[f.index]] = f.get(unsafe.Pointer(row))
		}
	}
}

// load reads the row whose key is in s.row.
func (t *Table[T]) load(ctx context.Context, r table.Reader, b *binding, s *getScratch,
	row unsafe.Pointer) error {
	return b.table.In(r).Read(ctx, func(def *schema.Table, from store.Reader) (err error) {
		b, err := t.at(b, def)
		if err != nil {
			return err
		}
		key, err := s.key(def)
		if err != nil {
			return err
		}
		if s.value, err = from.Get(ctx, s.value[:0], key); err != nil {
			return err
		}
		return b.read(row, key, s.value, true)
	})
}

// key returns the key of s.row, as a row of a definition that may be a later or an earlier
// one: ordinals are the same in all of them.
func (s *getScratch) key(t *schema.Table) (key store.Key, err error) {
	for len(s.row) < len(t.Columns) {
		s.row = append(s.row, expr.Value{})
	}
	s.row = s.row[:len(t.Columns)]
	if s.pk, s.sk, err = t.AppendRowKey(s.pk[:0], s.sk[:0], s.row); err != nil {
		return key, err
	}
	key.PK = s.pk
	if len(t.SK) > 0 {
		key.SK = s.sk
	}
	return key, nil
}

// MultiGet reads the rows that have the primary keys of rows, into rows, all at one moment.
// found says which of them are there; the others are unchanged. It costs less than a Load of
// each.
func (t *Table[T]) MultiGet(ctx context.Context, r table.Reader, rows []T) (found []bool,
	err error) {
	b, err := t.bind(r.DB())
	if err != nil {
		return nil, err
	}
	err = b.table.In(r).Read(ctx, func(def *schema.Table, from store.Reader) (err error) {
		b, err := t.at(b, def)
		if err != nil {
			return err
		}
		keys, err := t.keysOf(b, rows)
		if err != nil {
			return err
		}
		found = make([]bool, len(rows))
		var failed error
		err = from.MultiGet(ctx, keys, func(i int, it store.Item) {
			if failed == nil {
				failed = b.read(unsafe.Pointer(&rows[i]), it.Key, it.Value, true)
				found[i] = failed == nil
			}
		})
		return errors.Join(err, failed)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// keysOf returns the keys of rows.
func (t *Table[T]) keysOf(b *binding, rows []T) ([]store.Key, error) {
	keys := make([]store.Key, len(rows))
	values := b.schema.Row()
	var room []byte
	for i := range rows {
		t.fillKey(b, values, &rows[i])
		start := len(room)
		pk, sk, err := b.schema.AppendRowKey(room, nil, values)
		if err != nil {
			return nil, err
		}
		keys[i].PK, keys[i].SK = pk[start:len(pk):len(pk)], sk
		room = pk
	}
	return keys, nil
}

// Row returns a row of values as a struct: of a change of the table, say, by the definition that it
// has (package local). What is NULL, as all but the key is in TableChange.Key, is the zero value;
// columns that the definition does not have are their default, or zero. A value of a column that
// had another type is converted, or is an error. Of nil, as Before is where there was no row, the
// error matches table.ErrNotFound.
//
//	for c, err := range local.Changes(ctx, e, from, &local.ChangesOptions{Tables: …}) {
//		if err == nil && c.Kind == local.RowPut {
//			order, err := Orders.Row(c.Table, c.After)
func (t *Table[T]) Row(def *schema.Table, values []expr.Value) (row T, err error) {
	if values == nil {
		return row, table.ErrNotFound
	}
	for _, f := range t.fields {
		o := def.Column(f.column.Name)
		if o < 0 && f.was != "" {
			o = def.Column(f.was)
		}
		var v expr.Value
		switch d := f.column.Default; {
		case o >= 0:
			v = values[o]
		case d != nil:
			v = *d
		}
		if v.IsNull() && !f.column.Nullable {
			continue
		}
		v, err := f.column.Convert(v)
		if err == nil {
			err = f.set(unsafe.Pointer(&row), v, true)
		}
		if err != nil {
			return row, err
		}
	}
	return row, nil
}
