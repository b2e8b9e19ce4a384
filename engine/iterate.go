package engine

import (
	"bytes"
	"context"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// report yields what has ended an iteration, if it is an error. Without one, yield may
// have returned false and is not called.
func report(yield func(Item, error) bool, end outcome) {
	if end.err != nil {
		yield(Item{}, end.err)
	}
}

// outcome is how an iteration has ended: after how many items, by which error.
type outcome struct {
	items int64
	err   error
}

func (o outcome) both() (int64, error) { return o.items, o.err }

// iteration is the state of one range loop; pooled.
type iteration struct {
	db      *DB
	ctx     context.Context //nolint:containedctx // lives as long as the loop
	node    snapNode
	cursor  stripe.Cursor
	source  *stripe.Cursor // that is read, cursor or one of mergedPool
	rows    []base.Entry   // of source
	at      int            // the next of rows
	err     error          // why there is no further entry
	nowMs   int64
	items   int64 // so far
	left    int   // items until the limit, negative for none
	sinceOK int   // entries since the context was checked
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
	err := usable(ctx)
	if err == nil {
		err = r.enter(&it.node)
	}
	if err != nil {
		iterationPool.Put(it)
		return err
	}
	it.db, it.ctx, it.filter = db, ctx, filter
	it.nowMs, it.sinceOK, it.items, it.left, it.err = 0, 0, 0, limit, nil
	if limit == 0 {
		it.left = -1
	}
	return nil
}

func (it *iteration) close() {
	it.cursor.Close()
	it.db.snaps.release(&it.node)
	it.db, it.ctx, it.filter, it.item = nil, nil, nil, Item{}
	it.source, it.rows = nil, nil
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

// pause returns the reason to stop before the next entry: the database is closed, or, at
// every checkEvery-th entry, the context has ended.
func (it *iteration) pause() error {
	if it.db.closed.Load() {
		return ErrClosed
	}
	if it.sinceOK++; it.sinceOK < checkEvery {
		return nil
	}
	it.sinceOK = 0
	if it.ctx.Err() != nil {
		return context.Cause(it.ctx)
	}
	return nil
}

// read begins to read a cursor.
func (it *iteration) read(c *stripe.Cursor) { it.source, it.rows, it.at = c, nil, 0 }

// entry moves over the next entry of the source that has not expired and returns it; nil at
// the end, or if err says why it cannot go on. It is valid until the source is asked for more
// rows. All reads of several items are loops over it, and so is Iterator.
func (it *iteration) entry() *base.Entry {
	for {
		if it.at == len(it.rows) {
			if it.rows, it.at = it.source.Rows(), 0; len(it.rows) == 0 {
				it.err = it.source.Err()
				return nil
			}
		}
		e := &it.rows[it.at]
		it.at++
		if it.err = it.pause(); it.err != nil {
			return nil
		}
		if !it.expired(e) {
			return e
		}
	}
}

// Items are handed to a function, yield. Where that is nil, they are only counted.

// emit yields the item unless the filter rejects it; done means the loop is over.
func (it *iteration) emit(item *Item, yield func(Item, error) bool) (done bool) {
	if it.filter != nil && !it.filter(*item) {
		return false
	}
	if yield != nil && !yield(*item, nil) {
		return true
	}
	return it.tally()
}

// tally counts an item; done means that it was the last.
func (it *iteration) tally() (done bool) {
	it.items++
	it.left--
	return it.left == 0
}

// unseen reports whether nobody looks at the items, so that they need not be made.
func (it *iteration) unseen(yield func(Item, error) bool) bool {
	return yield == nil && it.filter == nil
}

// ended makes the outcome of an iteration that ends with err or nil.
func (it *iteration) ended(err error) outcome {
	if err != nil {
		err = it.db.readError(err)
	}
	return outcome{it.items, err}
}

func (db *DB) query(
	ctx context.Context, q *Query, r reader, yield func(Item, error) bool,
) outcome {
	it := iterationPool.Get().(*iteration)
	s, err := q.span(it.bounds)
	if err != nil {
		iterationPool.Put(it)
		return outcome{err: err}
	}
	it.bounds = s.lo[:0]
	if err := it.start(ctx, db, r, q.Limit, q.Filter); err != nil {
		return outcome{err: err}
	}
	defer it.close()
	return it.ended(it.query(q, s, r, yield))
}

// query yields the items of the span.
func (it *iteration) query(
	q *Query, s span, r reader, yield func(Item, error) bool,
) error {
	it.db.metrics.queries.Add(1)
	id := keycodec.Stripe(q.PK)
	if s.empty() {
		return nil
	}
	if r.tx != nil {
		r.tx.readSpan(id, s)
	}
	b := stripe.Bounds{
		Lo: s.lo, Hi: s.hi, Reverse: q.Reverse, Snap: it.node.seq, FirstRows: firstRows(q.Limit),
	}
	if err := it.open(id, b, r); err != nil {
		return err
	}
	pkLen, _ := keycodec.OrderedPKLen(s.lo)
	p := part{pk: q.PK, skip: pkLen}
	_, err := it.eachOf(&p, yield)
	return err
}

// mergedPool has cursors over many stripes. Why not that of the iteration: it would keep the
// memory of hundreds of sources for each.
var mergedPool = sync.Pool{New: func() any { return new(stripe.Cursor) }}

// closeMerged gives back a cursor of the pool.
func closeMerged(c *stripe.Cursor) {
	c.Close()
	mergedPool.Put(c)
}

const (
	// mergeBatch is how many rows a source of a merge reads ahead. Why 16: with hundreds of
	// sources each single step is a cache miss or several; reading 16 at a time lets them
	// overlap. More would not fit a core's cache.
	mergeBatch = 16
	// mergeReadAhead bounds, together for one run of each stripe, what an ordered scan of
	// uncached blocks reads ahead: 32 KiB a stripe.
	mergeReadAhead = 8 << 20
)

// mergedBounds are the bounds of one of n partitions or stripes that are merged. A limit of 0
// stands for none.
func (it *iteration) mergedBounds(s span, reverse bool, n, limit int) stripe.Bounds {
	b := stripe.Bounds{
		Lo: s.lo, Hi: s.hi, Reverse: reverse, Snap: it.node.seq,
		ReadAheadBytes: mergeReadAhead / n,
		FirstRows:      mergeBatch,
		MaxRows:        mergeBatch,
		Lazy:           limit > 0,
		Ctx:            it.ctx,
	}
	if limit > 0 {
		b.FirstRows = min(mergeBatch, 1+limit/n)
	}
	return b
}

// firstRows is what an iteration with that limit tells its cursor to expect.
func firstRows(limit int) int { return min(limit, maxFirstRows) }

// maxFirstRows bounds what is read ahead for a limit.
const maxFirstRows = 64

// set copies all but the key. What a transaction itself has written has version 0.
func (it *Item) set(e *base.Entry) {
	it.Value, it.Expiry, it.Version = e.Value, e.Expiry, uint64(e.Seq)
	if e.Seq >= overlayBase {
		it.Version = 0
	}
}

// open opens the iteration's cursor on a stripe, with the transaction's own writes on
// top if there is one, and begins to read it.
func (it *iteration) open(id uint8, b stripe.Bounds, r reader) error {
	b.Ctx = it.ctx
	it.read(&it.cursor)
	return it.cursor.Add(&it.db.stripes[id], &b, r.overlay(id))
}

func (db *DB) scan(
	ctx context.Context, s *Scan, r reader, yield func(Item, error) bool,
) outcome {
	p, err := s.plan()
	if err != nil {
		return outcome{err: err}
	}
	it := iterationPool.Get().(*iteration)
	if err := it.start(ctx, db, r, s.Limit, s.Filter); err != nil {
		return outcome{err: err}
	}
	defer it.close()
	return it.ended(it.scan(s, &p, r, yield))
}

// scan yields what the plan covers.
func (it *iteration) scan(
	s *Scan, p *scanPlan, r reader, yield func(Item, error) bool,
) error {
	it.db.metrics.scans.Add(1)
	if p.span.empty() {
		return nil
	}
	if r.tx != nil {
		for _, id := range p.stripes {
			r.tx.readSpan(id, p.span)
		}
	}
	if s.Unordered || yield == nil { // for a count the order is all the same
		return it.scanStripes(s, p, r, yield)
	}
	return it.scanMerged(s, p, r, yield)
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
		if over, err := it.each(yield); over || err != nil {
			return err
		}
		it.cursor.Close()
	}
	return nil
}

// each yields the entries of the source as those of a scan; over means that no more are
// wanted.
func (it *iteration) each(yield func(Item, error) bool) (over bool, err error) {
	unseen := it.unseen(yield)
	for e := it.entry(); e != nil; e = it.entry() {
		if unseen {
			over = it.tally()
		} else if err = it.decode(e); err == nil {
			over = it.emit(&it.item, yield)
		}
		if over || err != nil {
			return true, err
		}
	}
	return false, it.err
}

// decode makes an entry the item.
func (it *iteration) decode(e *base.Entry) (err error) {
	item := &it.item
	item.set(e)
	// Why not DecodeOrdered at once: nearly every key has no zero byte in its PK.
	i := bytes.IndexByte(e.Key, 0)
	if n := len(e.Key); i > 0 && i+2 <= n && e.Key[i+1] == 0 && n <= MaxKeyBytes {
		item.Key.PK, item.Key.SK = e.Key[:i:i], nil
		if i+2 < n {
			item.Key.SK = e.Key[i+2 : n : n]
		}
		return nil
	}
	item.Key, it.pk, err = keycodec.DecodeOrdered(e.Key, it.pk[:0])
	return err
}

// scanMerged merges the stripes into one ordered sequence.
func (it *iteration) scanMerged(
	s *Scan, p *scanPlan, r reader, yield func(Item, error) bool,
) error {
	c := mergedPool.Get().(*stripe.Cursor)
	defer closeMerged(c)
	if err := it.openMerged(c, p.stripes, p.span, s.Reverse, s.Limit, r); err != nil {
		return err
	}
	_, err := it.each(yield)
	return err
}

// openMerged opens several stripes under a cursor of mergedPool and begins to read it.
func (it *iteration) openMerged(
	c *stripe.Cursor, stripes []uint8, s span, reverse bool, limit int, r reader,
) error {
	it.read(c)
	b := it.mergedBounds(s, reverse, len(stripes), limit)
	for _, id := range stripes {
		if err := c.Add(&it.db.stripes[id], &b, r.overlay(id)); err != nil {
			return err
		}
	}
	return nil
}
