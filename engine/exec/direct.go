package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// Direct runs the short way of a query, see plan.Direct: what Run does for the tree, without
// making anything that depends on the query alone again. It is immutable and may be used
// concurrently.
type Direct struct {
	plan     *plan.Direct
	filter   expr.Program // of entries
	residual expr.Program // of rows
	filters  bool
	rests    bool
	own      bool // what is wanted of entries is there without the row's key

	entryColumns schema.ColumnSet // what filter, or a result that is covered, needs of entries
	restColumns  schema.ColumnSet // what residual needs of rows
	rowColumns   schema.ColumnSet // the same and the result
}

// NewDirect compiles the short way of a query.
func NewDirect(p *plan.Direct) (*Direct, error) {
	d := &Direct{plan: p, filters: p.Filter != nil, rests: p.Residual != nil}
	var err error
	if d.filters {
		if d.filter, err = expr.Compile(p.Filter); err != nil {
			return nil, err
		}
		addColumns(&d.entryColumns, p.Filter)
	}
	if d.rests {
		if d.residual, err = expr.Compile(p.Residual); err != nil {
			return nil, err
		}
		addColumns(&d.restColumns, p.Residual)
	}
	d.rowColumns = d.restColumns
	for _, o := range p.Columns {
		d.rowColumns.Add(o)
	}
	if p.Index != nil {
		if p.Covering {
			d.entryColumns.Union(d.rowColumns)
		}
		d.own = d.entryColumns.Within(p.Index.OwnColumns())
	}
	return d, nil
}

// addColumns adds the columns of an expression.
func addColumns(s *schema.ColumnSet, e expr.Expr) {
	expr.Walk(e, func(x expr.Expr) bool {
		if c, ok := x.(expr.Column); ok {
			s.Add(c.Ordinal)
		}
		return true
	})
}

// Check returns the error that a run with these values returns before it has read anything.
func (d *Direct) Check(params []expr.Value) error { return d.plan.Check(params) }

// Stored reports whether the query reads rows as they are stored, so that RunStored can be
// used: it does not if entries of an index have all columns.
func (d *Direct) Stored() bool { return d.plan.Index == nil || !d.plan.Covering }

// Reading is what a run has read.
type Reading struct {
	Keys int64 // entries and rows
	// Tree says that these values need a plan.Plan; nothing was read.
	Tree bool
}

// Run calls yield with the rows of the result until it returns false. A row is valid during
// the call.
func (d *Direct) Run(ctx context.Context, r store.Reader, params []expr.Value,
	yield func(row []expr.Value) bool) (Reading, error) {
	run := startDirect(ctx, d, r, params)
	defer run.release()
	run.values = yield
	return run.run()
}

// RunStored is Run of whole rows, whatever the columns of the result are. It calls yield with
// the first of them, most if that is not negative. Requires: Stored.
func (d *Direct) RunStored(ctx context.Context, r store.Reader, params []expr.Value, most int64,
	yield func(key store.Key, value []byte) bool) (Reading, error) {
	run := startDirect(ctx, d, r, params)
	defer run.release()
	run.stored, run.most = yield, most
	return run.run()
}

// directRun is one execution of a Direct.
type directRun struct {
	*Direct
	ctx    context.Context //nolint:containedctx // of one execution
	reader store.Reader
	params []expr.Value
	values func([]expr.Value) bool
	stored func(store.Key, []byte) bool
	most   int64

	ranges plan.DirectRanges
	tested bool  // entries are tested
	rested bool  // rows are tested
	left   int64 // rows that are still wanted; negative: all
	skip   int64 // rows before them that are still to be left out
	read   int64
	done   bool
	err    error

	full    []expr.Value // a row of the table
	out     []expr.Value // a row of the result
	buf     []byte       // of the last row's key, or value
	keys    []store.Key  // of rows to fetch
	arena   []byte       // what keys refer to
	batch   int          // when keys are fetched
	results engine.Results
}

var directPool = sync.Pool{New: func() any { return new(directRun) }}

// maxKeptBytes is the largest buffer that is kept for the next execution.
const maxKeptBytes = 1 << 16

