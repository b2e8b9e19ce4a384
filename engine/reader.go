package engine

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
)

// Reader is what a DB, a Snapshot and a Tx read with: the present, what was committed when
// the snapshot was taken, and that with the transaction's own writes on top. The methods
// are documented with DB.
type Reader interface {
	Get(key Key) ([]byte, error)
	AppendGet(dst []byte, key Key) ([]byte, error)
	GetItem(key Key) (Item, error)
	Has(key Key) (bool, error)
	ValueSize(key Key) (int, error)
	MultiGet(ctx context.Context, keys []Key, r *Results) error
	MultiHas(ctx context.Context, keys []Key, dst []bool) ([]bool, error)

	Query(ctx context.Context, q Query) iter.Seq2[Item, error]
	Scan(ctx context.Context, s Scan) iter.Seq2[Item, error]
	Gather(ctx context.Context, g Gather) iter.Seq2[Item, error]
	QueryIterator(ctx context.Context, q Query) (*Iterator, error)
	ScanIterator(ctx context.Context, s Scan) (*Iterator, error)
	Count(ctx context.Context, q Query) (int64, error)
	CountScan(ctx context.Context, s Scan) (int64, error)
	CountGather(ctx context.Context, g Gather) (int64, error)
}

var (
	_ Reader = (*DB)(nil)
	_ Reader = (*Snapshot)(nil)
	_ Reader = (*Tx)(nil)
)

// reader implements Reader for those that embed it. Reads are at a moment or, without one,
// at the present.
type reader struct {
	db *DB
	at *moment
	tx *Tx // whose writes are on top, and which notes what is read; nil for none
}

// moment keeps alive a state of the database until it is released.
type moment struct {
	node     snapNode
	released atomic.Bool
}

func (m *moment) release(db *DB) {
	if !m.released.Swap(true) {
		db.snaps.release(&m.node)
	}
}

// check returns ErrClosed if the database is closed or the moment is released.
func (r *reader) check() error {
	if r.db.closed.Load() || r.at != nil && r.at.released.Load() {
		return ErrClosed
	}
	return nil
}

// enter registers in n the sequence number of a read of several keys. It keeps its moment
// alive, should that of the reader be released meanwhile.
func (r *reader) enter(n *snapNode) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.at != nil {
		return r.db.snaps.registerAt(n, &r.at.node)
	}
	r.db.takeSnapshot(n)
	return nil
}

// overlay returns the uncommitted writes on a stripe, nil if there are none.
func (r *reader) overlay(id uint8) *memtable.Table {
	if r.tx == nil {
		return nil
	}
	return r.tx.overlay[id]
}

// Get returns the value of key in a slice the caller owns, or ErrNotFound.
func (r *reader) Get(key Key) ([]byte, error) { return r.AppendGet(nil, key) }

// AppendGet appends the value of key to dst and returns the extended slice. Except in a
// transaction it allocates only if dst is too small. On an error it returns dst.
func (r *reader) AppendGet(dst []byte, key Key) ([]byte, error) {
	var f base.Lookup
	if err := r.lookup(key, &f); err != nil {
		return dst, err
	}
	if dst == nil {
		dst = make([]byte, 0, len(f.Value)) // not nil for an empty value
	}
	return append(dst, f.Value...), nil
}

// GetItem returns the item of key, with its version and expiry, or ErrNotFound. The
// caller owns it. The Version of an item that the transaction itself has written is 0.
func (r *reader) GetItem(key Key) (Item, error) {
	var f base.Lookup
	if err := r.lookup(key, &f); err != nil {
		return Item{}, err
	}
	it := Item{Key: key, Value: f.Value, Expiry: f.Expiry, Version: uint64(f.Seq)}
	return it.Clone(), nil
}

// Has reports whether key has an item.
func (r *reader) Has(key Key) (bool, error) {
	var f base.Lookup
	switch err := r.lookup(key, &f); err {
	case nil:
		return true, nil
	case ErrNotFound:
		return false, nil
	default:
		return false, err
	}
}

// ValueSize returns the length of key's value, or ErrNotFound. It finds the value as Get does,
// and spares the copy of it.
func (r *reader) ValueSize(key Key) (int, error) {
	var f base.Lookup
	if err := r.lookup(key, &f); err != nil {
		return 0, err
	}
	return len(f.Value), nil
}

// Query returns the items of one partition that q selects, in sort key order, as of
// the start of the iteration. It streams: memory does not depend on the number of
// items, and writers are not held up. The sequence yields at most one error, last,
// with a zero Item. It may be ranged over again and then sees the present again, or
// the same moment of a snapshot or transaction. In a transaction do not write in the loop
// body.
func (r *reader) Query(ctx context.Context, q Query) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { report(yield, r.db.query(ctx, &q, *r, yield)) }
}

// Scan returns the items of all partitions that s selects, as of the start of the
// iteration, in key order over all stripes or, with Unordered, stripe by stripe. It
// streams as Query does.
func (r *reader) Scan(ctx context.Context, s Scan) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { report(yield, r.db.scan(ctx, &s, *r, yield)) }
}

// Gather returns the items of several partitions that g selects, as of the start of the
// iteration. It streams as Query does, with some memory for each partition.
func (r *reader) Gather(ctx context.Context, g Gather) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { report(yield, r.db.gather(ctx, &g, *r, yield)) }
}

// Count returns the number of items q selects (Limit included), without copying
// them. A transaction then depends on all that was counted.
func (r *reader) Count(ctx context.Context, q Query) (int64, error) {
	return r.db.query(ctx, &q, *r, nil).both()
}

// CountScan returns the number of items s selects (Limit included). The order costs
// nothing: the stripes are counted one by one.
func (r *reader) CountScan(ctx context.Context, s Scan) (int64, error) {
	return r.db.scan(ctx, &s, *r, nil).both()
}

// CountGather returns the number of items g selects (Limit included). The order costs
// nothing: the partitions are counted one by one.
func (r *reader) CountGather(ctx context.Context, g Gather) (int64, error) {
	return r.db.gather(ctx, &g, *r, nil).both()
}
