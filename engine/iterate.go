package engine

import (
	"bytes"
	"context"
	"iter"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// Query returns the items of one partition that q selects, in sort key order, as of
// the start of the iteration. It streams: memory does not depend on the number of
// items, and writers are not held up. The sequence yields at most one error, last,
// with a zero Item. It may be ranged over again and then sees the present again.
func (db *DB) Query(ctx context.Context, q Query) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { db.query(ctx, &q, reader{}, yield) }
}

// Scan returns the items of all partitions that s selects, as of the start of the
// iteration, in key order over all stripes or, with Unordered, stripe by stripe. It
// streams as Query does.
func (db *DB) Scan(ctx context.Context, s Scan) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { db.scan(ctx, &s, reader{}, yield) }
}

// reader says at which point in time an iteration reads: in a snapshot, in a
// transaction, or (the zero value) at the present.
type reader struct {
	snap *Snapshot
	tx   *Tx
}

// enter registers the iteration's own sequence number in n.
func (r reader) enter(db *DB, n *snapNode) error {
	if db.closed.Load() {
		return ErrClosed
	}
	switch {
	case r.tx != nil:
		if err := r.tx.check(); err != nil {
			return err
		}
		db.snaps.registerAt(n, r.tx.node.seq)
	case r.snap != nil:
		if err := r.snap.check(); err != nil {
			return err
		}
		db.snaps.registerAt(n, r.snap.node.seq)
	default:
		db.takeSnapshot(n)
	}
	return nil
}

// iteration is the state of one range loop; pooled.
type iteration struct {
	db      *DB
	ctx     context.Context //nolint:containedctx // lives as long as the loop
	node    snapNode
	cursor  stripe.Cursor
	nowMs   int64
	left    int // items until the limit, negative for none
	sinceOK int // entries since the context was checked
	filter  func(Item) bool
	item    Item   // what is yielded next
	pk      []byte // scratch of escaped partition keys
	bounds  []byte // scratch of the bounds of a query
}

var iterationPool = sync.Pool{New: func() any { return new(iteration) }}

// checkEvery is how many entries pass between two looks at the context.
const checkEvery = 256

// start begins the iteration; after an error it is over.
func (it *iteration) start(
	ctx context.Context, db *DB, r reader, limit int, filter func(Item) bool,
) error {
	err := context.Cause(ctx)
	if err == nil {
		err = r.enter(db, &it.node)
	}
	if err != nil {
		iterationPool.Put(it)
		return err
	}
	it.db, it.ctx, it.filter = db, ctx, filter
	it.nowMs, it.sinceOK, it.left = 0, 0, limit
	if limit == 0 {
		it.left = -1
	}
	return nil
}

func (it *iteration) close() {
	it.cursor.Close()
	it.db.snaps.release(&it.node)
	it.db, it.ctx, it.filter, it.item = nil, nil, nil, Item{}
	iterationPool.Put(it)
}

// expired reports whether a value has expired; the time is read once an iteration.
func (it *iteration) expired(e *base.Entry) bool {
	if e.Kind != base.KindPutTTL {
		return false
	}
	if it.nowMs == 0 {
		it.nowMs = it.db.nowMs()
	}
	return it.nowMs >= e.Expiry
}

// pause checks the context every so often; it returns the reason to stop.
func (it *iteration) pause() error {
	if it.sinceOK++; it.sinceOK < checkEvery {
		return nil
	}
	it.sinceOK = 0
	if it.ctx.Err() != nil {
		return context.Cause(it.ctx)
	}
	if it.db.closed.Load() {
		return ErrClosed
	}
	return nil
}

// emit yields the item unless the filter rejects it; done means the loop is over.
func (it *iteration) emit(item *Item, yield func(Item, error) bool) (done bool) {
	if it.filter != nil && !it.filter(*item) {
		return false
	}
	if !yield(*item, nil) {
		return true
	}
	it.left--
	return it.left == 0
}

func (db *DB) query(ctx context.Context, q *Query, r reader, yield func(Item, error) bool) {
	it := iterationPool.Get().(*iteration)
	s, err := q.span(it.bounds)
	if err != nil {
		iterationPool.Put(it)
		yield(Item{}, err)
		return
	}
	it.bounds = s.lo[:0]
	if err := it.start(ctx, db, r, q.Limit, q.Filter); err != nil {
		yield(Item{}, err)
		return
	}
	defer it.close()
	db.metrics.queries.Add(1)
	id := keycodec.Stripe(q.PK)
	if s.empty() {
		return
	}
	if r.tx != nil {
		r.tx.readSpan(id, s)
	}
	b := stripe.Bounds{
		Lo: s.lo, Hi: s.hi, Reverse: q.Reverse, Snap: it.node.seq, FirstRows: firstRows(q.Limit),
	}
	if err := it.open(id, b, r); err != nil {
		yield(Item{}, db.readError(err))
		return
	}
	if err := it.queryRows(q, s.lo, yield); err != nil {
		yield(Item{}, db.readError(err))
	}
}

