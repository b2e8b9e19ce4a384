package plan

import (
	"bytes"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// Direct is the short way of a query that reads ranges of one index, or of the rows, and does
// nothing above that but cut the result: no tree that is made anew for each execution. It is
// immutable.
type Direct struct {
	Table *schema.Table
	Index *schema.Index // nil: the rows
	// Covering says that entries have all columns that are used.
	Covering bool
	// Ordered says that rows come in the order of the sort keys over all partitions, with
	// Reverse the other way round; otherwise in any order.
	Ordered, Reverse bool
	// Filter is what entries, and Residual what rows are tested for, unless the ranges are
	// exact. Columns have source 0 and the ordinals of the table. Nil accepts all.
	Filter, Residual expr.Expr
	// Columns are those of the result, by their ordinals.
	Columns []int

	scope         *scope
	path          *path
	count, offset expr.Expr
	buckets       Buckets
	pks           [][]byte // of all buckets, ascending
}

// maxDirectBuckets bounds the partitions of an index whose keys a Direct keeps.
const maxDirectBuckets = 1024

// Direct returns the short way of a query that reads ranges, nil if it is another one.
func (p *Prepared) Direct() *Direct { return p.direct }

// findDirect recognises the shape that Direct is for.
func (p *Prepared) findDirect() {
	q := p.q
	if len(q.rels) != 1 || q.grouped || q.sel.Distinct || q.page || q.sel.RowKeys ||
		len(p.subs) > 0 || len(q.scope.listed) > 0 || q.outer != nil {
		return
	}
	d := &Direct{scope: q.scope}
	n := p.root
	if project, ok := n.(*Project); ok {
		n = project.Input
	}
	if limit, ok := n.(*Limit); ok {
		d.count, d.offset, n = limit.count, limit.offset, limit.Input
	}
	a, ok := n.(*Access)
	if !ok || a.Index != nil && a.Index.Buckets() > maxDirectBuckets {
		return
	}
	d.path = a.path
	if w := d.path; w.fixed > 0 || w.skip != nil || w.probe != nil || w.takesAfter ||
		w.limit >= 0 || w.repeats || w.rel.source != 0 || w.need.rowKey {
		return
	}
	for _, o := range q.outputs {
		c, ok := o.Expr.(expr.Column)
		if !ok {
			return
		}
		d.Columns = append(d.Columns, c.Ordinal)
	}
	d.Table, d.Index, d.Covering = a.Table, a.Index, a.Covering
	d.Ordered, d.Reverse = a.Ordered, a.Reverse
	d.divide()
	if d.Index != nil {
		d.buckets = BucketsOf(d.Index)
		for i := range d.Index.Buckets() {
			d.pks = append(d.pks, d.Index.BucketPK(nil, i))
		}
	}
	p.direct = d
}

// divide divides the terms between entries and rows.
func (d *Direct) divide() {
	entry := d.path.entryTerms()
	if d.Index == nil {
		entry = nil
	}
	d.Filter = conjunction(entry)
	d.Residual = conjunction(withoutTerms(d.path.pred, entry))
}

// DirectRanges is what a Direct reads for some values. The zero value is ready; its memory is
// used again.
//
// Ownership: all slices are valid until Release.
type DirectRanges struct {
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

	builder *SpanBuilder
	one     [1][]byte
	buf     []byte
}

// Release ends the use of the ranges.
func (r *DirectRanges) Release() {
	if r.builder != nil {
		r.builder.giveBack()
	}
	clear(r.Spans)
	*r = DirectRanges{Spans: r.Spans[:0], buf: r.buf[:0]}
	if cap(r.Spans) > keptScratch || cap(r.buf) > keptScratch {
		*r = DirectRanges{}
	}
}

// Check returns the error that Bind would return for these values.
func (d *Direct) Check(params []expr.Value) error {
	var r DirectRanges
	return d.begin(&r, params)
}

// begin checks the values and sets what does not depend on spans.
func (d *Direct) begin(r *DirectRanges, params []expr.Value) (err error) {
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
func (d *Direct) Bind(r *DirectRanges, params []expr.Value) (ok bool, err error) {
	if err := d.begin(r, params); err != nil {
		return false, err
	}
	params = params[:d.scope.params]
	r.builder = builders.Get().(*SpanBuilder)
	set := r.builder.buildRanges(d.path.template, params, d.scope.opt.MaxSpans)
	r.Exact = set.Exact
	switch {
	case len(set.Spans) == 0:
		r.PKs = nil
		return true, nil
	case d.Index == nil:
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
func (r *DirectRanges) add(lo, hi []byte) {
	if k := len(r.Spans); k > 0 && bytes.Equal(r.Spans[k-1].End, lo) {
		r.Spans[k-1].End = hi
		return
	}
	r.Spans = append(r.Spans, keycodec.Span{Start: lo, End: hi})
}

// partitions returns the buckets that all spans are in; ok is false if they are in different
// ones.
func (d *Direct) partitions(r *DirectRanges, set SpanSet) (pks [][]byte, ok bool) {
	x := &d.buckets
	if x.Columns == 0 || x.Count <= 1 {
		return d.pks, true
	}
	if len(set.Spans) == 1 && set.Spans[0].Points >= x.Columns {
		bucket, ok := x.Of(x.prefix(set.Spans[0].Lo, x.Columns))
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
		if values, few := x.values(*s); few && 2*values.n < uint64(x.Count) {
			return nil, false
		}
	}
	return d.pks, true
}

// bindRows reads rows: those of one partition, or of a range of partitions.
func (d *Direct) bindRows(r *DirectRanges, set SpanSet) (ok bool) {
	pkFields := d.path.key.Fields[:len(d.Table.PK)]
	r.buf = d.Table.AppendRowPrefix(r.buf[:0])
	if first := &set.Spans[0]; first.Points < len(pkFields) {
		return len(set.Spans) == 1 && d.bindInterval(r, first)
	}
	var pk []byte
	for i := range set.Spans {
		s := &set.Spans[i]
		if s.Points < len(pkFields) {
			return false
		}
		own, lo := splitFields(s.Lo, pkFields)
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
func (d *Direct) bindInterval(r *DirectRanges, s *Span) bool {
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
