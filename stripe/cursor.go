package stripe

import (
	"bytes"
	"context"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/merge"
	"github.com/kstonedb/kstone/internal/rangedel"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Bounds of a cursor: the ordered keys in [Lo, Hi), read at Snap. Nil Hi means no
// upper bound. A cursor reads them where they are, so that the caller keeps them unchanged
// until Close.
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
	// Lazy reads only the sources that the first rows come from, see merge.Options. Few says that
	// most sources are not among those: then memtables are asked for a bound, too, which costs
	// about half of opening them.
	Lazy, Few bool
	// Part and Skip order the rows of a cursor that was added to several times by what
	// follows the first Skip bytes of their keys, then by Part.
	Part, Skip int32
	// Spans, if not nil, are the ranges inside the bounds that are read. Each is sought
	// when all rows before its start have been shown; with Eager the first one at once.
	Spans Spans
	Eager bool
	// From says that no versions below it are wanted, and Clock, if not nil, that none are
	// that have expired. Such versions are left out where that saves reading, and shown elsewhere,
	// then Large without a value: the caller has to look at each row. See sst.Pruner.
	From  base.SeqNum
	Clock Clock
	// MayHold, if not nil, reports whether a zone may have versions that are wanted. Of what is
	// shown, the caller must drop all that it would not report so.
	MayHold func(zone.Columns) bool
	// Known, if not nil, is what is remembered of [Lo, Hi) in the stripe.
	Known *Known
	// Blocks, if not nil, counts the blocks of runs where something may be left out.
	Blocks *zone.BlockCounts
	// KeysOnly leaves large values unread: such rows are Large and have no value.
	KeysOnly bool
	// Ctx, if not nil, ends the reading with its cause. Every source looks at it before
	// each batch of rows, so that even a reader that gets nothing, because everything
	// is deleted, can be stopped.
	Ctx context.Context //nolint:containedctx // lives as long as the reading
}

// many reports that all rows are read, of so many sources that each can take little memory.
func (b *Bounds) many() bool {
	return !b.Lazy && b.Spans == nil && sst.OneOfMany(b.ReadAheadBytes)
}

// lazy reports whether sources are opened when their first rows are the next of all.
func (b *Bounds) lazy() bool { return b.Lazy || b.many() }

// Cursor reads the visible entries of one or several stripes, in one direction and one
// order: the newest version of each key at the snapshot, without those that a tombstone,
// point or range, hides. Expired entries are left to the caller, which knows the time. It is
// a merge of the memtables and runs of its views. Why not a merge of stripes, each of them a
// merge: a second tree would cost more than the levels of the first that it would save.
//
// The zero Cursor is closed. A cursor is reusable: after Close, Add opens it again in the
// memory that it has. It belongs to one goroutine at a time.
type Cursor struct {
	merge    merge.Merge
	readings []*reading // the first opened are in use
	opened   int
	near     []*source // those that Approach prepares
	started  bool
	large    bool         // there are large values
	rest     []base.Entry // of the merge, not shown yet: their large values are not read
	values   [][]byte     // memory of those that were shown last
	err      error        // of Add, or of reading a large value
}

// maxAheadBytes bounds the large values that are read before they are asked for.
const maxAheadBytes = 32 << 10

// reading is one view under a cursor.
type reading struct {
	stripe  *Stripe
	view    *View
	bounds  *Bounds
	ranges  merge.Ranges
	done    <-chan struct{} // of the context of the bounds, nil if it never ends
	sources []*source       // newest first; the first used are in use
	used    int
	active  int // the source that is the active memtable; -1: none
	runs    int // among the sources
	scratch []base.RangeTombstone
	merged  bool      // it cannot be plain
	asked   bool      // whether it is plain, so that plain is known
	plain   []*source // see Cursor.Plain; none: it is not
	at      int       // which of plain is read
}

// Add opens a stripe under the cursor, which keeps a reference on its view until Close. The
// first call says whether the cursor is reversed and lazy; all calls come before Rows. The
// overlay may be nil or a memtable of uncommitted writes, which is read on top of the stripe
// at MaxSeqNum: transactions have one. After an error the cursor shows nothing.
func (c *Cursor) Add(s *Stripe, b *Bounds, overlay *memtable.Table) error {
	if c.opened == 0 {
		c.started, c.large, c.err = false, false, nil
	}
	v := s.Acquire()
	if v == nil {
		c.err = ErrClosed
		return c.err
	}
	if c.opened == len(c.readings) {
		c.readings = append(c.readings, new(reading))
	}
	r := c.readings[c.opened]
	c.opened++
	c.large = c.large || v.ValueBytes > 0
	r.stripe, c.err = s, r.open(v, b, overlay)
	if r.runs > 1 {
		s.pay(v, r.runs-1)
	}
	return c.err
}

