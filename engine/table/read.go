package table

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
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
	err = t.Read(ctx, func(def *schema.Table, r store.Reader) error {
		row = def.Row()
		if err := rowio.SetKey(def, row, key); err != nil {
			return err
		}
		var k store.Key
		if k.PK, k.SK, err = def.AppendRowKey(nil, nil, row); err != nil {
			return err
		}
		it, err := store.GetItem(ctx, r, k)
		if err != nil {
			return err
		}
		version = it.Version
		return def.Decode(row, it.Key, it.Value, nil)
	})
	if err != nil {
		return nil, 0, err
	}
	return row, version, nil
}

// Read calls read with the definition of the table and with what its rows are read from: for
// layers that have rows in forms of their own. If it fails and the table has been changed
// meanwhile, so that what it has read may be of a newer definition, it is called again.
func (t *Table) Read(
	ctx context.Context, read func(def *schema.Table, from store.Reader) error,
) error {
	for {
		st, r, err := t.reading(ctx)
		if err != nil {
			return err
		}
		err = read(st.Schema, r)
		live := t.tx == nil && t.snap == nil
		if absent(err) == nil && (!live || t.db.leased()) || t.current(ctx, st) {
			return err
		}
	}
}

// reading returns the definition to read by and what to read.
func (t *Table) reading(ctx context.Context) (*tableState, store.Reader, error) {
	if t.tx != nil {
		st, err := t.tx.state(ctx, t.core)
		return st, t.tx.store, err
	}
	if t.snap != nil {
		st, err := t.snap.stateOf(ctx, t.core)
		return st, t.snap.snap, err
	}
	st, err := t.db.stateOf(ctx, t.core)
	return st, t.db.store, err
}

// current reports whether a definition is still the present one: if not, what was read
// under it may be of a newer one.
func (t *Table) current(ctx context.Context, st *tableState) bool {
	if t.tx != nil || t.snap != nil {
		return true
	}
	moved, err := t.db.outdated(ctx, t.core, st)
	return !moved || err != nil
}

// MultiGet looks up many rows at one moment and calls found for those that are there, in
// the order of keys, with their index. Each key is as that of Get; the same may be given
// more than once. If the table is changed meanwhile, rows may be of its new definition.
//
// Ownership: a row is valid until found returns.
func (t *Table) MultiGet(ctx context.Context, keys [][]expr.Value,
	found func(i int, row []expr.Value)) error {
	st, r, err := t.reading(ctx)
	if err != nil {
		return err
	}
	row := st.Schema.Row()
	list := make([]store.Key, len(keys))
	for i, values := range keys {
		if err := rowio.SetKey(st.Schema, row, values); err != nil {
			return err
		}
		if list[i].PK, list[i].SK, err = st.Schema.AppendRowKey(nil, nil, row); err != nil {
			return err
		}
	}
	var failed error
	err = r.MultiGet(ctx, list, func(i int, it store.Item) {
		if failed != nil {
			return
		}
		failed = st.Schema.Decode(row, it.Key, it.Value, nil)
		for failed != nil && !t.current(ctx, st) { // the row may be of a newer definition
			st = t.core.state.Load()
			row = st.Schema.Row()
			failed = st.Schema.Decode(row, it.Key, it.Value, nil)
		}
		if failed == nil {
			found(i, row)
		}
	})
	return errors.Join(err, failed)
}

// absent returns nil for ErrNotFound, and other errors as they are.
func absent(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
