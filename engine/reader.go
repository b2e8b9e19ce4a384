package engine

import (
	"context"
	"iter"

	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/sst"
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

// reader implements Reader for those that embed it.
type reader struct{ from read.Reader }

// lookup finds the live version of one key. The error is exactly ErrNotFound if there is none.
// e.Value is immutable; if it is not wanted, and large, it is a reference.
func (r *reader) lookup(key Key, value bool, e *base.Entry) error {
	live, err := r.from.Lookup(key, value, e)
	switch {
	case err != nil:
		return readError(err)
	case !live:
		return ErrNotFound
	}
	return nil
}

// readError gives an error of a lookup the engine's class.
func readError(err error) error {
	if bad, ok := err.(*read.KeyError); ok {
		return keyError("", bad.Err)
	}
	return err
}

// Get returns the value of key in a slice the caller owns, or ErrNotFound.
func (r *reader) Get(key Key) ([]byte, error) { return r.AppendGet(nil, key) }

// AppendGet appends the value of key to dst and returns the extended slice. Except in a
// transaction it allocates only if dst is too small. On an error it returns dst.
func (r *reader) AppendGet(dst []byte, key Key) ([]byte, error) {
	var e base.Entry
	if err := r.lookup(key, true, &e); err != nil {
		return dst, err
	}
	if dst == nil {
		dst = make([]byte, 0, len(e.Value)) // not nil for an empty value
	}
	return append(dst, e.Value...), nil
}

// GetItem returns the item of key, with its version and expiry, or ErrNotFound. The
// caller owns it. The Version of an item that the transaction itself has written is 0.
func (r *reader) GetItem(key Key) (Item, error) {
	var e base.Entry
	if err := r.lookup(key, true, &e); err != nil {
		return Item{}, err
	}
	it := Item{Key: key, Value: e.Value, Expiry: e.Expiry, Version: uint64(e.Seq)}
	return it.Clone(), nil
}

// Has reports whether key has an item.
func (r *reader) Has(key Key) (bool, error) {
	var e base.Entry
	switch err := r.lookup(key, false, &e); err {
	case nil:
		return true, nil
	case ErrNotFound:
		return false, nil
	default:
		return false, err
	}
}

// ValueSize returns the length of key's value, or ErrNotFound. It reads no large value.
func (r *reader) ValueSize(key Key) (int, error) {
	var e base.Entry
	if err := r.lookup(key, false, &e); err != nil {
		return 0, err
	}
	if e.Large {
		return sst.ValueBytes(e.Value), nil
	}
	return len(e.Value), nil
}

// Query returns the items of one partition that q selects, in sort key order, as of
// the start of the iteration. It streams: memory does not depend on the number of
// items, and writers are not held up. The sequence yields at most one error, last,
// with a zero Item. It may be ranged over again and then sees the present again, or
// the same moment of a snapshot or transaction. In a transaction do not write in the loop
// body.
func (r *reader) Query(ctx context.Context, q Query) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { report(yield, r.query(ctx, &q, yield)) }
}

// Scan returns the items of all partitions that s selects, as of the start of the
// iteration, in key order over all stripes or, with Unordered, stripe by stripe. It
// streams as Query does.
func (r *reader) Scan(ctx context.Context, s Scan) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { report(yield, r.scan(ctx, &s, yield)) }
}

// Gather returns the items of several partitions that g selects, as of the start of the
// iteration. It streams as Query does, with some memory for each partition.
func (r *reader) Gather(ctx context.Context, g Gather) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { report(yield, r.gather(ctx, &g, yield)) }
}

// Count returns the number of items q selects (Limit included), without copying
// them. A transaction then depends on all that was counted.
func (r *reader) Count(ctx context.Context, q Query) (int64, error) {
	return r.query(ctx, &q, nil).both()
}

// CountScan returns the number of items s selects (Limit included). The order costs
// nothing: the stripes are counted one by one.
func (r *reader) CountScan(ctx context.Context, s Scan) (int64, error) {
	return r.scan(ctx, &s, nil).both()
}

// CountGather returns the number of items g selects (Limit included). The order costs
// nothing: the partitions are counted one by one.
func (r *reader) CountGather(ctx context.Context, g Gather) (int64, error) {
	return r.gather(ctx, &g, nil).both()
}

