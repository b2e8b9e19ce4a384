package read

import (
	"bytes"
	"context"
	"sync"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Item is an item that an iteration shows. Its slices are valid until the next move.
type Item struct {
	Key     keycodec.Key
	Value   []byte
	Expiry  int64  // 0 means never
	Version uint64 // 0 for what the transaction itself has written
}

// Iteration moves over the items of a selection, at one moment.
//
// Use: NewIteration; Start; one of Partition and Read, Stripes and Read, Walk, Gather or Sample;
// Next or Skip until false; Err; Close. It belongs to one goroutine.
type Iteration struct {
	selection
	node    snapNode
	cursor  stripe.Cursor
	kept    []base.Entry   // memory of Block
	entries stripe.Entries // of Block
	query   part           // memory of part
	pk      []byte         // scratch of escaped partition keys
	scratch []byte
}

// selection is what an Iteration forgets at its end. Why it is a struct: cleared at once it takes a
// third of the code, and a query of few rows waits for code.
type selection struct {
	// Item is what Next has moved to.
	Item Item
	// Weight is how many items of a sample Item stands for.
	Weight float64

	state  *State
	reader Reader
	ctx    context.Context //nolint:containedctx // lives as long as the loop
	bound  bool            // bounds are those of a walk
	bounds stripe.Bounds   // of the sources, but for those of a merged gathering
	source *stripe.Cursor  // that is read: cursor, or one of mergedPool; nil before the first
	rows   []base.Entry    // of source
	at     int             // the next of rows
	err    error           // why there is no further entry

	nowMs   int64
	timed   bool        // nowMs was asked for
	from    base.SeqNum // lower versions are passed over
	items   int64       // so far
	limit   int         // 0 for none
	left    int         // items until the limit, negative for none
	sinceOK int         // entries since the context was checked, which are not counted yet
	// mayHold, if not nil, reports whether a zone may have what the caller wants.
	mayHold func(zone.Columns) bool
	blocks  *zone.BlockCounts
	// keysOnly: items have no values.
	keysOnly bool

	// What follows the source, at most one of them:
	stripes   []uint8   // of a scan: those to walk, or, if merged or shared, all
	known     *spanFact // of the span of these, or nil
	share     *kv.Share // nil: stripes are walked by this iteration alone
	image     imagePart // of the span, in place of the source
	stripe    uint8     // that is walked
	span      base.Span
	reverse   bool
	merged    bool
	windows   windows // of a merge of stripes
	seeking   seeking
	gathering *gathering
	sampling  *sampling

	part  *part  // of the partition that is read, nil for several
	parts []part // of a merged gathering
}

var iterationPool = sync.Pool{New: func() any { return new(Iteration) }}

const (
	// checkEvery is how many entries pass between two looks at the context.
	checkEvery = 256
	// maxPooledBytes keeps giant buffers out of pools.
	maxPooledBytes = 1 << 20
)

// NewIteration returns an iteration to start. The caller must close it.
func NewIteration() *Iteration { return iterationPool.Get().(*Iteration) }

// Scratch returns memory for the bounds of a selection, which Close takes back.
func (it *Iteration) Scratch() []byte { return it.scratch[:0] }

// Start chooses the moment. The limit is how many items are wanted, 0 for all.
func (it *Iteration) Start(ctx context.Context, r Reader, limit int) error {
	if err := r.enter(&it.node); err != nil {
		return err
	}
	it.state, it.reader, it.ctx = r.state, r, ctx
	it.limit, it.left = limit, limit
	if limit == 0 {
		it.left = -1
	}
	return nil
}

// Close releases everything. It works on an iteration that was not started.
func (it *Iteration) Close() {
	if it.state != nil {
		it.release()
	}
	iterationPool.Put(it)
}

// release lets go of everything but memory.
func (it *Iteration) release() {
	switch {
	case it.merged:
		it.source.Close()
		mergedPool.Put(it.source)
	default:
		it.cursor.Close()
	}
	if it.gathering != nil {
		it.gathering.release()
	}
	if it.sampling != nil {
		it.sampling.close()
	}
	it.passed()
	it.count()
	it.state.snaps.release(&it.node)
	it.selection, it.query.pk = selection{}, nil
	clear(it.kept[:cap(it.kept)])
	it.entries.Release()
	if cap(it.scratch) > maxPooledBytes {
		it.scratch = nil
	}
}

// Since makes the iteration pass over versions lower than from. Call it after Start.
func (it *Iteration) Since(from base.SeqNum) { it.from = from }

// MayHold leaves out blocks and files if f, which may be nil, reports false for their zones.
// The caller must drop each item for which f would not report true. blocks, if not nil, counts.
// Call it after Start.
func (it *Iteration) MayHold(f func(zone.Columns) bool, blocks *zone.BlockCounts) {
	it.mayHold, it.blocks = f, blocks
}

// KeysOnly leaves values out, if yes. Call it after Start.
func (it *Iteration) KeysOnly(yes bool) { it.keysOnly = yes }

// Partition selects items of partition pk, whose ordered keys begin with so many bytes before
// the sort key, in a span; Read reads parts of it. A transaction then depends on all of it.
func (it *Iteration) Partition(pk []byte, prefix int, s base.Span) {
	it.scratch = s.Lo[:0]
	id := keycodec.Stripe(pk)
	if tx := it.reader.tx; tx != nil && !s.Empty() {
		tx.note(id, s)
	}
	it.query.pk, it.query.skip, it.query.stripe = pk, prefix, id
	it.part = &it.query
	if c := &it.state.counters; c.query() {
		c.hot.note(id, keycodec.AppendOrderedPK(nil, pk))
	}
}

// Stripes selects items of several stripes in a span; Read reads parts of it. A transaction
// then depends on all of it.
func (it *Iteration) Stripes(ids []uint8, s base.Span) {
	it.state.counters.Add(scans, 1)
	if s.Empty() {
		return
	}
	it.stripes, it.known, it.span = ids, it.node.gen.facts.of(s), s
	if tx := it.reader.tx; tx != nil {
		for _, id := range ids {
			tx.note(id, s)
		}
	}
}

// Read begins to read a span of what Partition or Stripes has selected, in key order or in
// reverse. It may be called again: that opens the sources again.
func (it *Iteration) Read(s base.Span, reverse bool) {
	it.passed()
	it.err, it.windows, it.image, it.seeking = nil, windows{}, imagePart{}, seeking{}
	if it.source != nil {
		it.source.Close()
	}
	switch {
	case s.Empty():
	case it.part != nil:
		if s = it.seek(it.part, s, reverse); !s.Empty() {
			it.open(it.part.stripe, s, reverse, firstRows(it.limit))
		}
	case it.arranged(s, reverse):
	default:
		if s = it.seek(nil, s, reverse); s.Empty() {
			return
		}
		it.readMerged()
		it.reverse = reverse
		it.divide(s)
		it.openWindow()
	}
}

// Walk begins to read the stripes of Stripes one after the other: of the first one a part of the
// span.
func (it *Iteration) Walk(first base.Span, reverse bool) {
	it.reverse = reverse
	switch {
	case len(it.stripes) == 0:
	case sameSpan(first, it.span):
		if !it.remembered() {
			it.advance()
		}
	default:
		it.stripe = it.stripes[0]
		it.stripes = it.stripes[1:]
		it.open(it.stripe, first, reverse, it.walkRows())
	}
}

// sameSpan reports whether two spans are equal.
func sameSpan(a, b base.Span) bool {
	return bytes.Equal(a.Lo, b.Lo) && bytes.Equal(a.Hi, b.Hi) && (a.Hi == nil) == (b.Hi == nil)
}

// bare reports whether there is nothing to read in a stripe: of small tables, most have nothing. It
// is true after an error, too.
func (it *Iteration) bare(id uint8) bool {
	s := &it.node.gen.stripes[id]
	if it.known == nil {
		return s.Bare() && it.reader.overlay(id) == nil
	}
	bare, err := it.known.stripes[id].Lacks(s, it.span.Lo, it.span.Hi)
	if err != nil {
		it.err = err
		return true
	}
	return bare && it.reader.overlay(id) == nil
}

// openWalk opens the stripe that is walked. The bounds are set for the first one.
func (it *Iteration) openWalk() {
	if it.bound {
		it.cursor.Close()
		it.passed()
	} else {
		it.bind(it.span, it.reverse, it.walkRows())
		it.bound = true
	}
	if it.known != nil {
		it.bounds.Known = &it.known.stripes[it.stripe]
	}
	it.add(it.stripe)
}

// walkRows is how many rows a walk makes its cursor expect. Why so many without a limit: all of
// them are wanted.
func (it *Iteration) walkRows() int {
	if it.limit == 0 {
		return maxFirstRows
	}
	return 0
}

// advance opens what follows the source, and reports whether anything does.
func (it *Iteration) advance() bool {
	switch {
	case it.merged:
		return it.nextWindow()
	case it.gathering != nil:
		return it.gathering.walk(it)
	case it.sampling != nil:
		return it.sampling.next(it)
	case it.share != nil:
		return it.walkNext()
	case len(it.stripes) > 0:
		for len(it.stripes) > 1 && it.bare(it.stripes[0]) {
			if it.err != nil {
				return false
			}
			it.stripes = it.stripes[1:]
		}
		it.stripe, it.stripes = it.stripes[0], it.stripes[1:]
		it.openWalk()
		return it.err == nil
	}
	return false
}

// Next moves to the next item that is wanted and reports whether there is one.
func (it *Iteration) Next() bool {
	e := it.entry()
	if e == nil {
		return false
	}
	p := it.part
	if it.parts != nil {
		p = &it.parts[it.source.Part()]
	}
	if p != nil {
		it.decodeOf(p, e)
	} else {
		it.err = it.decode(e)
	}
	if it.keysOnly {
		it.Item.Value = nil
	}
	return it.err == nil
}

// Skip is Next without an Item.
func (it *Iteration) Skip() bool { return it.entry() != nil }

// Tally counts an item that was wanted, and reports whether it is the last.
func (it *Iteration) Tally() (last bool) {
	it.items++
	it.left--
	return it.left == 0
}

// Cut returns those of the entries of a block that the limit leaves, and counts them; last reports
// that no more are wanted.
func (it *Iteration) Cut(rows []base.Entry) (wanted []base.Entry, last bool) {
	if it.left >= 0 && len(rows) >= it.left {
		rows, last = rows[:it.left], true
	}
	it.items += int64(len(rows))
	if it.left > 0 {
		it.left -= len(rows)
	}
	return rows, last
}

// Items returns the number of items that were counted.
func (it *Iteration) Items() int64 { return it.items }

// Err returns why the iteration has ended, nil at its end.
func (it *Iteration) Err() error {
	if it.err == nil {
		return nil
	}
	return it.state.Error(it.err)
}

// Closed returns ErrClosed if the database is closed.
func (it *Iteration) Closed() error {
	if it.state.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Key returns the ordered key of the item that Next has moved to. It is valid as long as the
// item.
func (it *Iteration) Key() []byte { return it.rows[it.at-1].Key }

// entry moves over the next entry that is wanted and returns it; nil at the end, or if
// err says why it cannot go on. It is valid until the source is asked for more rows.
func (it *Iteration) entry() *base.Entry {
	for {
		if it.at == len(it.rows) && !it.refill() {
			return nil
		}
		e := &it.rows[it.at]
		it.at++
		if it.state.closed.Load() {
			it.err = ErrClosed
			return nil
		}
		if it.wants(e) {
			return e
		}
	}
}

// refill asks the source for more rows, and what follows it.
func (it *Iteration) refill() bool {
	it.passed()
	if it.image.of != nil && it.err == nil {
		if it.err = it.pause(); it.err == nil && it.nextOfImage() {
			it.kept = it.image.appendRows(it.kept[:0])
			it.rows = it.kept
		}
		return len(it.rows) > 0
	}
	for it.err == nil && it.source != nil {
		if it.err = it.pause(); it.err != nil {
			break
		}
		if it.rows = it.source.Rows(); len(it.rows) > 0 {
			if it.seeking.on {
				it.found(it.rows[0].Key)
			}
			return true
		}
		if it.err = it.source.Err(); it.err != nil || !it.advance() {
			break
		}
	}
	if it.seeking.on && it.err == nil {
		it.found(nil)
	}
	return false
}

// pause returns the reason to stop before the next entries: the database is closed, or, after
// checkEvery of them, the context has ended.
func (it *Iteration) pause() error {
	if it.state.closed.Load() {
		return ErrClosed
	}
	if it.sinceOK < checkEvery {
		return nil
	}
	it.count()
	if it.ctx.Err() != nil {
		return context.Cause(it.ctx)
	}
	return nil
}

// passed counts the rows that were moved over, and lets go of them. Why not one by one: that takes
// 3 % of the instructions of a query of 20 rows.
func (it *Iteration) passed() {
	it.sinceOK += it.at
	it.rows, it.at = nil, 0
}

// count counts the entries since it was last called.
func (it *Iteration) count() {
	if it.sinceOK > 0 {
		it.state.counters.Add(scanned, uint64(it.sinceOK))
		it.sinceOK = 0
	}
}

// expired reports whether a value has expired.
func (it *Iteration) expired(e *base.Entry) bool {
	if e.Kind != base.KindPutTTL {
		return false
	}
	return it.NowMs() >= e.Expiry
}

// NowMs implements stripe.Clock: the time is read once an iteration.
func (it *Iteration) NowMs() int64 {
	if !it.timed {
		it.nowMs, it.timed = it.reader.now(), true
	}
	return it.nowMs
}

// wanted adds to bounds what the iteration passes over. Requires: each row is looked at by entry.
func (it *Iteration) wanted(b *stripe.Bounds) {
	b.Ctx, b.Clock, b.From = it.ctx, it, it.from
	b.MayHold, b.Blocks, b.KeysOnly = it.mayHold, it.blocks, it.keysOnly
}

// open opens the iteration's own cursor on a span of a stripe, with the transaction's own writes
// on top if there is one, and begins to read it, in place of what it was open on. It expects
// that so many rows are wanted, 0 for an unknown number.
func (it *Iteration) open(id uint8, s base.Span, reverse bool, rows int) {
	it.bind(s, reverse, rows)
	it.add(id)
}

// bind makes the iteration's own cursor the source, and sets its bounds.
func (it *Iteration) bind(s base.Span, reverse bool, rows int) {
	if it.source != nil {
		it.cursor.Close()
	}
	b := &it.bounds
	b.Lo, b.Hi, b.Reverse, b.Snap, b.FirstRows = s.Lo, s.Hi, reverse, it.node.seq, rows
	b.Known = nil
	it.wanted(b)
	it.passed()
	it.source, it.bound = &it.cursor, false
}

// add opens a stripe with the bounds.
func (it *Iteration) add(id uint8) {
	it.err = it.cursor.Add(&it.node.gen.stripes[id], &it.bounds, it.reader.overlay(id))
}

// mergedPool has cursors over many stripes. Why not that of the iteration: it would keep the
// memory of hundreds of sources for each.
var mergedPool = sync.Pool{New: func() any { return new(stripe.Cursor) }}

// readMerged makes a cursor of mergedPool the source.
func (it *Iteration) readMerged() {
	if !it.merged {
		it.source, it.merged = mergedPool.Get().(*stripe.Cursor), true
	}
}

// mergeBatch is how many rows a source of a merge reads ahead. Why 16: with hundreds of
// sources each single step is a cache miss or several; reading 16 at a time lets them
// overlap. More would not fit a core's cache.
const mergeBatch = 16

// mergedBounds sets the bounds of one of n partitions or stripes that are merged.
func (it *Iteration) mergedBounds(b *stripe.Bounds, s base.Span, reverse bool, n int) {
	*b = stripe.Bounds{
		Lo: s.Lo, Hi: s.Hi, Reverse: reverse, Snap: it.node.seq,
		ReadAheadBytes: it.state.env.ReadAheadBytes / n,
		FirstRows:      mergeBatch,
		MaxRows:        mergeBatch,
		Lazy:           it.limit > 0,
	}
	it.wanted(b)
	if it.limit > 0 {
		b.FirstRows, b.Few = min(mergeBatch, 1+it.limit/n), 2*it.limit <= n
	}
}

// firstRows is how many rows an iteration with that limit makes its cursor expect.
func firstRows(limit int) int { return min(limit, maxFirstRows) }

// maxFirstRows bounds what is read ahead for a limit.
const maxFirstRows = 64

// decodeOf makes an entry of a partition the item.
func (it *Iteration) decodeOf(p *part, e *base.Entry) {
	item := &it.Item
	item.set(e)
	item.Key.PK, item.Key.SK = p.pk, nil
	if n := len(e.Key); n > p.skip {
		item.Key.SK = e.Key[p.skip:n:n]
	}
}

// decode makes an entry the item.
func (it *Iteration) decode(e *base.Entry) (err error) {
	item := &it.Item
	item.set(e)
	// Why not DecodeOrdered at once: nearly every key has no zero byte in its PK.
	i := bytes.IndexByte(e.Key, 0)
	if n := len(e.Key); i > 0 && i+2 <= n && e.Key[i+1] == 0 && n <= keycodec.MaxKeyBytes {
		item.Key.PK, item.Key.SK = e.Key[:i:i], nil
		if i+2 < n {
			item.Key.SK = e.Key[i+2 : n : n]
		}
		return nil
	}
	item.Key, it.pk, err = keycodec.DecodeOrdered(e.Key, it.pk[:0])
	return err
}

// set copies all but the key. What a transaction itself has written has version 0.
func (it *Item) set(e *base.Entry) {
	it.Value, it.Expiry, it.Version = e.Value, e.Expiry, kv.Version(e)
}

// PartitionEnd turns the lowest key of a partition, in place, into the first ordered
// key after it: the key ends in 00 00, and 00 01 is above every key of the partition
// because only an escaped zero byte of a longer PK can follow there.
func PartitionEnd(lowest []byte) []byte {
	lowest[len(lowest)-1] = 1
	return lowest
}
