package rowio

import (
	"context"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// # Rows that have expired
//
// Invariant: a stored row has all its entries, with its expiry, and a stored entry its row, whether
// or not they have expired. So answers by indexes are those of scans at every time.
//
// The naive way: what has expired is absent. A row in its place needs no look at it, and its
// entries expire by themselves. Why it fails: the clock may be set back, or that of another process
// that shares the storage be slower. Then entries of the old row are there again, and lead to the
// new one, or keep a value from others for which it is free.
//
// The way taken: where a commit puts something that must not be there, it looks for what is stored
// there nevertheless, and removes the row which that belongs to, with all its entries: the row with
// the same key, and of an entry of a unique index the row that has the value. All of it is on the
// condition that it is absent, as what has expired is. So it does not matter whether it expires
// before the look, or between the look and the commit; if it has not expired, the commit fails.
//
// What the engine has dropped in a merge is not found any more: its other parts, if they are not
// dropped yet, come back with a clock that is set back to before their expiry. So do rows that had
// expired when an index was built: it has no entries of them.

// bury adds the removal of rows that have expired.
//
// Requires: settle is done, and guard is not.
func (w *Writer) bury(ctx context.Context) error {
	from, ok := w.r.(store.ExpiredReader)
	if !ok {
		return nil
	}
	rows, err := w.expired(ctx, from)
	if err != nil || len(rows) == 0 {
		return err
	}
	var gone, unique []removal
	var keys []store.Key // of unique
	old := w.rules.Schema.Row()
	for i := range rows {
		it := &rows[i]
		if err := w.rules.Schema.Decode(old, it.Key, it.Value, nil); err != nil {
			return err
		}
		gone = append(gone, removal{it.Key, store.Absent(), opInfo{key: it.Key, unique: true}, 0})
		for _, e := range w.entriesOf(it.Key, old) {
			r := removal{key: store.Key{PK: e.PK, SK: e.SK}, expiry: it.Expiry,
				info: opInfo{index: e.Index, key: it.Key, unique: e.Unique}}
			if !e.Unique { // nothing but the row can have it
				gone = append(gone, r)
				continue
			}
			r.cond = store.Absent()
			keys, unique = append(keys, r.key), append(unique, r)
		}
	}
	if len(keys) > 0 {
		err = from.MultiGetExpired(ctx, keys, func(i int, it store.Item) {
			r := &unique[i]
			owner, _, failed := r.info.index.RowKey(nil, it.Key.SK, it.Value)
			if failed == nil && SameKey(owner, r.info.key) && it.Expiry == r.expiry {
				gone = append(gone, *r)
			}
		})
	}
	w.remove(gone)
	return err
}

// expired returns the rows that must have expired, if they are stored: see bury.
func (w *Writer) expired(ctx context.Context, from store.ExpiredReader) (rows []store.Item,
	err error) {
	var keys, owners []store.Key
	var expiries []int64 // of the entries of owners
	var ops []int
	for i := range w.ops {
		if w.ops[i].puts && w.set.Ops[i].Cond.Kind == store.CondAbsent {
			keys, ops = append(keys, w.set.Ops[i].Key), append(ops, i)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	err = from.MultiGetExpired(ctx, keys, func(i int, it store.Item) {
		info := &w.ops[ops[i]]
		switch {
		case it.Expiry == 0:
			return // it is in the way
		case info.index == nil:
			rows = append(rows, it.Clone())
			return
		}
		owner, _, failed := info.index.RowKey(nil, it.Key.SK, it.Value)
		if failed == nil && !SameKey(owner, info.key) { // a damaged one is written over
			owners = append(owners, store.Item{Key: owner}.Clone().Key)
			expiries = append(expiries, it.Expiry)
		}
	})
	if err != nil || len(owners) == 0 {
		return rows, err
	}
	err = from.MultiGetExpired(ctx, owners, func(i int, it store.Item) {
		if it.Expiry == expiries[i] { // otherwise the row has no such entry any more
			rows = append(rows, it.Clone())
		}
	})
	return rows, err
}

// entriesOf returns the entries of a row in all indexes. It has none in an index that cannot have
// one of it.
func (w *Writer) entriesOf(key store.Key, row []expr.Value) []schema.Entry {
	start := len(w.entries.List)
	for _, x := range w.rules.Schema.Indexes {
		n := len(w.entries.List)
		if x.State != schema.Dropping && x.AppendEntries(&w.entries, key, row) != nil {
			w.entries.List = w.entries.List[:n]
		}
	}
	return w.entries.List[start:]
}

// removal is the removal of an item of a row that must have expired.
type removal struct {
	key    store.Key
	cond   store.Condition
	info   opInfo
	expiry int64 // of the row, for entries
}

// remove adds the removal of items whose keys the commit does not write anyway.
func (w *Writer) remove(gone []removal) {
	n := len(w.set.Ops)
	w.same.reset(n + len(gone))
	for i := range n + len(gone) {
		if i >= n {
			r := &gone[i-n]
			w.add(store.Op{Kind: store.OpDelete, Key: r.key, Cond: r.cond}, r.info)
		}
		last := min(i, len(w.set.Ops)-1)
		slot, earlier := w.same.find(w.set.Ops, last)
		switch {
		case earlier < 0:
			*slot = int32(last + 1)
		case i >= n:
			w.set.Ops, w.ops = w.set.Ops[:last], w.ops[:last]
		}
	}
}
