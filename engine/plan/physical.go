package plan

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Physical is what a query comes down to that one operator answers: a Point, which reads the
// row or the entry at one key, or an Access, which reads ranges of an index or of the rows.
// Nothing is done above it but cutting the result. Parameters are slots: each execution binds
// them in memory of its own. A Physical is immutable.
type Physical struct {
	Table *schema.Table
	Index *schema.Index // nil: the rows
	// Point says that at most one row is found, at what Key returns; otherwise Bind makes
	// ranges.
	Point bool
	// Covering says that entries have all columns that are used, and KeysOnly that keys of rows do.
	Covering, KeysOnly bool
	// Ordered says that rows come in the order of the sort keys over all partitions, with
	// Reverse the other way round; otherwise in any order.
	Ordered, Reverse bool
	// Filter is what entries, and Residual what rows are tested for, unless the ranges are
	// exact. Columns have source 0 and the ordinals of the table. Nil accepts all.
	Filter, Residual *expr.Program
	// Columns are those of the result.
	Columns []ResultColumn
	// EntryColumns are those that are used of entries.
	EntryColumns schema.ColumnSet
	// Own says that entries have EntryColumns without the key of their row.
	Own bool
	// Many says that rows in any order are expected to be so many that they are better read in
	// blocks, by a tree.
	Many bool

	scope         *scope
	once          sync.Once // of compile
	failed        error     // of compile
	whole         bool      // all rows are read, and Many
	path          *path
	count, offset expr.Expr
	buckets       spans.Buckets
	pks           [][]byte         // of all buckets, ascending
	readers       [2]rowReaders    // of all columns of rows, and with a test before
	tested, used  schema.ColumnSet // by Residual; of rows
	fields        []keycodec.Field // of the key of a point, and
	slots         []spans.Operand  // what they are equal to
	times         bool             // there are times among them
}

// ResultColumn is a column of a result: the column of the table with that ordinal, or, if it
// is not nil, the value of a program over the row.
type ResultColumn struct {
	Ordinal int
	Program *expr.Program
}

// rowReaders read the columns of rows that are tested, and the others.
type rowReaders struct {
	once        sync.Once
	first, rest schema.RowReader
}

// fewRows is how many rows one operator reads, one by one, in the time in which a tree is bound and
// begins to read blocks.
const fewRows = 24

// maxKeptBuckets bounds the partitions of an index whose keys a Physical keeps.
const maxKeptBuckets = 1024

// Physical returns the one operator that answers the query, nil if it takes a tree of them, or is
// better off with one: a scan of a whole table of many rows in any order, which its access reads in
// blocks.
func (p *Prepared) Physical() *Physical {
	if p.physical == nil || p.physical.whole {
		return nil
	}
	return p.physical
}

// Stored is Physical for callers that take rows as they are stored: whole tables, too.
func (p *Prepared) Stored() *Physical {
	d := p.physical
	if d == nil {
		return nil
	}
	d.once.Do(func() { d.failed = d.compile(p.q.outputs) })
	if d.failed != nil {
		return nil
	}
	return d
}

// findPhysical recognises a query that one operator answers. One that cannot be compiled is
// left to the tree, which fails with the reason.
func (p *Prepared) findPhysical() {
	q := p.q
	if len(q.rels) != 1 || q.grouped || q.sel.Distinct || q.page || q.sel.RowKeys ||
		len(p.subs) > 0 || len(q.scope.listed) > 0 || q.outer != nil && !q.isApplied {
		return
	}
	d := &Physical{scope: q.scope}
	n := p.root
	if project, ok := n.(*Project); ok {
		n = project.Input
	}
	if limit, ok := n.(*limit); ok {
		d.count, d.offset, n = limit.count, limit.offset, limit.Input
	}
	w, ok := n.(*path)
	if !ok {
		return
	}
	d.Table, d.Index, d.path = w.rel.table, w.index, w
	d.Covering, d.KeysOnly = w.covering && w.index != nil, w.keysOnly && w.index == nil
	d.Ordered, d.Reverse = w.ordered, w.reverse
	d.Point = w.point && q.wantsRow() && w.hasKey()
	if !d.Point && !d.readsRanges() || w.rel.source != 0 {
		return
	}
	d.Many = d.Index == nil && !d.Ordered && w.reads > fewRows
	if d.whole = d.Many && w.fullScan && q.limit == nil && q.offset == nil; d.whole {
		p.physical = d
		return
	}
	p.physical = d
	p.physical = p.Stored()
}

