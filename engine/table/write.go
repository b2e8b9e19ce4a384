package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// writer collects the operations of one commit: those of rows, and for each of them those
// of its index entries. Its memory is used again.
type writer struct {
	st  *tableState
	r   store.Reader // what the conditions of the commit are about
	set store.WriteSet
	ops []opInfo // of set.Ops
	tx  bool     // conditions on versions are left to the transaction

	pk, sk, val []byte       // what keys and values of rows are made in
	values      []expr.Value // of a struct on its way
	entries     schema.Entries
	changes     []*schema.Changes
	used        int // of changes
	deletes     bool
	rows        int
	same        keySet
	noVersions  bool
}

// opInfo says what an operation is for.
type opInfo struct {
	index *schema.Index // nil: the row itself
	key   store.Key     // of the row
	puts  bool          // the row is written, not deleted
	// unique says that no other row may have the key of the operation: of rows, and of
	// entries as schema.Entry.Unique.
	unique bool
	kept   bool // as schema.Entry.Kept
	// replaces says that a row with this key is not in the way: it was found to be absent, and
	// is replaced when it is there by now.
	replaces bool
	// from are the other rows that give up the entry in the same commit: several only while
	// a unique index is being built.
	from []store.Key
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// maxPooledBytes keeps giant writers out of the pool.
const maxPooledBytes = 1 << 20

func (w *writer) release() {
	if cap(w.pk)+cap(w.sk)+cap(w.val) > maxPooledBytes || cap(w.set.Ops) > 1<<14 {
		return
	}
	w.reset(nil, nil)
	writers.Put(w)
}

func (w *writer) reset(st *tableState, r store.Reader) {
	w.st, w.r = st, r
	w.set.Reset()
	clear(w.ops)
	w.ops = w.ops[:0]
	w.pk, w.sk, w.val = w.pk[:0], w.sk[:0], w.val[:0]
	clear(w.values)
	w.entries.Reset()
	w.used, w.deletes, w.rows = 0, false, 0
}

// rowKey returns the key of a row, in the writer's memory.
func (w *writer) rowKey(row []expr.Value) (store.Key, error) {
	pk, sk := len(w.pk), len(w.sk)
	var err error
	if w.pk, w.sk, err = w.st.schema.AppendRowKey(w.pk, w.sk, row); err != nil {
		return store.Key{}, err
	}
	key := store.Key{PK: w.pk[pk:len(w.pk):len(w.pk)]}
	if len(w.st.schema.SK) > 0 {
		key.SK = w.sk[sk:len(w.sk):len(w.sk)]
	}
	return key, nil
}

// expiry returns when a row expires, in Unix milliseconds; 0 is never.
func (w *writer) expiry(row []expr.Value) int64 {
	if !w.st.ttl {
		return 0
	}
	at, ok := w.st.schema.Expiry(row)
	if !ok {
		return 0
	}
	return max(1, at.UnixMilli())
}

// seen is the condition that an item is still what was read.
func (w *writer) seen(it *store.Item) store.Condition {
	switch {
	case w.tx:
		return store.Condition{}
	case w.noVersions:
		return store.ValueIs(it.Value)
	}
	return store.VersionIs(it.Version)
}

// bytes returns the size of the rows added so far.
func (w *writer) bytes() int { return len(w.pk) + len(w.sk) + len(w.val) }

func (w *writer) add(op store.Op, info opInfo) {
	w.set.Ops = append(w.set.Ops, op)
	w.ops = append(w.ops, info)
	w.deletes = w.deletes || op.Kind == store.OpDelete
}

// put adds a row, with the condition on what is there.
func (w *writer) put(key store.Key, row []expr.Value, cond store.Condition) (int64, error) {
	start := len(w.val)
	var err error
	if w.val, err = w.st.schema.AppendRow(w.val, row); err != nil {
		return 0, err
	}
	value, expiry := w.val[start:len(w.val):len(w.val)], w.expiry(row)
	w.add(store.Op{Key: key, Value: value, Expiry: expiry, Cond: cond},
		opInfo{key: key, puts: true, unique: true})
	w.rows++
	return expiry, nil
}

// stored returns a row as its readers will see it, where that makes a difference: to the
// conditions of partial indexes, and to when it expires.
func (w *writer) stored(row []expr.Value) ([]expr.Value, error) {
	if !w.st.converts {
		return row, nil
	}
	own := slices.Clone(row)
	return own, w.st.schema.Convert(own)
}

// insert adds a row that must not be there, and its entries.
func (w *writer) insert(row []expr.Value) error {
	row, err := w.stored(row)
	if err != nil {
		return err
	}
	key, err := w.rowKey(row)
	if err != nil {
		return err
	}
	expiry, err := w.put(key, row, store.Absent())
	if err != nil {
		return err
	}
	return w.putEntries(key, row, expiry)
}

// putEntries adds the entries of a new row.
func (w *writer) putEntries(key store.Key, row []expr.Value, expiry int64) error {
	if !w.st.indexed {
		return nil
	}
	start := len(w.entries.List)
	for _, x := range w.st.schema.Indexes {
		if x.State == schema.Dropping {
			continue
		}
		if err := x.AppendEntries(&w.entries, key, row); err != nil {
			return err
		}
	}
	list := w.entries.List[start:]
	for i := range list {
		w.putEntry(&list[i], key, expiry)
	}
	return nil
}

func (w *writer) putEntry(e *schema.Entry, key store.Key, expiry int64) {
	op := store.Op{Key: store.Key{PK: e.PK, SK: e.SK}, Value: e.Value, Expiry: expiry}
	if e.Unique && !e.Kept {
		op.Cond = store.Absent()
	}
	w.add(op, opInfo{index: e.Index, key: key, puts: true, unique: e.Unique, kept: e.Kept})
}

func (w *writer) deleteEntry(e *schema.Entry, key store.Key) {
	w.add(store.Op{Kind: store.OpDelete, Key: store.Key{PK: e.PK, SK: e.SK}},
		opInfo{index: e.Index, key: key, unique: e.Unique})
}

// compute returns the changes of entries, in memory that lasts until reset.
func (w *writer) compute(key store.Key, old, row []expr.Value, rewrite bool) (*schema.Changes,
	error) {
	if w.used == len(w.changes) {
		w.changes = append(w.changes, new(schema.Changes))
	}
	c := w.changes[w.used]
	w.used++
	return c, w.st.schema.Compute(c, key, old, row, rewrite)
}

// replace turns the row of an item into another one, which may have another key.
func (w *writer) replace(it *store.Item, old, row []expr.Value) error {
	row, err := w.stored(row)
	if err != nil {
		return err
	}
	key, err := w.rowKey(row)
	if err != nil {
		return err
	}
	if !sameKey(key, it.Key) {
		if err := w.remove(it, old); err != nil {
			return err
		}
		return w.insert(row)
	}
	expiry, err := w.put(key, row, w.seen(it))
	if err != nil || !w.st.indexed {
		return err
	}
	// While an index is being built, rows from before may lack an entry that stays as it is.
	c, err := w.compute(key, old, row, expiry != it.Expiry || w.st.building)
	if err != nil {
		return err
	}
	for i := range c.Delete {
		w.deleteEntry(&c.Delete[i], key)
	}
	for i := range c.Put {
		w.putEntry(&c.Put[i], key, expiry)
	}
	return nil
}

// remove deletes the row of an item.
func (w *writer) remove(it *store.Item, old []expr.Value) error {
	w.add(store.Op{Kind: store.OpDelete, Key: it.Key, Cond: w.seen(it)},
		opInfo{key: it.Key, unique: true})
	w.rows++
	if !w.st.indexed {
		return nil
	}
	c, err := w.compute(it.Key, old, nil, false)
	if err != nil {
		return err
	}
	for i := range c.Delete {
		w.deleteEntry(&c.Delete[i], it.Key)
	}
	return nil
}

// run builds a commit and commits it, again and again while it loses races. build is
// called with an empty writer each time.
func (t *Table) run(ctx context.Context, build func(*writer) error) error {
	w := writers.Get().(*writer)
	defer w.release()
	w.tx, w.noVersions = t.tx != nil, t.db.store.Limits().NoVersions
	for attempt := 0; ; attempt++ {
		again, err := t.attempt(ctx, w, build)
		if !again {
			return err
		}
		if t.tx != nil {
			return errors.Join(ErrConflict, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// attempt builds and commits once; again says that a race was lost.
func (t *Table) attempt(ctx context.Context, w *writer, build func(*writer) error) (again bool,
	err error) {
	st, writeTo, done, err := t.begin()
	if err != nil {
		return false, err
	}
	defer done()
	w.reset(st, writeTo)
	if err = build(w); err == nil {
		err = w.settle()
	}
	if err == nil && st.unique {
		err = w.guard(ctx)
	}
	if err != nil || len(w.set.Ops) == 0 {
		return false, err
	}
	rows := w.touch(t.core)
	err = writeTo.Commit(ctx, &w.set)
	if t.tx != nil {
		t.tx.touch(rows)
	} else {
		rows.end()
	}
	var failed *store.ConditionError
	switch {
	case errors.As(err, &failed):
		return w.lost(ctx, failed)
	case err != nil && t.tx == nil && errors.Is(err, ErrConflict):
		return true, err
	}
	return false, err
}

// begin returns the definition to write by and where to; done is called after the commit.
func (t *Table) begin() (*tableState, store.ReadWriter, func(), error) {
	if t.tx != nil {
		st, err := t.tx.state(t.core)
		if err == nil {
			err = t.bound(st)
		}
		return st, t.tx.store, func() {}, err
	}
	if t.snap != nil {
		return nil, nil, nil, invalid("a snapshot cannot be written to")
	}
	t.core.fence.RLock()
	st := t.core.state.Load()
	if st.gone {
		t.core.fence.RUnlock()
		return nil, nil, nil, &NameError{st.schema.Name, ErrNoTable}
	}
	if err := t.bound(st); err != nil {
		t.core.fence.RUnlock()
		return nil, nil, nil, err
	}
	return st, t.db.store, t.core.fence.RUnlock, nil
}

// bound returns an error if the handle is for another definition: see DB.Bound.
func (t *Table) bound(st *tableState) error {
	if t.only != nil && t.only != st.schema {
		return fmt.Errorf("%w: %q", ErrChanged, st.schema.Name)
	}
	return nil
}

// lost finds out what a failed condition means: that another row is in the way, which is
// the final answer, or that the row has changed and everything has to be decided again.
func (w *writer) lost(ctx context.Context, failed *store.ConditionError) (again bool, err error) {
	if failed.Op >= len(w.ops) {
		return false, failed
	}
	info, op := &w.ops[failed.Op], &w.set.Ops[failed.Op]
	switch {
	case op.Cond.Kind != store.CondAbsent || !info.puts:
		return true, failed
	case info.index == nil && info.replaces:
		return true, failed
	case info.index == nil:
		return false, w.notUnique(info, info.key)
	}
	it, err := store.GetItem(ctx, w.r, op.Key)
	if errors.Is(err, store.ErrNotFound) {
		return true, failed
	}
	if err != nil {
		return false, err
	}
	owner, _, err := info.index.RowKey(nil, it.Key.SK, it.Value)
	if err != nil {
		return false, err
	}
	if sameKey(owner, info.key) {
		return true, failed
	}
	return false, w.notUnique(info, owner)
}

// notUnique returns the error that a row with the key owner is in the way of that of info.
func (w *writer) notUnique(info *opInfo, owner store.Key) error {
	row, err := w.rowOf(info.key)
	if err != nil {
		return err
	}
	return uniqueError(w.st.schema, info.index, row, owner)
}

// rowOf returns the row with a key that the commit writes.
func (w *writer) rowOf(key store.Key) ([]expr.Value, error) {
	for i := range w.ops {
		info, op := &w.ops[i], &w.set.Ops[i]
		if info.index == nil && op.Kind == store.OpPut && sameKey(op.Key, key) {
			row := w.st.schema.Row()
			return row, w.st.schema.Decode(row, op.Key, op.Value, nil)
		}
	}
	return nil, invalid("no row is written")
}

func uniqueError(t *schema.Table, x *schema.Index, row []expr.Value, owner store.Key) error {
	e := &UniqueError{Table: t.Name, Index: plan.PrimaryIndex}
	ordinals := t.KeyOrdinals()
	if x != nil {
		e.Index, ordinals = x.Name, x.Ordinals()
	}
	for _, o := range ordinals {
		e.Values = append(e.Values, row[o].Clone())
	}
	var err error
	e.Key, err = keyValues(t, owner)
	if err != nil {
		return err
	}
	return e
}

// keyValues returns the values of the primary key's columns. Collated texts are folded.
func keyValues(t *schema.Table, key store.Key) ([]expr.Value, error) {
	var out []expr.Value
	rest := key.PK[len(t.AppendRowPrefix(nil)):]
	for i, columns := range [][]schema.KeyColumn{t.PK, t.SK} {
		if i == 1 {
			rest = key.SK
		}
		for _, k := range columns {
			var v expr.Value
			var err error
			if v, rest, err = t.Columns[k.Ordinal].DecodeField(rest, k); err != nil {
				return nil, err
			}
			out = append(out, v.Clone())
		}
	}
	return out, nil
}

// pause waits a little before the next attempt: not at first, then for random times that
// grow up to 5 ms.
func pause(ctx context.Context, attempt int) error {
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	if attempt < 4 {
		runtime.Gosched()
		return nil
	}
	most := min(50*time.Microsecond<<min(attempt-4, 10), 5*time.Millisecond)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