// start makes the merge of the sources. Why not when they are added: Entries needs none, and
// to open a stripe that has few rows takes as long as to read them.
func (c *Cursor) start() {
	c.started = true
	sources := 0
	lazy := c.opened > 0 && c.readings[0].bounds.lazy()
	for n, r := range c.readings[:c.opened] {
		b := r.bounds
		if n == 0 {
			c.merge.Init(merge.Options{Reverse: b.Reverse, Lazy: lazy})
		}
		for i, src := range r.sources[:r.used] {
			in := c.merge.Add()
			in.Part, in.Skip, in.Age = b.Part, b.Skip, int32(i)
			if r.ranges.List != nil {
				in.Ranges = &r.ranges
			}
			if b.Spans != nil {
				in.Source = src.spansOf(b)
			} else {
				in.Source = src
				if sources++; !src.inTable {
					c.near = append(c.near, src)
				}
			}
		}
	}
	// Why not of a single run: its seek waits for nothing but itself. A lazy merge asks for bounds.
	if len(c.near) > 1 || sources > 1 && lazy {
		approach(c.near)
	}
}

// Rows moves over the next visible entries, as many as are at hand, and returns them;
// none at the end or after an error. They are valid until the next call.
func (c *Cursor) Rows() []base.Entry {
	if c.err != nil {
		return nil
	}
	if !c.started {
		if c.start(); c.err != nil {
			return nil
		}
	}
	if !c.large {
		return c.merge.Rows()
	}
	rows := c.rest
	if len(rows) == 0 {
		rows = c.merge.Rows()
	}
	return c.readValues(rows)
}

// readValues returns the first of rows with their large values, and keeps the others. Why not all:
// they may be many megabytes that nobody asks for. Why only here: what the merge hides, such as the
// items that a queue had, needs none.
func (c *Cursor) readValues(rows []base.Entry) []base.Entry {
	c.rest = nil
	if base.Invariants { // what still refers to the values before shows
		for _, b := range c.values {
			clear(b[:cap(b)])
		}
	}
	bytes, n := 0, 0
	for i := range rows {
		e := &rows[i]
		if !e.Large {
			continue
		}
		s := c.merge.Source().(valueSource)
		if !s.wantsValue(e) {
			e.Value = nil
			continue
		}
		if bytes += sst.ValueBytes(e.Value); i > 0 && bytes > maxAheadBytes {
			c.rest = rows[i:]
			return rows[:i]
		}
		if n == len(c.values) {
			c.values = append(c.values, nil)
		}
		value, err := s.value(&c.values[n], e.Value)
		if n++; err != nil {
			c.err = err
			return nil
		}
		e.Value, e.Large = value, false
	}
	return rows
}

// valueSource is a source or a spanSource.
type valueSource interface {
	wantsValue(e *base.Entry) bool
	value(memory *[]byte, ref []byte) ([]byte, error)
}

// Passed returns how many rows were passed over because something hides them.
func (c *Cursor) Passed() int {
	if !c.started {
		return 0
	}
	return c.merge.Passed()
}

// PassedOf adds to n[i] how many of them are in part i of the bounds.
func (c *Cursor) PassedOf(n []int32) {
	if c.started {
		c.merge.PassedOf(n)
	}
}

// Part returns the part of the bounds that the last rows lie in.
func (c *Cursor) Part() int32 {
	part, _ := c.merge.From()
	return part
}

// Err returns the error that ended the rows, nil at an ordinary end.
func (c *Cursor) Err() error {
	if c.err != nil {
		return c.err
	}
	if c.started {
		return c.merge.Err()
	}
	if c.opened == 1 {
		if r := c.readings[0]; len(r.plain) > 0 {
			return r.plain[r.at].Err()
		}
	}
	return nil
}

// Close gives back the views. It is idempotent.
func (c *Cursor) Close() {
	at := 0
	for _, r := range c.readings[:c.opened] {
		if c.started {
			if r.active >= 0 {
				r.stripe.pass(r.view, c.merge.PassedBy(at+r.active))
			}
			at += r.used
		}
		r.close()
	}
	if c.started {
		c.merge.Release()
	}
	c.opened, c.near, c.rest, c.values = 0, c.near[:0], nil, nil
}