// reads reports whether other, which may be nil, reads the same as d.
func (d *Physical) reads(other *Physical) bool {
	return other != nil && d.Index == other.Index && d.Point == other.Point &&
		d.Covering == other.Covering && d.Ordered == other.Ordered && d.Reverse == other.Reverse
}

// wantsRow reports whether the first row is returned, whatever the parameters are.
func (q *query) wantsRow() bool {
	if q.limit == nil || q.offset != nil {
		return q.offset == nil
	}
	c, ok := q.limit.(expr.Const)
	n, whole := c.AsInt()
	return ok && whole && n > 0
}

// hasKey reports whether values alone make the key of a point. The bucket of a local index
// follows from the row's key, which is not known.
func (w *path) hasKey() bool {
	return (w.index == nil || w.index.Placement != schema.Local) &&
		!slices.ContainsFunc(w.operands, func(e expr.Expr) bool {
			switch e.(type) {
			case expr.Const, expr.Param:
				return false
			}
			return true
		})
}

// readsRanges reports whether spans alone say what is read.
func (d *Physical) readsRanges() bool {
	w := d.path
	x := w.spread()
	return w.fixed == 0 && w.skip == nil && w.probe == nil && !w.takesAfter && w.limit < 0 &&
		!w.repeats && !w.need.rowKey && len(w.bucketTerms()) == 0 &&
		(x == nil || x.Buckets() <= maxKeptBuckets)
}

// compile divides the terms between entries and rows, and makes programs of them and of the
// columns of the result.
func (d *Physical) compile(outputs []Output) (err error) {
	var entry, row []expr.Expr
	switch {
	case d.Point && d.Covering:
		entry = d.path.residual(d.path.pred)
	case d.Point:
		row = d.path.residual(d.path.rel.pred) // which may be younger than its entry
	case d.Index == nil:
		row = d.path.pred
	default:
		entry = d.path.entryTerms(d.path.pred)
		row = withoutTerms(d.path.pred, entry)
	}
	program := func(e expr.Expr, columns *schema.ColumnSet) *expr.Program {
		if e == nil {
			return nil
		}
		columns.Union(columnsIn(e, 0))
		out, failed := expr.Compile(e)
		err = errors.Join(err, failed)
		return &out
	}
	d.Filter = program(expr.AllOf(entry), &d.EntryColumns)
	d.Residual = program(expr.AllOf(row), &d.tested)
	d.used = d.tested
	d.Columns = make([]ResultColumn, 0, len(outputs))
	for _, o := range outputs {
		if c, ok := o.Expr.(expr.Column); ok {
			d.used.Add(c.Ordinal)
			d.Columns = append(d.Columns, ResultColumn{Ordinal: c.Ordinal})
			continue
		}
		d.Columns = append(d.Columns, ResultColumn{Program: program(o.Expr, &d.used)})
	}
	if d.Point {
		d.fields = d.path.key.Fields[:d.path.own]
		d.slots = make([]spans.Operand, 0, len(d.path.operands))
		for _, e := range d.path.operands {
			d.slots = append(d.slots, spans.OperandOf(e))
		}
		d.times = slices.ContainsFunc(d.fields, func(f keycodec.Field) bool {
			return f.Type == keycodec.TypeTime
		})
	}
	if d.Index != nil {
		if d.Covering {
			d.EntryColumns.Union(d.used)
		}
		d.Own = d.EntryColumns.Within(d.Index.OwnColumns())
	}
	if x := d.path.spread(); x != nil && !d.Point {
		d.buckets = spans.BucketsOf(x)
		for i := range x.Buckets() {
			d.pks = append(d.pks, x.BucketPK(nil, i))
		}
	}
	return err
}

// Readers returns the reader of the columns of a row that Residual uses, and that of the others
// which are used; unless rows are tested, the second one reads all of them. A column has the place
// of its ordinal.
func (d *Physical) Readers(tested bool) (first, rest *schema.RowReader) {
	r, own := &d.readers[0], schema.ColumnSet{}
	if tested {
		r, own = &d.readers[1], d.tested
	}
	r.once.Do(func() {
		r.first.Init(d.Table, own, nil)
		r.rest.Init(d.Table, d.used.Without(own), nil)
	})
	return &r.first, &r.rest
}