// query hands the items that q selects to yield. Where that is nil, they are only counted.
func (r *reader) query(ctx context.Context, q *Query, yield func(Item, error) bool) outcome {
	it := read.NewIteration()
	defer it.Close()
	s, prefix, err := q.span(it.Scratch())
	if err == nil {
		err = r.start(ctx, it, q.Limit)
	}
	if err != nil {
		return outcome{err: err}
	}
	it.Since(above(q.Since))
	it.MayHold(q.MayHold, q.Blocks)
	it.KeysOnly(q.KeysOnly || yield == nil && q.Filter == nil)
	it.Partition(q.PK, prefix, s)
	it.Read(s, q.Reverse)
	return deliver(it, q.Filter, yield)
}

// scan is query for a Scan.
func (r *reader) scan(ctx context.Context, s *Scan, yield func(Item, error) bool) outcome {
	it := read.NewIteration()
	defer it.Close()
	s.KeysOnly = s.KeysOnly || yield == nil && s.Filter == nil
	if yield == nil && s.all() {
		p, err := s.plan()
		if err == nil {
			err = r.start(ctx, it, 0)
		}
		if err != nil {
			return outcome{err: err}
		}
		it.Stripes(p.stripes, p.span)
		return outcome{it.Count(), it.Err()}
	}
	// A count does not depend on the order.
	if err := r.openScan(ctx, it, s, s.Unordered || yield == nil); err != nil {
		return outcome{err: err}
	}
	return deliver(it, s.Filter, yield)
}

// openScan makes an iteration show what s selects, stripe by stripe if that is what walk says.
func (r *reader) openScan(ctx context.Context, it *read.Iteration, s *Scan, walk bool) error {
	p, err := s.plan()
	if err != nil {
		return err
	}
	if err := r.start(ctx, it, s.Limit); err != nil {
		return err
	}
	it.Since(above(s.Since))
	it.MayHold(s.MayHold, s.Blocks)
	it.KeysOnly(s.KeysOnly)
	it.Stripes(p.stripes, p.span)
	switch {
	case p.span.Empty():
	case s.Share != nil:
		it.WalkShared(s.Share, s.Reverse)
	case walk:
		it.Walk(p.first, s.Reverse)
	default:
		it.Read(p.span, s.Reverse)
	}
	return nil
}

// gather is query for a Gather.
func (r *reader) gather(ctx context.Context, g *Gather, yield func(Item, error) bool) outcome {
	it := read.NewIteration()
	defer it.Close()
	g.KeysOnly = g.KeysOnly || yield == nil && g.Filter == nil
	if err := r.openGather(ctx, it, g, yield != nil); err != nil {
		return outcome{err: err}
	}
	return deliver(it, g.Filter, yield)
}

// openGather makes an iteration show what g selects, in its order if that is wanted.
func (r *reader) openGather(ctx context.Context, it *read.Iteration, g *Gather,
	ordered bool) error {
	err := g.check()
	if err != nil {
		return err
	}
	sel := read.Gather{
		PKs: g.PKs, Spans: g.Spans, Each: g.Each, ByPartition: g.ByPartition, Reverse: g.Reverse,
	}
	if sel.After, sel.Resumed, err = g.start(); err != nil {
		return err
	}
	if err := r.start(ctx, it, g.Limit); err != nil {
		return err
	}
	it.MayHold(g.MayHold, g.Blocks)
	it.KeysOnly(g.KeysOnly)
	it.Gather(&sel, ordered)
	return nil
}

// start begins an iteration at the moment of the reader.
func (r *reader) start(ctx context.Context, it *read.Iteration, limit int) error {
	if err := usable(ctx); err != nil {
		return err
	}
	return it.Start(ctx, r.from, limit)
}

// outcome is how an iteration has ended: after how many items, by which error.
type outcome struct {
	items int64
	err   error
}

func (o outcome) both() (int64, error) { return o.items, o.err }

// report yields what has ended an iteration, if it is an error. Without one, yield may
// have returned false and is not called.
func report(yield func(Item, error) bool, end outcome) {
	if end.err != nil {
		yield(Item{}, end.err)
	}
}

// deliver hands the items of an iteration that the filter accepts to yield, up to its limit.
// Where yield is nil they are only counted.
func deliver(
	it *read.Iteration, filter func(Item) bool, yield func(Item, error) bool,
) outcome {
	if yield == nil && filter == nil {
		for it.Skip() {
			if it.Tally() {
				break
			}
		}
		return outcome{it.Items(), it.Err()}
	}
	for it.Next() {
		item := (*Item)(&it.Item)
		if filter != nil && !filter(*item) {
			continue
		}
		if yield != nil && !yield(*item, nil) {
			return outcome{it.Items(), nil}
		}
		if it.Tally() {
			break
		}
	}
	return outcome{it.Items(), it.Err()}
}
