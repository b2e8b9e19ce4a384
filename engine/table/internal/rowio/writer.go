package rowio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/base"
)

// Writer collects the operations of one commit: those of rows, and for each of them those
// of its index entries. Its memory is used again.
type Writer struct {
	rules *Rules
	ctx   context.Context //nolint:containedctx // that of the commit
	r     store.Reader    // what the conditions of the commit are about
	set   store.WriteSet
	ops   []opInfo // of set.Ops

	// Values is memory for a row of the caller's. Reset clears it.
	Values []expr.Value

	pk, sk, val []byte // what keys and values of rows are made in
	entries     schema.Entries
	changes     []*schema.Changes
	used        int // of changes
	deletes     bool
	rows        int
	bytes       int   // of keys and values
	number      int64 // the greatest one of the identity column
	same        keySet
	// own are the values of unique entries that Lost has found of rows that are not there, as after
	// a repair, by their keys. They are written over.
	own map[string][]byte

	tx         bool // conditions on versions are left to the transaction
	noVersions bool // of the store
}

// opInfo says what an operation is for.
type opInfo struct {
	index *schema.Index // nil: the row itself
	key   store.Key     // of the row
	puts  bool          // the row is written, not deleted
	// unique says that no other row may have the key of the operation: of rows, and of
	// entries as schema.Entry.Unique.
	unique bool
	// replaces says that a row with this key is not in the way: it was found to be absent, and
	// is replaced when it is there by now.
	replaces bool
	first    bool // as First says: the row must not be there, which is tested later
	// from are the other rows that give up the entry in the same commit: several only while
	// a unique index is being built.
	from []store.Key
}

var writers = sync.Pool{New: func() any { return new(Writer) }}

// MaxPooledBytes keeps giant memory out of pools.
const MaxPooledBytes = 1 << 20

// Limits of one commit of many rows.
const (
	MaxRows  = 10_000
	maxBytes = 16 << 20
)

// NewWriter returns a writer, for a transaction or for commits to a store. noVersions is that of
// store.Limits. Release ends its use.
func NewWriter(tx, noVersions bool) *Writer {
	w := writers.Get().(*Writer)
	w.tx, w.noVersions, w.own = tx, noVersions, nil
	return w
}

// Release gives the memory back.
func (w *Writer) Release() {
	if cap(w.pk)+cap(w.sk)+cap(w.val) > MaxPooledBytes || cap(w.set.Ops) > 1<<14 {
		return
	}
	w.Reset(context.Background(), nil, nil)
	writers.Put(w)
}

// Reset empties the writer, for a commit by some rules whose conditions are about r. Rows are added
// until ctx ends.
func (w *Writer) Reset(ctx context.Context, rules *Rules, r store.Reader) {
	w.rules, w.ctx, w.r = rules, ctx, r
	w.set.Reset()
	clear(w.ops)
	w.ops = w.ops[:0]
	w.pk, w.sk, w.val = w.pk[:0], w.sk[:0], w.val[:0]
	clear(w.Values)
	w.entries.Reset()
	w.used, w.deletes, w.rows, w.bytes, w.number = 0, false, 0, 0, 0
}

// Rules returns how the rows are written.
func (w *Writer) Rules() *Rules { return w.rules }

// Set returns the commit, after Finish.
func (w *Writer) Set() *store.WriteSet { return &w.set }

// Rows returns how many rows were added since Reset.
func (w *Writer) Rows() int { return w.rows }

// Full reports whether rows are as many, or as large, as those of one commit may be.
func Full(rows, bytes int) bool { return rows >= MaxRows || bytes >= maxBytes }

// Full reports whether the rows are as large as those of one commit may be.
func (w *Writer) Full() bool { return len(w.pk)+len(w.sk)+len(w.val) >= maxBytes }

// Bytes returns how many bytes the keys and values have that were added since Reset.
func (w *Writer) Bytes() int { return w.bytes }

