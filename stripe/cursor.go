package stripe

import (
	"bytes"
	"context"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/rangedel"
	"github.com/kstonedb/kstone/memtable"
)

// Bounds of a cursor: the ordered keys in [Lo, Hi), read at Snap. Nil Hi means no
// upper bound. The slices are referenced until Close.
type Bounds struct {
	Lo, Hi  []byte
	Reverse bool
	Snap    base.SeqNum
	// ReadAheadBytes limits what each source of uncached blocks may read ahead; 0
	// leaves the default of sst.Cursor. Merges of many stripes set it.
	ReadAheadBytes int
	// FirstRows is about how many rows the caller wants, MaxRows the most that each
	// source may read at once. 0 stands for 4 and 64.
	FirstRows, MaxRows int
	// Ctx, if not nil, ends the reading with its cause. Every source looks at it before
	// each batch of rows, so that also a reader who is shown nothing, because everything
	// is deleted, can be stopped.
	Ctx context.Context //nolint:containedctx // lives as long as the reading
}

// Cursor iterates over the visible entries of a stripe in one direction: the newest
// version of each key at the snapshot, with everything that a tombstone, point or
// range, hides left out. Expired entries are left to the caller, who knows the time.
//
// A cursor is reusable: Open after Close keeps its memory. It belongs to one
// goroutine at a time.
//
// Algorithm: a binary heap over the sources, ordered by key (reversed for a backward
// cursor), then by age. The top is the newest version of the next key; older sources
// that stand on the same key are moved past it. Every source reads ahead a batch of
// rows, so that most moves are an addition.
type Cursor struct {
	view    *View
	bounds  Bounds
	overlay *memtable.Table
	ranges  *rangedel.List
	started bool
	err     error

	// prefix is what all keys between the bounds have in common, from position on.
	prefix []byte
	done   <-chan struct{} // of the context of the bounds, nil if it never ends

	heap    []*Source // live sources, heap[0] is next
	sources []*Source // all, in age order; memory is kept across Open
	used    int       // of sources, since Open

	// rangeRun counts entries in a row that one range tombstone hid.
	rangeRun int
	scratch  []base.RangeTombstone
}

// skipAfter is the number of consecutive entries hidden by one range tombstone
// after which the cursor seeks to its end instead of stepping. Why: a seek costs
// about as much as eight steps.
const skipAfter = 8

// Open positions the cursor before the first entry. It takes a reference on the
// stripe's view that Close gives back.
func (c *Cursor) Open(s *Stripe, b Bounds) error {
	return c.OpenWith(s, &b, nil)
}

// OpenWith is Open with a memtable of uncommitted writes on top, which is read at
// MaxSeqNum. Transactions use it. The overlay may be nil.
func (c *Cursor) OpenWith(s *Stripe, b *Bounds, overlay *memtable.Table) error {
	v := s.Acquire()
	if v == nil {
		return ErrClosed
	}
	c.view, c.bounds, c.overlay = v, *b, overlay
	c.started, c.err, c.rangeRun, c.ranges = false, nil, 0, nil
	if b.Ctx != nil {
		c.done = b.Ctx.Done()
	}
	c.heap = c.heap[:0]
	if overlay != nil {
		c.add().initTable(overlay, base.MaxSeqNum)
	}
	ranges := overlay != nil && overlay.HasRanges() || v.Active.HasRanges()
	if t := v.Active; t.HasKeys() {
		c.add().initTable(t, b.Snap)
	}
	for _, t := range v.Frozen {
		if ranges = ranges || t.HasRanges(); t.HasKeys() {
			c.add().initTable(t, b.Snap)
		}
	}
	for _, r := range v.Runs {
		ranges = ranges || r.HasRanges
		if lo, hi := r.overlap(b.Lo, b.Hi); lo < hi {
			c.add().initRun(r, lo, hi, b.Snap)
		}
	}
	if len(c.heap) > 0 {
		c.batchSizes()
	}
	if ranges {
		c.err = c.loadRanges()
	}
	return c.err
}

// add returns one more source, older than those before.
func (c *Cursor) add() *Source {
	n := len(c.heap)
	if n == len(c.sources) {
		c.sources = append(c.sources, &Source{})
	}
	s := c.sources[n]
	s.age, s.bounds = n, &c.bounds
	s.ctx, s.done, s.err = c.bounds.Ctx, c.done, nil
	c.heap, c.used = append(c.heap, s), n+1
	return s
}