func startDirect(ctx context.Context, d *Direct, r store.Reader,
	params []expr.Value) *directRun {
	run := directPool.Get().(*directRun)
	run.Direct, run.ctx, run.reader, run.params, run.most = d, ctx, r, params, -1
	if n := len(d.plan.Table.Columns); cap(run.full) < n {
		run.full = make([]expr.Value, n)
	} else {
		run.full = run.full[:n]
	}
	return run
}

// release lets go of everything but memory.
func (r *directRun) release() {
	r.ranges.Release()
	r.results.Release()
	if cap(r.arena) > maxKeptBytes || cap(r.buf) > maxKeptBytes {
		return
	}
	clear(r.full)
	clear(r.out)
	*r = directRun{ranges: r.ranges, full: r.full, out: r.out[:0], buf: r.buf[:0],
		keys: r.keys[:0], arena: r.arena[:0], results: r.results}
	directPool.Put(r)
}

func (r *directRun) run() (Reading, error) {
	ok, err := r.plan.Bind(&r.ranges, r.params)
	if err != nil || !ok {
		return Reading{Tree: err == nil}, err
	}
	r.left, r.skip = r.ranges.Limit, r.ranges.Offset
	if r.most >= 0 && (r.left < 0 || r.most < r.left) {
		r.left = r.most
	}
	if r.left == 0 || len(r.ranges.PKs) == 0 && !r.ranges.Interval {
		return Reading{}, nil
	}
	r.tested, r.rested = r.filters && !r.ranges.Exact, r.rests && !r.ranges.Exact
	r.batch = minFetch
	if r.plan.Index == nil && !r.ranges.Interval && len(r.plan.Table.SK) == 0 {
		err = r.one(store.Key{PK: r.ranges.PKs[0]})
	} else {
		err = r.scan()
	}
	if err == nil && !r.done {
		r.fetch()
	}
	return Reading{Keys: r.read}, first(err, r.err)
}

// scan reads the ranges.
func (r *directRun) scan() error {
	p := r.plan
	rg := store.Range{Kind: store.KindPartitions, PKs: r.ranges.PKs, Spans: r.ranges.Spans,
		Unordered: !p.Ordered, Reverse: p.Reverse}
	if r.ranges.Interval {
		rg.Kind, rg.PKs, rg.Spans = store.KindInterval, nil, nil
		rg.From, rg.To = r.ranges.From, r.ranges.To
	}
	if r.left >= 0 && !r.tested && !r.rested && r.skip < mostLimit && r.left < mostLimit {
		rg.Limit = int(r.left + r.skip)
	}
	for it, err := range r.reader.Scan(r.ctx, rg) {
		if err != nil {
			return err
		}
		r.read++
		if p.Index == nil {
			r.row(it.Key, it.Value)
		} else {
			r.entered(&it)
		}
		if r.done {
			return nil
		}
	}
	return nil
}

// mostLimit bounds the limits that the store is told.
const mostLimit = 1 << 30

// fail ends the run with an error.
func (r *directRun) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.done = true
}

// entered takes an entry of the index.
func (r *directRun) entered(it *store.Item) {
	x, covering := r.plan.Index, r.plan.Covering
	if covering {
		var err error
		if r.own {
			err = x.DecodeOwn(r.full, it.Key.SK, it.Value, &r.entryColumns)
		} else {
			_, r.buf, err = x.DecodeEntry(r.full, r.buf[:0], it.Key.SK, it.Value, &r.entryColumns)
		}
		if err != nil {
			r.fail(err)
		} else if r.holds(r.tested, &r.filter) {
			r.result()
		}
		return
	}
	start := len(r.arena)
	var key store.Key
	var err error
	if r.tested {
		key, r.arena, err = x.DecodeEntry(r.full, r.arena, it.Key.SK, it.Value, &r.entryColumns)
	} else {
		key, r.arena, err = x.RowKey(r.arena, it.Key.SK, it.Value)
	}
	switch {
	case err != nil:
		r.fail(err)
	case !r.holds(r.tested, &r.filter):
		r.arena = r.arena[:start]
	case !r.rested && r.skip > 0: // it need not be fetched
		r.skip--
		r.arena = r.arena[:start]
	default:
		r.later(key)
	}
}