// Keys returns the keys of the rows that are written or deleted.
func (w *Writer) Keys() iter.Seq[store.Key] {
	return func(yield func(store.Key) bool) {
		for i := range w.ops {
			op := &w.set.Ops[i]
			if w.ops[i].index == nil && op.Kind != store.OpRequire && !yield(op.Key) {
				return
			}
		}
	}
}

// Buffers returns the memory that keys and values of rows are made in, for PutStored.
func (w *Writer) Buffers() (pk, sk, val []byte) { return w.pk, w.sk, w.val }

// PutStored adds a row whose key and value were appended to Buffers, with the condition on
// what is there, and returns its key. Requires: the rules do not convert rows.
func (w *Writer) PutStored(pk, sk, val []byte, cond store.Condition) (key store.Key) {
	key.PK = pk[len(w.pk):len(pk):len(pk)]
	if len(w.rules.Schema.SK) > 0 {
		key.SK = sk[len(w.sk):len(sk):len(sk)]
	}
	value := val[len(w.val):len(val):len(val)]
	w.pk, w.sk, w.val = pk, sk, val
	w.add(store.Op{Key: key, Value: value, Cond: cond}, opInfo{key: key, puts: true, unique: true})
	w.rows++
	return key
}

// rowKey returns the key of a row, in the writer's memory.
func (w *Writer) rowKey(row []expr.Value) (store.Key, error) {
	pk, sk := len(w.pk), len(w.sk)
	var err error
	if w.pk, w.sk, err = w.rules.Schema.AppendRowKey(w.pk, w.sk, row); err != nil {
		return store.Key{}, err
	}
	key := store.Key{PK: w.pk[pk:len(w.pk):len(w.pk)]}
	if len(w.rules.Schema.SK) > 0 {
		key.SK = w.sk[sk:len(w.sk):len(w.sk)]
	}
	return key, nil
}

// expiry returns when a row expires, in Unix milliseconds; 0 is never.
func (w *Writer) expiry(row []expr.Value) int64 {
	if !w.rules.TTL {
		return 0
	}
	at, ok := w.rules.Schema.Expiry(row)
	if !ok {
		return 0
	}
	return base.ExpiryOf(at)
}

// seen is the condition that an item is still what was read.
func (w *Writer) seen(it *store.Item) store.Condition {
	switch {
	case w.tx:
		return store.Condition{}
	case w.noVersions:
		return store.ValueIs(it.Value)
	}
	return store.VersionIs(it.Version)
}

func (w *Writer) add(op store.Op, info opInfo) {
	w.set.Ops = append(w.set.Ops, op)
	w.ops = append(w.ops, info)
	w.deletes = w.deletes || op.Kind == store.OpDelete
	w.bytes += len(op.Key.PK) + len(op.Key.SK) + len(op.Value)
}

// put adds a row, with the condition on what is there.
func (w *Writer) put(key store.Key, row []expr.Value, cond store.Condition) (int64, error) {
	start := len(w.val)
	var err error
	if w.val, err = w.rules.Schema.AppendRow(w.val, row); err != nil {
		return 0, err
	}
	value, expiry := w.val[start:len(w.val):len(w.val)], w.expiry(row)
	w.add(store.Op{Key: key, Value: value, Expiry: expiry, Cond: cond},
		opInfo{key: key, puts: true, unique: true})
	w.rows++
	return expiry, nil
}

// rowsAtATime is after how many rows a writer looks whether its context has ended.
const rowsAtATime = 1 << 8

// next reports why no other row is to be added.
func (w *Writer) next() error {
	if w.rows%rowsAtATime != rowsAtATime-1 {
		return nil
	}
	return context.Cause(w.ctx)
}

// stored returns the key of a row, and the row as its readers will see it, where that makes a
// difference: to the conditions of partial indexes, to when it expires, to the numbers of an
// identity column, and to the checks of the table, which it satisfies then.
func (w *Writer) stored(row []expr.Value) (key store.Key, out []expr.Value, err error) {
	if err = w.next(); err != nil {
		return key, nil, err
	}
	if w.rules.Converts {
		if row, err = w.converted(row); err != nil {
			return key, nil, err
		}
	}
	key, err = w.rowKey(row)
	return key, row, err
}