// open begins to read a view.
func (r *reading) open(v *View, b *Bounds, overlay *memtable.Table) error {
	r.view, r.bounds = v, b
	if b.Ctx != nil {
		r.done = b.Ctx.Done()
	}
	r.active = -1
	if overlay != nil {
		r.add().initTable(overlay, base.MaxSeqNum)
	}
	ranges := overlay != nil && overlay.HasRanges() || v.Active.HasRanges()
	if t := v.Active; t.HasKeys() {
		r.active = r.used
		r.add().initTable(t, b.Snap)
	}
	for _, t := range v.Frozen {
		if ranges = ranges || t.HasRanges(); t.HasKeys() {
			r.add().initTable(t, b.Snap)
		}
	}
	for i, run := range v.Runs {
		if run.MaxSeq < b.From {
			break // so have all from here on
		}
		ranges = ranges || run.HasRanges
		if lo, hi := run.overlap(b.Lo, b.Hi); lo < hi {
			s := r.add()
			r.runs++
			s.initRun(run, lo, hi, b.Snap)
			s.files.prunes = s.files.pruner.init(v, i, b)
		}
	}
	if r.used > 0 {
		r.batchSizes()
	}
	if b.many() {
		r.findSparse()
	}
	r.merged = ranges || b.From != 0 || b.Reverse || b.Spans != nil
	if ranges {
		return r.loadRanges(overlay)
	}
	return nil
}

// add returns one more source, older than those before.
func (r *reading) add() *source {
	if r.used == len(r.sources) {
		r.sources = append(r.sources, &source{})
	}
	s := r.sources[r.used]
	r.used++
	s.bounds, s.ctx, s.done, s.err = r.bounds, r.bounds.Ctx, r.done, nil
	return s
}

// close lets go of everything but memory.
func (r *reading) close() {
	r.view.Release()
	for _, s := range r.sources[:r.used] {
		s.release()
	}
	r.stripe, r.view, r.bounds, r.done, r.used, r.runs = nil, nil, nil, nil, 0, 0
	r.plain, r.at, r.asked = r.plain[:0], 0, false
	if r.ranges.List != nil {
		r.ranges = merge.Ranges{}
	}
}

// batchSizes shares out the rows that the caller wants over the sources.
func (r *reading) batchSizes() {
	first, most := r.bounds.FirstRows, r.bounds.MaxRows
	if most == 0 {
		most = maxBatchRows
	}
	if first == 0 {
		first = minBatchRows
	}
	if n := r.used; n > 1 {
		first, most = max(first/n, min(first, 2)), max(most/n, minBatchRows)
	}
	for _, s := range r.sources[:r.used] {
		s.rows, s.most = min(first, most), most
		s.grown = min(minBatchRows, most, batchGrowth*s.rows)
	}
}

// sparseShare is how many times smaller than another run of the stripe a sparse one is.
const sparseShare = 256

// findSparse finds runs with so few rows that they are closed between one and the next. Why: while
// a stripe is written, most of its runs are young ones of a few rows, spread over all keys. A merge
// of all stripes would hold a block, a cursor and what belongs to a file for each; to open such a
// run again for each row takes no time beside that of the other rows.
func (r *reading) findSparse() {
	largest := uint64(0)
	for _, s := range r.sources[:r.used] {
		if !s.inTable {
			largest = max(largest, s.files.of.Info.Bytes)
		}
	}
	for _, s := range r.sources[:r.used] {
		if !s.inTable && s.files.of.Info.Bytes <= largest/sparseShare {
			s.files.sparse, s.rows, s.most = true, 1, 1
		}
	}
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
func (r *reading) loadRanges(overlay *memtable.Table) error {
	ts := r.scratch[:0]
	if overlay != nil && overlay.HasRanges() {
		ts = overlay.RangeTombstones(ts, base.MaxSeqNum)
	}
	r.view.tables(func(t *memtable.Table) {
		if t.HasRanges() {
			ts = t.RangeTombstones(ts, r.bounds.Snap)
		}
	})
	snap := r.bounds.Snap
	for _, run := range r.view.Runs {
		if !run.HasRanges || run.MaxSeq < r.bounds.From {
			continue
		}
		rr, err := run.loadRanges()
		if err != nil {
			return err
		}
		ts = rr.appendVisible(ts, r.bounds.Lo, r.bounds.Hi, snap)
	}
	kept := ts[:0]
	for _, t := range ts {
		if bytes.Compare(t.End, r.bounds.Lo) > 0 &&
			(r.bounds.Hi == nil || bytes.Compare(t.Start, r.bounds.Hi) < 0) {
			kept = append(kept, t)
		}
	}
	r.scratch = kept
	if len(kept) > 0 {
		r.ranges.List = rangedel.Build(kept, base.MaxSeqNum)
	}
	return nil
}
