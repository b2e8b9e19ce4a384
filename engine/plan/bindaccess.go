package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// operator returns what is read of a path whatever the values are.
func (p *path) operator() *Access {
	out := &Access{
		Step:        operator.Step{Elements: p.layout, Expected: p.estimate},
		SourceTable: p.rel.sourceTable(),
		Index:       p.index, Key: p.key, Reverse: p.reverse, Ordered: p.ordered, Order: p.order,
		Point: p.point, Covering: p.covering, KeysOnly: p.keysOnly, Limit: p.limit,
		FullScan: p.fullScan, Reads: p.reads,
	}
	if p.skip != nil {
		out.Skip = &operator.Skip{Columns: p.skip.columns}
	}
	return out
}

// access makes spans and streams of the predicate and the parameters.
func (b *binder) access(p *path) (Node, error) {
	out := p.operator()
	terms, pred, own := b.terms(p)
	if p.probe != nil {
		p.test(out, p.filtersOf(terms, own))
		out.Probe = &operator.Probe{Exprs: b.exprs(p.probe), Unique: p.unique}
		return out, nil
	}
	if b.isPending(terms) {
		out.Deferred = true
		p.test(out, p.filtersOf(terms, own))
		return out, nil
	}
	template, zones := (*spans.Template)(nil), (*spans.ZoneTemplate)(nil)
	if pred == nil {
		s := p.settle()
		template, zones = s.template, s.zones
	} else {
		template, zones = spans.Compile(p.key, pred), p.zonesOf(terms, pred)
	}
	fixed, ordered := (*boundPath)(nil), true
	if own && !b.never {
		fixed = p.settled.fixed.Load()
	}
	if fixed != nil {
		out.Spans, out.Streams = fixed.spans, fixed.streams
		p.test(out, fixed.tests)
	} else {
		out.Spans = b.builder.Build(template, b.params, b.opt.MaxSpans).Clone()
		if b.never {
			out.Spans.Spans = nil
		}
		p.setFilters(out, terms, own)
		out.Streams, ordered = p.streamsOf(out.Spans, b.opt.maxStreams())
		out.Streams = p.inBuckets(out.Streams, b.params)
		if ordered && own && !b.never && template.Fixed() && len(p.bucketTerms()) == 0 {
			p.settled.fixed.Store(&boundPath{out.Spans, out.Streams,
				filters{out.Filter, out.Residual}})
		}
	}
	out.Zones, out.Merge = b.boundZones(out, zones), p.merges(out.Streams)
	if p.skip != nil && p.skip.template != nil {
		b.skip(out, p.skip)
	}
	if ordered {
		return out, nil
	}
	// The order cannot be had from these streams, so a sort makes it, and the limit of a
	// first or last row applies after it.
	limit := out.Limit
	out.Ordered, out.Merge, out.Order, out.Limit = false, false, nil, -1
	step := operator.Step{Elements: p.layout, Expected: p.estimate}
	return &Sort{Unary: over(step, out), Keys: p.sortKeys(), Limit: limit}, nil
}

// terms returns the terms that values make of those of a path, and as one if they are others; own
// says that they are those of the path.
func (b *binder) terms(p *path) (terms []expr.Expr, pred expr.Expr, own bool) {
	resumes := p.takesAfter && b.after != nil
	if !b.lists && !resumes {
		return p.pred, nil, true
	}
	terms = make([]expr.Expr, 0, len(p.pred)+1)
	for _, t := range p.pred {
		terms = append(terms, b.expr(t))
	}
	if resumes {
		terms = append(terms, rowsAfter(OrderExprs(b.order), b.order, b.after))
	}
	if !b.onlyPending(terms) {
		pred = spans.NormaliseFor(expr.AllOf(terms), p.rel.info, nil)
		terms = expr.Terms(nil, pred)
	}
	return terms, pred, false
}

// onlyPending reports whether terms wait for values of subqueries, and nothing else in them is a
// list: they are normal then.
func (b *binder) onlyPending(terms []expr.Expr) bool {
	return b.isPending(terms) && !b.listed && b.after == nil
}

// skip makes the ranges after each value of the skipped columns.
func (b *binder) skip(n *Access, s *skipPath) {
	set := b.builder.Build(s.template, b.params, b.opt.MaxSpans).Clone()
	n.Skip = &operator.Skip{Columns: s.columns, Spans: set, Ranges: []spans.Range{}}
	for _, r := range set.Spans {
		n.Skip.Ranges = append(n.Skip.Ranges, spans.Range{Lo: r.Lo, Hi: r.Hi})
	}
	if n.Reverse {
		slices.Reverse(n.Skip.Ranges)
	}
}

// setFilters tests what is left of the predicate. If the spans leave different things to
// test, all of it is tested everywhere.
func (p *path) setFilters(n *Access, terms []expr.Expr, own bool) {
	if n.Spans.Exact || len(n.Spans.Spans) == 0 {
		return
	}
	left := n.Spans.Spans[0].Residual
	for _, s := range n.Spans.Spans[1:] {
		if left == nil || s.Residual == nil || !expr.Equal(left, s.Residual) {
			left = nil
			break
		}
	}
	if left == nil {
		p.test(n, p.filtersOf(terms, own))
		return
	}
	p.test(n, p.split(expr.Terms(nil, left)))
}

// test makes an access test entries and rows. Rows are fetched for a test of what no entry has.
func (p *path) test(n *Access, f filters) {
	if n.Filter, n.Residual = f.entryPart, f.rowPart; n.Residual != nil && p.index != nil {
		n.Covering, n.KeysOnly = false, false
	}
}

// sortKeys is the order of the path over its slots.
func (p *path) sortKeys() (keys []Order) {
	for _, o := range p.order {
		e := toSlots(p.q.column(o.Source, o.Ordinal), p.layout)
		if _, ok := e.(expr.Slot); !ok {
			break // no order by it is needed
		}
		keys = append(keys, Order{Expr: e, Desc: o.Desc, NullsLast: o.NullsLast})
	}
	return keys
}

func (o *Options) maxStreams() int {
	if o.MaxStreams > 0 {
		return o.MaxStreams
	}
	return defaultMaxStreams
}

const defaultMaxStreams = 4096