// converted returns a row as columns hold it, which satisfies the checks of the table.
func (w *Writer) converted(row []expr.Value) ([]expr.Value, error) {
	own := slices.Clone(row)
	if err := w.rules.Schema.Convert(own); err != nil {
		return nil, err
	}
	if o := w.rules.identity; o >= 0 {
		n, ok := own[o].AsInt()
		if !ok && own[o].Kind() == expr.KindUint { // of more than 63 bits
			n = math.MaxInt64
		}
		w.number = max(w.number, n)
	}
	return own, w.rules.Schema.CheckRow(own)
}

// Number returns the greatest number of the identity column among the rows that are written, 0
// without one.
func (w *Writer) Number() int64 { return w.number }

// Insert adds a row that must not be there, and its entries.
func (w *Writer) Insert(row []expr.Value) error {
	key, row, err := w.stored(row)
	if err != nil {
		return err
	}
	expiry, err := w.put(key, row, store.Absent())
	if err != nil {
		return err
	}
	return w.PutEntries(key, row, expiry)
}

// First moves the operations on an index to the front: their conditions fail before others do. The
// others stay in order: the key of the row comes before its other entries, as Lost requires.
//
// Requires: the row is one of Insert.
func (w *Writer) First(index string) {
	front := 0
	for i, info := range w.ops {
		if x := info.index; x != nil && x.Name == index {
			info.first = true
			moved := w.set.Ops[i]
			copy(w.set.Ops[front+1:], w.set.Ops[front:i])
			copy(w.ops[front+1:], w.ops[front:i])
			w.set.Ops[front], w.ops[front] = moved, info
			front++
		}
	}
}