// batchSizes shares out the rows that the caller wants over the sources.
func (c *Cursor) batchSizes() {
	first, most := c.bounds.FirstRows, c.bounds.MaxRows
	if most == 0 {
		most = maxBatchRows
	}
	if first == 0 {
		first = minBatchRows
	}
	if n := len(c.heap); n > 1 {
		first, most = max(first/n, min(first, 2)), max(most/n, minBatchRows)
	}
	for _, s := range c.heap {
		s.rows, s.most = min(first, most), most
		s.grown = min(minBatchRows, most, batchGrowth*s.rows)
	}
}

// commonPrefix returns what all keys of [lo, hi) begin with.
func commonPrefix(lo, hi []byte) []byte {
	n := 0
	for n < min(len(lo), len(hi)) && lo[n] == hi[n] {
		n++
	}
	return lo[:n]
}

// overlap returns the files [lo, hi) of the run that may hold keys of [lower, upper).
func (r *Run) overlap(lower, upper []byte) (lo, hi int) {
	lo = r.find(lower)
	hi = lo
	for hi < len(r.Files) && (upper == nil || bytes.Compare(r.Files[hi].Meta.Smallest, upper) < 0) {
		hi++
	}
	return lo, hi
}

// loadRanges collects the range tombstones of all sources that touch the bounds.
func (c *Cursor) loadRanges() error {
	ts := c.scratch[:0]
	if c.overlay != nil && c.overlay.HasRanges() {
		ts = c.overlay.RangeTombstones(ts, base.MaxSeqNum)
	}
	c.view.tables(func(t *memtable.Table) bool {
		if t.HasRanges() {
			ts = t.RangeTombstones(ts, c.bounds.Snap)
		}
		return true
	})
	snap := c.bounds.Snap
	for _, r := range c.view.Runs {
		if !r.HasRanges {
			continue
		}
		rr, err := r.loadRanges()
		if err != nil {
			return err
		}
		ts = rr.appendVisible(ts, c.bounds.Lo, c.bounds.Hi, snap)
	}
	kept := ts[:0]
	for _, t := range ts {
		if bytes.Compare(t.End, c.bounds.Lo) > 0 &&
			(c.bounds.Hi == nil || bytes.Compare(t.Start, c.bounds.Hi) < 0) {
			kept = append(kept, t)
		}
	}
	c.scratch = kept
	if len(kept) > 0 {
		c.ranges = rangedel.Build(kept, base.MaxSeqNum)
	}
	return nil
}

// Sources returns what the cursor would merge, for a caller who merges by himself; if he
// does, he must not call Next and Rows. It returns nil if that would not suffice,
// because range tombstones hide entries.
func (c *Cursor) Sources() []*Source {
	if c.ranges != nil {
		return nil
	}
	return c.heap
}

// Close gives back the view. It is idempotent.
func (c *Cursor) Close() {
	if c.view != nil {
		c.view.Release()
		c.view = nil
	}
	for _, s := range c.sources[:c.used] {
		s.release()
	}
	c.used = 0
	c.heap = c.heap[:0]
	c.overlay, c.ranges, c.done = nil, nil, nil
}

// Err returns the error that ended the iteration, nil at an ordinary end.
func (c *Cursor) Err() error { return c.err }

// Entry returns the entry the cursor stands on. It is valid until the next move.
func (c *Cursor) Entry() *base.Entry { return c.heap[0].entry }

// Next moves to the next visible entry in the cursor's direction.
func (c *Cursor) Next() bool {
	if c.err != nil {
		return false
	}
	if !c.started {
		c.started = true
		c.position()
	} else if len(c.heap) > 0 {
		c.stepKey()
	}
	for len(c.heap) > 0 && c.err == nil {
		e := c.heap[0].entry
		if c.ranges != nil {
			if start, end, seq, ok := c.ranges.Fragment(e.Key); ok && seq > e.Seq {
				c.skipCovered(start, end, seq)
				continue
			}
			c.rangeRun = 0
		}
		if e.Kind != base.KindDelete {
			return true
		}
		c.stepKey()
	}
	return false
}