// holds reports whether a condition is true of r.full.
func (r *directRun) holds(tested bool, p *expr.Program) bool {
	if !tested {
		return true
	}
	truth, err := p.Test(r.full, r.params)
	if err != nil {
		r.fail(err)
	}
	return err == nil && truth == expr.True
}

// later puts the key of a row, whose PK is in the arena, on the list of those to fetch.
func (r *directRun) later(key store.Key) {
	if key.SK != nil {
		start := len(r.arena)
		r.arena = append(r.arena, key.SK...)
		key.SK = r.arena[start:len(r.arena):len(r.arena)]
	}
	r.keys = append(r.keys, key)
	wanted := r.batch
	if r.left >= 0 && !r.rested {
		wanted = int(min(int64(wanted), r.left))
	}
	if len(r.keys) >= wanted {
		r.fetch()
	}
}

// fetch reads the rows on the list.
func (r *directRun) fetch() {
	keys := r.keys
	r.keys, r.arena, r.batch = r.keys[:0], r.arena[:0], min(2*r.batch, maxFetch)
	if len(keys) == 1 {
		if err := r.one(keys[0]); err != nil {
			r.fail(err)
		}
		return
	}
	if len(keys) == 0 {
		return
	}
	all, ok := r.reader.(store.ResultsReader)
	if !ok {
		r.fetchEach(keys)
		return
	}
	r.results.Expected = true
	if err := all.MultiGetResults(r.ctx, keys, &r.results); err != nil {
		r.fail(err)
		return
	}
	for i := 0; i < len(keys) && !r.done; i++ {
		if it, ok := r.results.Item(i); ok {
			r.read++
			r.row(it.Key, it.Value)
		} else {
			r.missing()
		}
	}
}

// fetchEach is fetch from a reader that calls back.
func (r *directRun) fetchEach(keys []store.Key) {
	next := 0
	err := r.reader.MultiGet(r.ctx, keys, func(i int, it store.Item) {
		for ; next < i && !r.done; next++ {
			r.missing()
		}
		if next = i + 1; !r.done {
			r.read++
			r.row(it.Key, it.Value)
		}
	})
	for ; next < len(keys) && err == nil && !r.done; next++ {
		r.missing()
	}
	if err != nil {
		r.fail(err)
	}
}

// one reads a single row.
func (r *directRun) one(key store.Key) (err error) {
	if r.buf, err = r.reader.Get(r.ctx, r.buf[:0], key); err != nil {
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if r.plan.Index != nil {
			r.missing()
		}
		return nil
	}
	r.read++
	r.row(key, r.buf)
	return nil
}

// missing takes note of an entry without a row: see fetcher.mayMiss.
func (r *directRun) missing() {
	if _, live := r.reader.(store.Store); !live && !r.plan.Table.MayExpire() {
		r.fail(fmt.Errorf("%w: table %s, index %s", ErrDangling, r.plan.Table.Name,
			r.plan.Index.Name))
	}
}

// row takes a row.
func (r *directRun) row(key store.Key, value []byte) {
	want := &r.rowColumns
	if r.stored != nil {
		want = &r.restColumns
	}
	if r.rested || r.stored == nil {
		if err := r.plan.Table.Decode(r.full, key, value, want); err != nil {
			r.fail(err)
			return
		}
	}
	switch {
	case !r.holds(r.rested, &r.residual):
	case r.stored == nil:
		r.result()
	case r.wanted():
		r.yielded(r.stored(key, value))
	}
}

// result hands on the columns of r.full.
func (r *directRun) result() {
	if !r.wanted() {
		return
	}
	r.out = r.out[:0]
	for _, o := range r.plan.Columns {
		r.out = append(r.out, r.full[o])
	}
	r.yielded(r.values(r.out))
}

// wanted reports whether the row is behind those that are left out.
func (r *directRun) wanted() bool {
	if r.skip > 0 {
		r.skip--
		return false
	}
	return true
}

// yielded takes note of a row that was handed on.
func (r *directRun) yielded(more bool) {
	r.left--
	r.done = r.done || !more || r.left == 0
}
