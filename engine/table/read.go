package table

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// values returns Go values as values of expressions: see expr.From.
func values(args []any) ([]expr.Value, error) {
	if len(args) == 0 {
		return nil, nil
	}
	out := make([]expr.Value, len(args))
	for i, a := range args {
		v, err := expr.From(a)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// setKey puts the values of a primary key, in its order, to their places in a row.
func setKey(t *schema.Table, row, key []expr.Value) error {
	if len(key) != len(t.PK)+len(t.SK) {
		return invalid("%d values for a primary key of %d columns", len(key), len(t.PK)+len(t.SK))
	}
	for i, k := range t.PK {
		row[k.Ordinal] = key[i]
	}
	for i, k := range t.SK {
		row[k.Ordinal] = key[len(t.PK)+i]
	}
	return nil
}

// Get returns the row with a primary key: the values of the partition key's columns, then
// those of the sort key. The caller owns it. The error matches ErrNotFound without one.
func (t *Table) Get(ctx context.Context, key ...expr.Value) ([]expr.Value, error) {
	row, _, err := t.GetVersion(ctx, key...)
	return row, err
}

// GetVersion is Get that also returns the version of the row, for IfVersion. It is not
// known of a row that the same transaction has written.
func (t *Table) GetVersion(ctx context.Context, key ...expr.Value) (row []expr.Value,
	version uint64, err error) {
	for {
		st, r, err := t.reading()
		if err != nil {
			return nil, 0, err
		}
		row := st.schema.Row()
		if err := setKey(st.schema, row, key); err != nil {
			return nil, 0, err
		}
		var k store.Key
		if k.PK, k.SK, err = st.schema.AppendRowKey(nil, nil, row); err != nil {
			return nil, 0, err
		}
		it, err := store.GetItem(ctx, r, k)
		if err == nil {
			err = st.schema.Decode(row, it.Key, it.Value, nil)
		}
		if err == nil {
			return row, it.Version, nil
		}
		if errors.Is(err, ErrNotFound) || t.current(st) {
			return nil, 0, err
		}
	}
}

// reading returns the definition to read by and what to read.
func (t *Table) reading() (*tableState, store.Reader, error) {
	if t.tx != nil {
		st, err := t.tx.state(t.core)
		return st, t.tx.store, err
	}
	if t.snap != nil {
		st, err := t.snap.stateOf(t.core)
		return st, t.snap.snap, err
	}
	st, err := t.core.present()
	return st, t.db.store, err
}

// current reports whether a definition is still the present one: if not, what was read
// under it may be of a newer one.
func (t *Table) current(st *tableState) bool {
	return t.tx != nil || t.snap != nil || t.core.state.Load() == st
}

// MultiGet looks up many rows at one moment and calls found for those that are there, in
// the order of keys, with their index. Each key is as that of Get; the same may be given
// more than once. If the table is changed meanwhile, rows may be of its new definition.
//
// Ownership: a row is valid until found returns.
func (t *Table) MultiGet(ctx context.Context, keys [][]expr.Value,
	found func(i int, row []expr.Value)) error {
	st, r, err := t.reading()
	if err != nil {
		return err
	}
	row := st.schema.Row()
	list := make([]store.Key, len(keys))
	for i, values := range keys {
		if err := setKey(st.schema, row, values); err != nil {
			return err
		}
		if list[i].PK, list[i].SK, err = st.schema.AppendRowKey(nil, nil, row); err != nil {
			return err
		}
	}
	var failed error
	err = r.MultiGet(ctx, list, func(i int, it store.Item) {
		if failed != nil {
			return
		}
		failed = st.schema.Decode(row, it.Key, it.Value, nil)
		for failed != nil && !t.current(st) { // the row may be of a newer definition
			st = t.core.state.Load()
			row = st.schema.Row()
			failed = st.schema.Decode(row, it.Key, it.Value, nil)
		}
		if failed == nil {
			found(i, row)
		}
	})
	return errors.Join(err, failed)
}

// absent makes no error of ErrNotFound.
func absent(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