// residual returns those of the terms that the key of a point does not stand for.
func (p *path) residual(terms []expr.Expr) (rest []expr.Expr) {
	used := make([]bool, len(p.operands))
	for _, t := range terms {
		seen := false
		for i, operand := range p.operands {
			c, ok := t.(expr.Cmp)
			if !ok || used[i] || c.Op != expr.Eq || !expr.Equal(c.R, operand) {
				continue
			}
			if column, ok := c.L.(expr.Column); ok && column.Ordinal == p.key.Ordinals[i] {
				used[i], seen = true, true
				break
			}
		}
		if !seen {
			rest = append(rest, t)
		}
	}
	return rest
}

// Stored reports whether rows are read as they are stored: entries of an index that covers
// the query are not.
func (d *Physical) Stored() bool { return !d.Covering }

// Key appends the engine key that a point reads: of a row or, if Index is not nil, of a unique
// entry. found is false if no row can be found: a value is NULL or none of its column. With
// cut, and without a Residual, times among the parameters of a row's key are cut to the unit of
// their column, as when they were written. It allocates nothing else beyond the growth of pk
// and sk.
//
// Requires: Check has accepted params.
func (d *Physical) Key(pk, sk []byte, params []expr.Value, cut bool) (pk2, sk2 []byte,
	found bool) {
	if cut && d.times && d.Index == nil && d.Residual == nil {
		params = d.cut(params)
	}
	return operator.AppendKey(pk, sk, d.Table, d.Index, d.fields, func(i int) *expr.Value {
		if at := d.slots[i].Param; at >= 0 {
			return &params[at]
		}
		return &d.slots[i].Value
	})
}

// cut returns the values of parameters with times cut to the unit of their column: params
// itself if they are.
func (d *Physical) cut(params []expr.Value) []expr.Value {
	for i := range d.slots {
		f, at := &d.fields[i], d.slots[i].Param
		if f.Type != keycodec.TypeTime || at < 0 || params[at].IsNull() {
			continue
		}
		if _, ok := spans.UsualTicks(f, &params[at]); !ok {
			params = slices.Clone(params)
			params[at], _ = spans.Place(f, params[at])
		}
	}
	return params
}

// Ranges is what an Access reads for some values. The zero value is ready; its memory is
// used again.
//
// Ownership: all slices are valid until Release.
type Ranges struct {
	// PKs are the partitions to read, ascending, and Spans the ranges of sort keys in all of
	// them. No spans: whole partitions.
	PKs   [][]byte
	Spans []keycodec.Span
	// Interval says that, instead, the rows of the partitions from From on and before To are
	// read.
	Interval bool
	From, To []byte
	// Exact says that rows need not be tested.
	Exact bool
	// Limit is how many rows are wanted, negative if all, and Offset how many of those
	// before them are left out.
	Limit, Offset int64

	builder *spans.Builder
	zones   *spans.Zones // of what is read, if zoned; else memory, or nil
	zoned   bool
	one     [1][]byte
	buf     []byte
}

// Release ends the use of the ranges.
func (r *Ranges) Release() {
	if r.builder != nil {
		r.builder.Release()
	}
	clear(r.Spans)
	if r.zoned {
		r.zones.Reset()
	}
	*r = Ranges{Spans: r.Spans[:0], buf: r.buf[:0], zones: r.zones}
	if cap(r.Spans) > spans.MaxKeptScratch || cap(r.buf) > spans.MaxKeptScratch {
		*r = Ranges{}
	}
}

// Zoned reports whether rows are read that are tested, so that blocks may be tested, too.
func (r *Ranges) Zoned() bool { return r.zoned && !r.Exact }

// MayHold reports whether a block, or file, with these zones may have a row for which Residual is
// true. Requires: Zoned.
func (r *Ranges) MayHold(c zone.Columns) bool { return r.zones.MayHold(c) }

// Check returns the error that Bind would return for these values.
func (d *Physical) Check(params []expr.Value) error {
	if d.count == nil && d.offset == nil {
		return d.scope.check(params)
	}
	var r Ranges
	return d.begin(&r, params)
}

// begin checks the values and sets what does not depend on spans.
func (d *Physical) begin(r *Ranges, params []expr.Value) (err error) {
	if err = d.scope.check(params); err != nil {
		return err
	}
	if r.Limit, err = countOf(d.count, params, "LIMIT", -1); err != nil {
		return err
	}
	r.Offset, err = countOf(d.offset, params, "OFFSET", 0)
	return err
}

