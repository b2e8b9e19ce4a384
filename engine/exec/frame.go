package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	f.Physical, f.q, f.ctx, f.reader, f.sink = p, q, ctx, r, out // the rest is zero
	if n := len(p.Table.Columns); cap(f.full) < n {
		f.full = make([]expr.Value, n)
	} else {
		f.full = f.full[:n]
	}
	if p.Index != nil {
		_, f.live = r.(store.Store)
	}
	if p.Residual != nil {
		f.others = p.RowColumns.Without(p.TestColumns)
	}
	if !p.Point {
		return f.access()
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
	f.left, f.batch = 1, 1
	f.tested, f.rested = p.Filter != nil, p.Residual != nil
	key := store.Key{PK: f.pk}
	if len(f.sk) > 0 {
		key.SK = f.sk
	}
	var err error
	if p.Index != nil {
		err = f.entryPoint(key)
	} else if f.buf, err = r.Get(ctx, f.buf[:0], key); err == nil {
		f.read.Keys++
		if q.Stored && !f.rested {
			out.Stored(key, f.buf)
		} else {
			f.row(key, f.buf)
		}
		err = f.err
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return f.read, err
}

// Frame is one execution of a Physical, and its memory, which the next one uses again. The zero
// value is ready.
type Frame struct {
	execution
	full    []expr.Value // a row of the table
	out     []expr.Value // a row of the result
	buf     []byte       // of the last row's key, or value
	pk, sk  []byte       // of a point
	entry   []byte       // the value of a point's entry; then its key, made of a row
	keys    []store.Key  // of rows to fetch
	arena   []byte       // what keys refer to
	ranges  plan.Ranges
	results store.Results
	mayHold func(store.Zone) bool // of ranges; nil until it is needed
}

// execution is the state of a Frame.
type execution struct {
	*plan.Physical
	q      *Request
	ctx    context.Context //nolint:containedctx // of one execution
	reader store.Reader
	sink   Sink
	live   bool // reads see the present, each its own; of an index

	tested bool             // entries are tested
	rested bool             // rows are tested
	others schema.ColumnSet // of the result, but for those that rows are tested by
	left   int64            // rows that are still wanted; negative: all
	skip   int64            // rows before them that are still to be left out
	batch  int              // when keys are fetched
	read   Reading
	done   bool
	err    error
}

var framePool = sync.Pool{New: func() any { return new(Frame) }}

// maxKeptBytes is the largest buffer that is kept for the next execution.
const maxKeptBytes = 1 << 16

// release lets go of everything but memory.
func (f *Frame) release() {
	if !f.Point {
		f.ranges.Release()
		f.results.Release()
	}
	pooled := f.q.Frame == nil
	if cap(f.arena) > maxKeptBytes || cap(f.buf) > maxKeptBytes || cap(f.entry) > maxKeptBytes {
		*f = Frame{}
		return
	}
	if !f.q.Stored || f.tested || f.rested || f.Index != nil { // rows were decoded
		clear(f.full)
		clear(f.out)
	}
	f.execution = execution{}
	f.out, f.keys, f.arena = f.out[:0], f.keys[:0], f.arena[:0]
	if pooled {
		framePool.Put(f)
	}
}

// entryPoint reads the row of the unique entry at a key.
func (f *Frame) entryPoint(key store.Key) (err error) {
	if f.entry, err = f.reader.Get(f.ctx, f.entry[:0], key); err != nil {
		return err
	}
	f.read.Keys++
	f.entered(&store.Item{Key: key, Value: f.entry})
	return f.err
}

// agrees reports whether a row that was read from the present has the values that its entry was
// found by. If so, it is the answer at the moment it was read, whatever has happened since the
// entry was.
func (f *Frame) agrees(key store.Key, value []byte) bool {
	indexed := schema.Columns(f.Index.Ordinals()...)
	if f.Table.Decode(f.full, key, value, &indexed) != nil {
		return false
	}
	f.entry = f.entry[:0]
	for i := range f.Index.Columns {
		c := &f.Index.Columns[i]
		var err error
		if f.entry, err = f.Table.Columns[c.Ordinal].AppendField(f.entry, c.KeyColumn,
			f.full[c.Ordinal]); err != nil {
			return false
		}
	}
	return bytes.Equal(f.entry, f.sk)
}

// access reads ranges.
func (f *Frame) access() (Reading, error) {
	ok, err := f.Bind(&f.ranges, f.q.Params)
	if err != nil || !ok {
		return Reading{Tree: err == nil}, err
	}
	if f.ranges.Interval && f.Many && f.ranges.Limit < 0 && !f.q.Stored {
		return Reading{Tree: true}, nil // many rows, which its access reads in blocks
	}
	f.left, f.skip = f.ranges.Limit, f.ranges.Offset
	if f.q.Stored && f.q.Most >= 0 && (f.left < 0 || f.q.Most < f.left) {
		f.left = f.q.Most
	}
	if f.left == 0 || len(f.ranges.PKs) == 0 && !f.ranges.Interval {
		return Reading{}, nil
	}
	f.tested = f.Filter != nil && !f.ranges.Exact
	f.rested = f.Residual != nil && !f.ranges.Exact
	f.batch = max(minFetch, min(f.q.Batch, maxFetch))
	if f.Index == nil && !f.ranges.Interval && len(f.Table.SK) == 0 {
		err = f.one(store.Key{PK: f.ranges.PKs[0]})
	} else {
		err = f.scan()
	}
	if err == nil && !f.done {
		f.fetch()
	}
	return f.read, first(err, f.err)
}

// scan reads the ranges.
func (f *Frame) scan() error {
	rg := store.Range{Kind: store.KindPartitions, PKs: f.ranges.PKs, Spans: f.ranges.Spans,
		Unordered: !f.Ordered, Reverse: f.Reverse, KeysOnly: f.KeysOnly && !f.q.Stored}
	if f.ranges.Interval {
		rg.Kind, rg.PKs, rg.Spans = store.KindInterval, nil, nil
		rg.From, rg.To = f.ranges.From, f.ranges.To
	}
	if f.left >= 0 && !f.tested && !f.rested && f.skip < mostLimit && f.left < mostLimit {
		rg.Limit = int(f.left + f.skip)
	}
	if (f.Index == nil && f.rested || f.Index != nil && f.tested) && f.ranges.Zoned() {
		if f.mayHold == nil {
			f.mayHold = f.ranges.MayHold
		}
		rg.MayHold = f.mayHold
	}
	if f.ranges.Interval && rg.Limit == 0 {
		return store.Blocks(f.ctx, f.reader, rg, f.take)
	}
	for it, err := range f.reader.Scan(f.ctx, rg) {
		if err != nil {
			return err
		}
		f.read.Keys++
		if f.Index == nil {
			f.row(it.Key, it.Value)
		} else {
			f.entered(&it)
		}
		if f.done {
			return nil
		}
	}
	return nil
}

// take takes the items of a block, and reports whether more are wanted.
func (f *Frame) take(b *store.Block) bool {
	for i := 0; i < b.Len() && !f.done; i++ {
		f.read.Keys++
		if f.Index == nil {
			key, err := b.Key(i)
			if err != nil {
				f.fail(err)
				break
			}
			f.row(key, b.Value(i))
			continue
		}
		it, err := b.Item(i)
		if err != nil {
			f.fail(err)
			break
		}
		f.entered(&it)
	}
	return !f.done
}

// mostLimit bounds the limits that are passed to the store.
const mostLimit = 1 << 30

// fail ends the run with an error.
func (f *Frame) fail(err error) {
	if f.err == nil {
		f.err = err
	}
	f.done = true
}

// entered takes an entry of the index.
func (f *Frame) entered(it *store.Item) {
	x := f.Index
	if f.Covering {
		var err error
		if f.Own {
			err = x.DecodeOwn(f.full, it.Key.SK, it.Value, &f.EntryColumns)
		} else {
			_, f.buf, err = x.DecodeEntry(f.full, f.buf[:0], it.Key.SK, it.Value, &f.EntryColumns)
		}
		if err != nil {
			f.fail(err)
		} else if f.holds(f.tested, f.Filter) {
			f.result()
		}
		return
	}
	start := len(f.arena)
	var key store.Key
	var err error
	if f.tested {
		key, f.arena, err = x.DecodeEntry(f.full, f.arena, it.Key.SK, it.Value, &f.EntryColumns)
	} else {
		key, f.arena, err = x.RowKey(f.arena, it.Key.SK, it.Value)
	}
	switch {
	case err != nil:
		f.fail(err)
	case !f.holds(f.tested, f.Filter):
		f.arena = f.arena[:start]
	case !f.rested && f.skip > 0: // it need not be fetched
		f.skip--
		f.arena = f.arena[:start]
	default:
		f.later(key)
	}
}

// holds reports whether a condition is true of f.full.
func (f *Frame) holds(tested bool, p *expr.Program) bool {
	if !tested {
		return true
	}
	truth, err := p.Test(f.full, f.q.Params)
	if err != nil {
		f.fail(err)
	}
	return err == nil && truth == expr.True
}

// later puts the key of a row, whose PK is in the arena, on the list of those to fetch.
func (f *Frame) later(key store.Key) {
	if key.SK != nil {
		start := len(f.arena)
		f.arena = append(f.arena, key.SK...)
		key.SK = f.arena[start:len(f.arena):len(f.arena)]
	}
	f.keys = append(f.keys, key)
	wanted := f.batch
	if f.left >= 0 && !f.rested {
		wanted = int(min(int64(wanted), f.left))
	}
	if len(f.keys) >= wanted {
		f.fetch()
	}
}

// fetch reads the rows on the list.
func (f *Frame) fetch() {
	keys := f.keys
	f.keys, f.arena, f.batch = f.keys[:0], f.arena[:0], min(2*f.batch, maxFetch)
	if len(keys) == 1 {
		if err := f.one(keys[0]); err != nil {
			f.fail(err)
		}
		return
	}
	if len(keys) == 0 {
		return
	}
	all, ok := f.reader.(store.ResultsReader)
	if !ok {
		f.fetchEach(keys)
		return
	}
	f.results.Expected = true
	if err := all.MultiGetResults(f.ctx, keys, &f.results); err != nil {
		f.fail(err)
		return
	}
	for i := 0; i < len(keys) && !f.done; i++ {
		if it, ok := f.results.Item(i); ok {
			f.read.Keys++
			f.row(it.Key, it.Value)
		} else {
			f.missing()
		}
	}
}

// fetchEach is fetch from a reader that calls back.
func (f *Frame) fetchEach(keys []store.Key) {
	next := 0
	err := f.reader.MultiGet(f.ctx, keys, func(i int, it store.Item) {
		for ; next < i && !f.done; next++ {
			f.missing()
		}
		if next = i + 1; !f.done {
			f.read.Keys++
			f.row(it.Key, it.Value)
		}
	})
	for ; next < len(keys) && err == nil && !f.done; next++ {
		f.missing()
	}
	if err != nil {
		f.fail(err)
	}
}

// one reads a single row.
func (f *Frame) one(key store.Key) (err error) {
	if f.buf, err = f.reader.Get(f.ctx, f.buf[:0], key); err != nil {
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if f.Index != nil {
			f.missing()
		}
		return nil
	}
	f.read.Keys++
	f.row(key, f.buf)
	return nil
}

// missing takes note of an entry without a row: see fetcher.mayMiss.
func (f *Frame) missing() {
	if !f.live && !f.Table.MayExpire() {
		f.fail(fmt.Errorf("%w: table %s, index %s", ErrDangling, f.Table.Name, f.Index.Name))
	}
	f.read.Moved = f.live && f.Point
}

// row takes a row.
func (f *Frame) row(key store.Key, value []byte) {
	if f.Point && f.Index != nil && f.live && !f.agrees(key, value) {
		f.read.Moved = true
		return
	}
	want := &f.RowColumns
	if f.rested {
		// Only rows that pass are decoded completely.
		if !f.decode(key, value, &f.TestColumns) || !f.holds(true, f.Residual) {
			// The row may have left a partial index, and another one have its place there.
			f.read.Moved = f.live && f.Point && f.Index.Where != nil
			return
		}
		want = &f.others
	}
	switch {
	case !f.q.Stored:
		if want.Empty() || f.decode(key, value, want) {
			f.result()
		}
	case f.wanted():
		f.yielded(f.sink.Stored(key, value))
	}
}

// decode sets columns of f.full and reports whether they could be read.
func (f *Frame) decode(key store.Key, value []byte, want *schema.ColumnSet) bool {
	var err error
	if f.KeysOnly {
		err = f.Table.DecodeKey(f.full, key, want)
	} else {
		err = f.Table.Decode(f.full, key, value, want)
	}
	if err != nil {
		f.fail(err)
	}
	return err == nil
}

// result hands on the columns of the result.
func (f *Frame) result() {
	if !f.wanted() {
		return
	}
	f.out = f.out[:0]
	for i := range f.Columns {
		c := &f.Columns[i]
		if c.Program == nil {
			f.out = append(f.out, f.full[c.Ordinal])
			continue
		}
		v, err := c.Program.Value(f.full, f.q.Params)
		if err != nil {
			f.fail(err)
			return
		}
		f.out = append(f.out, v)
	}
	f.yielded(f.sink.Values(f.out))
}

// wanted reports whether the row comes after those that OFFSET leaves out.
func (f *Frame) wanted() bool {
	if f.skip > 0 {
		f.skip--
		return false
	}
	return true
}

// yielded takes note of a row that was handed on.
func (f *Frame) yielded(more bool) {
	f.left--
	f.done = f.done || !more || f.left == 0
}