// PutEntries adds the entries of a new row.
func (w *Writer) PutEntries(key store.Key, row []expr.Value, expiry int64) error {
	if !w.rules.Indexed {
		return nil
	}
	start := len(w.entries.List)
	for _, x := range w.rules.Schema.Indexes {
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

func (w *Writer) putEntry(e *schema.Entry, key store.Key, expiry int64) {
	op := store.Op{Key: store.Key{PK: e.PK, SK: e.SK}, Value: e.Value, Expiry: expiry}
	if e.Unique && !e.Kept {
		op.Cond = store.Absent()
		if value, there := w.own[nameOf(op.Key)]; there {
			op.Cond = store.ValueIs(value)
		}
	}
	w.add(op, opInfo{index: e.Index, key: key, puts: true, unique: e.Unique})
}

func (w *Writer) deleteEntry(e *schema.Entry, key store.Key) {
	w.add(store.Op{Kind: store.OpDelete, Key: store.Key{PK: e.PK, SK: e.SK}},
		opInfo{index: e.Index, key: key, unique: e.Unique})
}

// compute returns the changes of entries, in memory that lasts until reset.
func (w *Writer) compute(key store.Key, old, row []expr.Value, rewrite bool) (*schema.Changes,
	error) {
	if w.used == len(w.changes) {
		w.changes = append(w.changes, new(schema.Changes))
	}
	c := w.changes[w.used]
	w.used++
	return c, w.rules.Schema.Compute(c, key, old, row, rewrite)
}

// Replace turns the row of an item into another one, which may have another key.
func (w *Writer) Replace(it *store.Item, old, row []expr.Value) error {
	key, row, err := w.stored(row)
	if err != nil {
		return err
	}
	if !SameKey(key, it.Key) {
		if err := w.Remove(it, old); err != nil {
			return err
		}
		return w.Insert(row)
	}
	expiry, err := w.put(key, row, w.seen(it))
	if err != nil || !w.rules.Indexed {
		return err
	}
	// While an index is being built, rows from before may lack an entry that stays as it is.
	c, err := w.compute(key, old, row, expiry != it.Expiry || w.rules.Building)
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

// Remove deletes the row of an item.
func (w *Writer) Remove(it *store.Item, old []expr.Value) error {
	if err := w.next(); err != nil {
		return err
	}
	w.add(store.Op{Kind: store.OpDelete, Key: it.Key, Cond: w.seen(it)},
		opInfo{key: it.Key, unique: true})
	w.rows++
	if !w.rules.Indexed {
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

// Taken is the error that a row of the commit cannot be written because another one, or
// another row of the commit, has its key.
type Taken struct {
	Index *schema.Index // nil: the primary key
	Row   []expr.Value  // the one that is not written
	Owner store.Key     // of the row that is there
}

// Error implements error.
func (e *Taken) Error() string { return fmt.Sprintf("row %x/%x is there", e.Owner.PK, e.Owner.SK) }

// Finish completes the commit: see settle, bury and guard.
func (w *Writer) Finish(ctx context.Context) error {
	if err := w.settle(); err != nil {
		return err
	}
	if w.rules.expires {
		if err := w.bury(ctx); err != nil {
			return err
		}
	}
	if w.rules.unique {
		return w.guard(ctx)
	}
	return nil
}

// Find returns the item and the row that have a primary key: the values of the partition key's
// columns, then those of the sort key.
func (w *Writer) Find(ctx context.Context, values []expr.Value) (it store.Item, row []expr.Value,
	err error) {
	row = w.rules.Schema.Row()
	if err := SetKey(w.rules.Schema, row, values); err != nil {
		return it, nil, err
	}
	key, err := w.rowKey(row)
	if err != nil {
		return it, nil, err
	}
	if it, err = store.GetItem(ctx, w.r, key); err != nil {
		return it, nil, err
	}
	return it, row, w.rules.Schema.Decode(row, it.Key, it.Value, nil)
}

// Lost finds out what a failed condition means: that another row is in the way, which is
// the final answer, or that the row has changed and everything has to be decided again.
func (w *Writer) Lost(ctx context.Context, failed *store.ConditionError) (again bool, err error) {
	if failed.Op >= len(w.ops) {
		return false, failed
	}
	info, op := &w.ops[failed.Op], &w.set.Ops[failed.Op]
	delete(w.own, nameOf(op.Key))
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
	lost := SameKey(owner, info.key)
	if lost && info.first { // the condition on the row comes later
		_, err = store.GetItem(ctx, w.r, owner)
		if lost = errors.Is(err, store.ErrNotFound); err != nil && !lost {
			return false, err
		}
	}
	if lost {
		if w.own == nil {
			w.own = map[string][]byte{}
		}
		w.own[nameOf(op.Key)] = bytes.Clone(it.Value)
		return true, failed
	}
	return false, w.notUnique(info, owner)
}

// nameOf returns the key of an entry as one text: all their PKs have the same length.
func nameOf(key store.Key) string { return string(key.PK) + string(key.SK) }

// Overwrites returns how many entries that the next commit writes over Lost has found.
func (w *Writer) Overwrites() int { return len(w.own) }

// notUnique returns the error that a row with the key owner is in the way of that of info.
func (w *Writer) notUnique(info *opInfo, owner store.Key) error {
	row, err := w.rowOf(info.key)
	if err != nil {
		return err
	}
	return &Taken{Index: info.index, Row: row, Owner: owner}
}

// rowOf returns the row with a key that the commit writes.
func (w *Writer) rowOf(key store.Key) ([]expr.Value, error) {
	for i := range w.ops {
		info, op := &w.ops[i], &w.set.Ops[i]
		if info.index == nil && op.Kind == store.OpPut && SameKey(op.Key, key) {
			row := w.rules.Schema.Row()
			return row, w.rules.Schema.Decode(row, op.Key, op.Value, nil)
		}
	}
	return nil, fmt.Errorf("%w: no row is written", store.ErrInvalid)
}