// Rows moves over the next visible entries, as many as are at hand, and returns them;
// none at the end or after an error. The cursor stands on the last. The rows are valid
// until the next move. With several sources, or range tombstones, it is one row: see
// Sources.
func (c *Cursor) Rows() []base.Entry {
	if !c.Next() {
		return nil
	}
	top, n := c.heap[0], 1
	rows := top.batch.Rows[top.at:]
	if c.ranges == nil && len(c.heap) == 1 {
		for n < len(rows) && rows[n].Kind != base.KindDelete {
			n++
		}
		top.at += n - 1
		top.entry = &rows[n-1]
	}
	return rows[:n]
}

// position moves every source to the first bound and builds the heap.
func (c *Cursor) position() {
	c.prefix = commonPrefix(c.bounds.Lo, c.bounds.Hi)
	live := c.heap[:0]
	for _, s := range c.heap {
		if c.load(s, s.seek()) {
			live = append(live, s)
		}
	}
	c.heap = live
	for i := len(c.heap)/2 - 1; i >= 0; i-- {
		c.down(i)
	}
}

// load caches what the heap compares; it reports whether the source is alive.
func (c *Cursor) load(s *Source, ok bool) bool {
	if !ok {
		if err := s.Err(); err != nil && c.err == nil {
			c.err = err
		}
		return false
	}
	// Why min: a damaged block may hold keys beyond the bounds, which have the prefix.
	s.head = base.KeyHead(s.entry.Key[min(len(c.prefix), len(s.entry.Key)):])
	return true
}

// stepKey moves the top source, and all others that stand on the same key, past it.
func (c *Cursor) stepKey() {
	top := c.heap[0]
	if len(c.heap) > 1 {
		key := top.entry.Key
		for {
			i := 1 // an equal key can only be at a child of the top
			if len(c.heap) > 2 && c.less(c.heap[2], c.heap[1]) {
				i = 2
			}
			if i >= len(c.heap) || c.heap[i].head != top.head ||
				!bytes.Equal(c.heap[i].entry.Key, key) {
				break
			}
			c.advance(i)
		}
	}
	c.advance(0)
}

// advance moves the source at heap position i one key on and restores the heap.
func (c *Cursor) advance(i int) {
	c.settle(i, c.heap[i].next())
}

// settle restores the heap after the source at position i has moved forward.
func (c *Cursor) settle(i int, ok bool) {
	if !c.load(c.heap[i], ok) {
		last := len(c.heap) - 1
		c.heap[i] = c.heap[last]
		c.heap = c.heap[:last]
		if i == last {
			return
		}
	}
	c.down(i)
}

// skipCovered leaves an entry that the tombstone fragment [start, end) hides.
func (c *Cursor) skipCovered(start, end []byte, seq base.SeqNum) {
	c.rangeRun++
	if c.rangeRun < skipAfter {
		c.stepKey()
		return
	}
	c.rangeRun = 0
	moved := false
	for i := 0; i < len(c.heap) && c.err == nil; i++ {
		s := c.heap[i]
		if s.maxSeq() >= seq {
			continue // may hold versions newer than the tombstone
		}
		inside := bytes.Compare(s.entry.Key, end) < 0 && bytes.Compare(s.entry.Key, start) >= 0
		if !inside {
			continue
		}
		moved = true
		if !c.load(s, s.leave(start, end)) {
			c.heap[i] = c.heap[len(c.heap)-1]
			c.heap = c.heap[:len(c.heap)-1]
			i--
		}
	}
	if !moved {
		c.stepKey()
		return
	}
	for i := len(c.heap)/2 - 1; i >= 0; i-- {
		c.down(i)
	}
}

// less orders the heap: by key in the cursor's direction, the newest source first.
func (c *Cursor) less(a, b *Source) bool {
	if a.head != b.head {
		return (a.head < b.head) != c.bounds.Reverse
	}
	if d := bytes.Compare(a.entry.Key, b.entry.Key); d != 0 {
		return (d < 0) != c.bounds.Reverse
	}
	return a.age < b.age
}

func (c *Cursor) down(i int) {
	for {
		j := 2*i + 1
		if j >= len(c.heap) {
			return
		}
		if j+1 < len(c.heap) && c.less(c.heap[j+1], c.heap[j]) {
			j++
		}
		if !c.less(c.heap[j], c.heap[i]) {
			return
		}
		c.heap[i], c.heap[j] = c.heap[j], c.heap[i]
		i = j
	}
}
