package exec

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// Request is one execution of a plan.Physical.
type Request struct {
	Params []expr.Value
	// Stored wants whole rows as they are stored, whatever the columns of the result are, and
	// no more of them than Most if that is not negative. Requires: plan.Physical.Stored.
	Stored bool
	Most   int64
	// Cut is that of plan.Physical.Key.
	Cut bool
	// Batch is that of Options.
	Batch int
	// Frame is used until RunPhysical returns; nil: one of a pool.
	Frame *Frame
}

// Sink takes the rows of an execution, one after the other, and reports whether more are
// wanted. What it is given is valid during the call.
type Sink interface {
	// Values takes a row of the result.
	Values(row []expr.Value) bool
	// Stored takes a row as it is stored, for Request.Stored.
	Stored(key store.Key, value []byte) bool
}

// Reading is what an execution has read.
type Reading struct {
	Keys int64 // entries and rows
	// Tree says that these values take a plan.Plan, or are better off with it; nothing was read.
	Tree bool
	// Moved says that what an entry of a unique index leads to was changed while it was read
	// from a store.Store: a snapshot has to decide. The sink was given nothing.
	Moved bool
}

// RunPhysical answers a query with one operator, out of a Frame that is used again: nothing is
// made that depends on the query alone, and nothing is allocated for rows. It uses q until it
// returns.
func RunPhysical(ctx context.Context, r store.Reader, p *plan.Physical, q *Request,
	out Sink) (Reading, error) {
	f := q.Frame
	if f == nil {
		f = framePool.Get().(*Frame)
	}
	defer f.release()
	f.start(ctx, r, p, q, out)
	if !p.Point {
		tree, err := f.readRanges()
		return Reading{Keys: f.counts.Keys, Tree: tree}, first(err, f.into.err)
	}
	// Why a point is read here: see table.Rows.run.
	if err := p.Check(q.Params); err != nil {
		return Reading{}, err
	}
	var found bool
	f.pk, f.sk, found = p.Key(f.pk[:0], f.sk[:0], q.Params, q.Cut)
	if !found || q.Stored && q.Most == 0 {
		return Reading{}, nil
	}
	f.into.left, f.fetch.size = 1, 1
	f.test(false)
	key := store.Key{PK: f.pk}
	if len(f.sk) > 0 {
		key.SK = f.sk
	}
	err := f.one(key)
	return Reading{Keys: f.counts.Keys, Moved: f.moved}, first(err, f.into.err)
}

// Frame is one execution of a Physical: an access, and its memory, which the next one uses again.
// The zero value is ready.
type Frame struct {
	access
	p   *plan.Physical
	q   *Request
	out Sink

	moved bool // a snapshot has to decide

	full   []expr.Value // a row of the table
	values []expr.Value // a row of the result
	pk, sk []byte       // of a point
	value  []byte       // of a row, or an entry, that is read alone
	bounds plan.Ranges

	// What access points to.
	own   runner
	reads plan.Access
	// Methods of this frame as functions; nil before it is first used.
	yields  func(row []expr.Value) bool
	takes   func(*store.Block) bool
	founds  func(i int, it store.Item) bool
	agreed  func(i int, it store.Item) bool
	mayHold func(store.Zone) bool
}

var framePool = sync.Pool{New: func() any { return new(Frame) }}

// maxKeptBytes is the largest buffer that is kept for the next execution.
const maxKeptBytes = 1 << 16

// start begins an execution.
func (f *Frame) start(ctx context.Context, r store.Reader, p *plan.Physical, q *Request,
	out Sink) {
	if f.runner == nil {
		f.runner, f.node, f.counts, f.entry = &f.own, &f.reads, f.reads.Actual(), &f.decoder
		f.fetch.runner, f.fetch.actual = f.runner, f.counts
		f.yields, f.takes, f.founds = f.result, f.into.take, f.into.fetched
		f.agreed, f.mayHold = f.fetchedNow, f.bounds.MayHold
	}
	f.p, f.q, f.out = p, q, out
	f.ctx, f.reader, f.params = ctx, r, q.Params
	f.reads.Index, f.reads.Covering = p.Index, p.Covering
	*f.counts = plan.Actual{}
	if n := len(p.Table.Columns); cap(f.full) < n {
		f.full = make([]expr.Value, n)
	} else {
		f.full = f.full[:n]
	}
	f.decoder.full, f.decoder.row = f.full, f.full
	if s := f.begin(f.yields, -1); q.Stored {
		s.whole = out
	}
}

// test sets what is tested, and decoded: of what is exact nothing has to be tested.
func (f *Frame) test(exact bool) {
	p, d := f.p, &f.decoder
	if p.Filter != nil && !exact {
		f.filter = condition{*p.Filter, f.params, true}
	}
	if p.Residual != nil && !exact {
		f.residual = condition{*p.Residual, f.params, true}
	}
	if p.Index != nil {
		d.own, d.want = p.Own && p.Covering, schema.ColumnSet{}
		if p.Covering || f.filter.some {
			d.want = p.EntryColumns
		}
		f.fetch.table, f.fetch.index = p.Table, p.Index.Name
		f.found = f.founds
	}
	if !p.Covering {
		d.first, d.rest = p.Readers(f.residual.some)
	}
}