// queryRows yields what the cursor shows. Lo is the lower bound of the query.
func (it *iteration) queryRows(q *Query, lo []byte, yield func(Item, error) bool) error {
	pkLen, _ := keycodec.OrderedPKLen(lo)
	item := Item{Key: Key{PK: q.PK}}
	return it.each(q.Reverse, func(e *base.Entry) (done bool, err error) {
		if err := it.pause(); err != nil {
			return true, err
		}
		if it.expired(e) {
			return false, nil
		}
		item.set(e)
		item.Key.SK = nil
		if len(e.Key) > pkLen {
			item.Key.SK = e.Key[pkLen:]
		}
		return it.emit(&item, yield), nil
	})
}

// each calls f for what the open cursor shows, until f says it is done or fails.
func (it *iteration) each(reverse bool, f func(*base.Entry) (done bool, err error)) error {
	if len(it.cursor.Sources()) > 1 {
		m := newMerge(reverse)
		defer m.close()
		m.attach(&it.cursor)
		return m.each(f)
	}
	for rows := it.cursor.Rows(); len(rows) > 0; rows = it.cursor.Rows() {
		for i := range rows {
			if done, err := f(&rows[i]); done || err != nil {
				return err
			}
		}
	}
	return it.cursor.Err()
}

// firstRows is what an iteration with that limit tells its cursor to expect.
func firstRows(limit int) int { return min(limit, maxFirstRows) }

// maxFirstRows bounds what is read ahead for a limit.
const maxFirstRows = 64

// set copies all but the key.
func (it *Item) set(e *base.Entry) {
	it.Value, it.Expiry, it.Version = e.Value, e.Expiry, uint64(e.Seq)
}

// open opens the iteration's cursor on a stripe, with the transaction's own writes on
// top if there is one.
func (it *iteration) open(id uint8, b stripe.Bounds, r reader) error {
	s := &it.db.stripes[id]
	if r.tx != nil {
		return it.cursor.OpenWith(s, b, r.tx.overlay[id])
	}
	return it.cursor.Open(s, b)
}

func (db *DB) scan(ctx context.Context, s *Scan, r reader, yield func(Item, error) bool) {
	p, err := s.plan()
	if err != nil {
		yield(Item{}, err)
		return
	}
	it := iterationPool.Get().(*iteration)
	if err := it.start(ctx, db, r, s.Limit, s.Filter); err != nil {
		yield(Item{}, err)
		return
	}
	defer it.close()
	db.metrics.scans.Add(1)
	if r.tx != nil {
		for _, id := range p.stripes {
			r.tx.readSpan(id, p.span)
		}
	}
	if s.Unordered {
		err = it.scanStripes(s, &p, r, yield)
	} else {
		err = it.scanMerged(s, &p, r, yield)
	}
	if err != nil {
		yield(Item{}, db.readError(err))
	}
}

// scanStripes walks the stripes one after the other.
func (it *iteration) scanStripes(
	s *Scan, p *scanPlan, r reader, yield func(Item, error) bool,
) error {
	for i, id := range p.stripes {
		sp := p.span
		if i == 0 && p.resumed {
			sp = p.firstSpan
		}
		b := stripe.Bounds{Lo: sp.lo, Hi: sp.hi, Reverse: s.Reverse, Snap: it.node.seq}
		if err := it.open(id, b, r); err != nil {
			return err
		}
		over := false
		err := it.each(s.Reverse, func(e *base.Entry) (done bool, err error) {
			over, err = it.visit(e, yield)
			return over, err
		})
		if over || err != nil {
			return err
		}
		it.cursor.Close()
	}
	return nil
}

// visit decodes an entry of a scan and yields it.
func (it *iteration) visit(e *base.Entry, yield func(Item, error) bool) (done bool, err error) {
	if err := it.pause(); err != nil {
		return true, err
	}
	if it.expired(e) {
		return false, nil
	}
	item := &it.item
	item.set(e)
	// Why not DecodeOrdered at once: nearly every key has no zero byte in its PK.
	i := bytes.IndexByte(e.Key, 0)
	if n := len(e.Key); i > 0 && i+2 <= n && e.Key[i+1] == 0 && n <= MaxKeyBytes {
		item.Key.PK, item.Key.SK = e.Key[:i:i], nil
		if i+2 < n {
			item.Key.SK = e.Key[i+2 : n : n]
		}
	} else if item.Key, it.pk, err = keycodec.DecodeOrdered(e.Key, it.pk[:0]); err != nil {
		return true, err
	}
	return it.emit(item, yield), nil
}

// scanMerged merges the stripes into one ordered sequence.
func (it *iteration) scanMerged(
	s *Scan, p *scanPlan, r reader, yield func(Item, error) bool,
) error {
	m := newMerge(s.Reverse)
	defer m.close()
	b := stripe.Bounds{
		Lo: p.span.lo, Hi: p.span.hi, Reverse: s.Reverse, Snap: it.node.seq,
		ReadAheadBytes: mergeReadAhead / len(p.stripes),
		FirstRows:      mergeBatch,
		MaxRows:        mergeBatch,
	}
	if s.Limit > 0 {
		b.FirstRows = min(mergeBatch, 1+s.Limit/len(p.stripes))
	}
	for _, id := range p.stripes {
		if err := m.add(&it.db.stripes[id], b, r.overlay(id)); err != nil {
			return err
		}
	}
	return m.each(func(e *base.Entry) (done bool, err error) { return it.visit(e, yield) })
}