// Bind sets r to what has to be read for these values. No PKs, without Interval, are nothing.
// ok is false if the values take more than one list of ranges: then Prepared.Bind has to make
// a plan of them. Errors are those of Prepared.Bind.
func (d *Physical) Bind(r *Ranges, params []expr.Value) (ok bool, err error) {
	if err := d.begin(r, params); err != nil {
		return false, err
	}
	params = params[:d.scope.params]
	r.builder = spans.NewBuilder()
	settled := d.path.settle()
	set := r.builder.BuildRanges(settled.template, params, d.scope.opt.MaxSpans)
	r.Exact = set.Exact
	if r.zoned = settled.zones != nil; r.zoned {
		if r.zones == nil {
			r.zones = new(spans.Zones)
		}
		r.zones.Set(settled.zones, params)
	}
	switch {
	case len(set.Spans) == 0:
		r.PKs = nil
		return true, nil
	case d.path.spread() == nil:
		return d.bindRows(r, set), nil
	}
	pks, ok := d.partitions(r, set)
	if !ok || d.Ordered && len(pks) > d.scope.opt.maxStreams() {
		return false, nil
	}
	r.PKs = pks
	for i := range set.Spans {
		r.add(set.Spans[i].Lo, set.Spans[i].Hi)
	}
	return true, nil
}

// add appends a span. Neighbours become one.
func (r *Ranges) add(lo, hi []byte) {
	if k := len(r.Spans); k > 0 && bytes.Equal(r.Spans[k-1].End, lo) {
		r.Spans[k-1].End = hi
		return
	}
	r.Spans = append(r.Spans, keycodec.Span{Start: lo, End: hi})
}

// partitions returns the buckets that all spans are in; ok is false if they are in different
// ones.
func (d *Physical) partitions(r *Ranges, set spans.Set) (pks [][]byte, ok bool) {
	x := &d.buckets
	if x.Columns == 0 || x.Count <= 1 {
		return d.pks, true
	}
	if len(set.Spans) == 1 && set.Spans[0].Points >= x.Columns {
		bucket, ok := x.Of(x.Prefix(set.Spans[0].Lo, x.Columns))
		if !ok {
			return nil, true
		}
		r.one[0] = d.pks[bucket]
		return r.one[:], true
	}
	for i := range set.Spans {
		s := &set.Spans[i]
		if s.Points >= x.Columns {
			return nil, false
		}
		if values, few := x.Values(*s); few && 2*values.Len < uint64(x.Count) {
			return nil, false
		}
	}
	return d.pks, true
}

// bindRows reads rows that are spread by their partition keys: those of one partition, or of a
// range of partitions.
func (d *Physical) bindRows(r *Ranges, set spans.Set) (ok bool) {
	pkFields := d.path.key.Fields[:len(d.Table.PK)]
	r.buf = d.Table.AppendRowPrefix(r.buf[:0])
	if first := &set.Spans[0]; first.Points < len(pkFields) {
		_, few := spans.Keys(first, pkFields)
		return len(set.Spans) == 1 && !few && d.bindInterval(r, first)
	}
	var pk []byte
	for i := range set.Spans {
		s := &set.Spans[i]
		if s.Points < len(pkFields) {
			return false
		}
		own, lo := spans.SplitFields(s.Lo, pkFields)
		if i > 0 && !bytes.Equal(own, pk) {
			return false
		}
		pk = own
		if len(d.Table.SK) > 0 {
			var hi []byte
			if bytes.HasPrefix(s.Hi, pk) {
				hi = s.Hi[len(pk):]
			}
			r.add(lo, hi)
		}
	}
	r.buf = append(r.buf, pk...)
	r.one[0] = r.buf
	r.PKs = r.one[:]
	return true
}

// bindInterval reads the rows of a range of partitions.
func (d *Physical) bindInterval(r *Ranges, s *spans.Span) bool {
	prefix := len(r.buf)
	r.buf = append(r.buf, s.Lo...)
	from := len(r.buf)
	if s.Hi == nil {
		r.buf, _ = keycodec.PrefixEnd(r.buf, r.buf[:prefix])
	} else {
		r.buf = append(append(r.buf, r.buf[:prefix]...), s.Hi...)
	}
	r.Interval, r.From, r.To = true, r.buf[:from:from], r.buf[from:]
	return true
}