// release lets go of everything but memory.
func (f *Frame) release() {
	if !f.p.Point {
		f.bounds.Release()
	}
	pooled := f.q.Frame == nil
	if max(cap(f.fetch.arena), cap(f.fetch.value), cap(f.value)) > maxKeptBytes {
		*f = Frame{}
		return
	}
	if f.into.whole == nil || f.filter.some || f.residual.some || f.p.Index != nil {
		clear(f.full) // rows were decoded
		clear(f.values)
	}
	f.p, f.q, f.out, f.moved = nil, nil, nil, false
	f.ctx, f.reader, f.params = nil, nil, nil
	f.filter, f.residual = condition{}, condition{}
	f.into.whole, f.into.err = nil, nil
	f.values = f.values[:0]
	f.fetch.reset()
	if pooled {
		framePool.Put(f)
	}
}

// one reads the row, or the entry, at a key.
func (f *Frame) one(key store.Key) (err error) {
	if f.value, err = f.reader.Get(f.ctx, f.value[:0], key); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	s, x := &f.into, f.p.Index
	live := false
	if x != nil && !f.p.Covering {
		if _, live = f.reader.(store.Store); live {
			f.found = f.agreed
		}
	}
	s.put(store.Item{Key: key, Value: f.value})
	if live && !s.taken && s.err == nil {
		// The row may have left a partial index, and another one have its place there.
		f.moved = f.moved || f.counts.Keys == 1 || x.Where != nil
	}
	return nil
}

// fetchedNow takes a row of the present if it has the values that its entry was found by. It is
// the answer at the moment it was read then, whatever has happened since the entry was.
func (f *Frame) fetchedNow(i int, it store.Item) bool {
	f.moved = !f.agrees(it.Key, it.Value)
	return !f.moved && f.into.fetched(i, it)
}

// agrees reports whether a row has the values that its entry was found by.
func (f *Frame) agrees(key store.Key, value []byte) bool {
	x := f.p.Index
	indexed := schema.Columns(x.Ordinals()...)
	if f.p.Table.Decode(f.full, key, value, &indexed) != nil {
		return false
	}
	f.pk = f.pk[:0]
	for i := range x.Columns {
		c := &x.Columns[i]
		var err error
		if f.pk, err = f.p.Table.Columns[c.Ordinal].AppendField(f.pk, c.KeyColumn,
			f.full[c.Ordinal]); err != nil {
			return false
		}
	}
	return bytes.Equal(f.pk, f.sk)
}

// readRanges reads what the values select; tree says that they take a plan.Plan, or are better off
// with it.
func (f *Frame) readRanges() (tree bool, err error) {
	p, q, s, b := f.p, f.q, &f.into, &f.bounds
	ok, err := p.Bind(b, q.Params)
	if err != nil || !ok {
		return err == nil, err
	}
	if b.Interval && p.Many && b.Limit < 0 && !q.Stored {
		return true, nil // many rows, which its access reads in blocks
	}
	s.left, s.skip = b.Limit, b.Offset
	if q.Stored && q.Most >= 0 && (s.left < 0 || q.Most < s.left) {
		s.left = q.Most
	}
	if s.left == 0 || len(b.PKs) == 0 && !b.Interval {
		return false, nil
	}
	if f.reads.Limit = -1; s.left >= 0 {
		f.reads.Limit = s.left + s.skip
	}
	f.test(b.Exact)
	f.fetch.size = max(minFetch, min(q.Batch, maxFetch))
	if p.Index == nil && !b.Interval && len(p.Table.SK) == 0 {
		return false, f.one(store.Key{PK: b.PKs[0]})
	}
	rg := store.Range{Kind: store.KindPartitions, PKs: b.PKs, Spans: b.Spans,
		Unordered: !p.Ordered, Reverse: p.Reverse, KeysOnly: p.KeysOnly && !q.Stored,
		Limit: f.rangeLimit()}
	if b.Interval {
		rg.Kind, rg.PKs, rg.Spans, rg.From, rg.To = store.KindInterval, nil, nil, b.From, b.To
	}
	if (p.Index == nil && f.residual.some || p.Index != nil && f.filter.some) && b.Zoned() {
		rg.MayHold = f.mayHold
	}
	if err = store.Blocks(f.ctx, f.reader, rg, f.takes); err == nil {
		s.finish()
	}
	return false, err
}

// result hands on the columns of the result.
func (f *Frame) result(row []expr.Value) bool {
	f.values = f.values[:0]
	for i := range f.p.Columns {
		c := &f.p.Columns[i]
		if c.Program == nil {
			f.values = append(f.values, row[c.Ordinal])
			continue
		}
		v, err := c.Program.Value(row, f.params)
		if err != nil {
			f.into.fail(err)
			return false
		}
		f.values = append(f.values, v)
	}
	return f.out.Values(f.values)
}
