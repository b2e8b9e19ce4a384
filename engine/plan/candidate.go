package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
)

// candidate is a way to read one or more relations, with what matters to the steps above.
type candidate struct {
	node  Node
	set   uint64 // relations that are in it
	order []operator.OrderColumn
	total bool
	path  *path // of the only relation, nil otherwise
	// distinct is the semi join whose right side was made unique to stand on the left.
	distinct *relation
	// finished is the whole plan without gates, nil if it is not made yet.
	finished Node
}

// expected is the estimate of the node, which a path has before it has one.
func (c *candidate) expected() operator.Estimate {
	if c.node == nil {
		return c.path.expected()
	}
	return c.node.Estimate()
}

func (c *candidate) cost() float64 { return c.expected().Cost }

func (c *candidate) rows() float64 { return max(c.expected().Rows, 0.001) }

// expected is the estimate of the node that access returns.
func (p *path) expected() operator.Estimate {
	out := p.estimate
	if p.repeats {
		out.Cost += out.Rows * p.q.costs().Hash
	}
	return out
}

// access returns the node for a path: itself, which is not changed any more.
func (p *path) access() Node {
	p.settled = new(settled)
	if !p.repeats {
		return p
	}
	s := operator.Step{Elements: p.layout, Expected: p.expected()}
	return &Union{Step: s, Inputs: []Node{p}}
}

// Layout implements Node.
func (p *path) Layout() []ColumnRef { return p.layout }

// Estimate implements Node.
func (p *path) Estimate() operator.Estimate { return p.estimate }

// Children implements Node.
func (p *path) Children() []Node { return nil }

// Actual implements Node. What Bind makes of the path has counters, not the path.
func (p *path) Actual() *operator.Actual { return nil }

func (r *relation) sourceTable() operator.SourceTable {
	return operator.SourceTable{Source: r.source, Table: r.table, Name: r.name}
}

func (q *query) costs() *Costs {
	if c := q.scope.opt.Costs; c != nil {
		return c
	}
	return &DefaultCosts
}

// estimatorOf returns the estimator of a relation for the query, one while that is planned.
func (q *query) estimatorOf(r *relation) *estimate.Estimator {
	if r.parts == nil {
		r.parts = new(pathParts).begin()
	}
	if r.parts.estimator == nil {
		r.parts.estimator = newEstimator(r, &q.scope.opt)
	}
	return r.parts.estimator
}

func newEstimator(r *relation, opt *Options) *estimate.Estimator {
	switch {
	case r.table == nil:
		return estimate.ForSubquery(r.sub.tree.Estimate().Rows, opt.Values)
	case opt.Stats == nil:
		return estimate.ForTable(r.table, nil, opt.Values).WithLists(opt.listRows).
			WithShare(opt.share).WithLive(opt.live)
	}
	return estimate.ForTable(r.table, opt.Stats.Table(r.table), opt.Values).
		WithLists(opt.listRows).WithShare(opt.share).WithLive(opt.live)
}

// candidates returns the ways to read a relation: the cheapest one, and the cheapest one
// for each order that is wanted.
func (q *query) candidates(r *relation, wants []want) ([]candidate, error) {
	if r.table == nil {
		return []candidate{{node: r.filtered(q), set: 1 << r.source}}, nil
	}
	var room [usualIndexes]*schema.Index
	indexes, err := q.usable(room[:0], r)
	if err != nil {
		return nil, err
	}
	e := q.estimatorOf(r)
	paths := make([]*path, 0, len(indexes)+1)
	tested := r.tested()
	for _, x := range indexes {
		if x != nil && len(indexes) > 1 && !r.mayUse(x, tested, wants) {
			continue
		}
		p := q.newPath(r, x, false)
		if p.findPoint() {
			if paths = append(paths, p); x == nil {
				break // nothing is better than the row itself
			}
			continue
		}
		paths = q.variants(paths, p, wants, e.Rows())
		paths = append(paths, q.skipRanges(p, e)...)
		if s := p.shallow(e); s != nil {
			paths = append(paths, s)
		}
	}
	if points := slices.IndexFunc(paths, func(p *path) bool { return p.point }); points >= 0 {
		paths = bestPoint(paths)
	}
	paths = append(paths, q.skipGroups(paths)...)
	all := make([]candidate, 0, len(paths))
	for _, p := range paths {
		p.price(e, q.costs())
	}
	q.priceAgain(r, e, paths)
	for _, p := range paths {
		all = append(all, candidate{set: 1 << r.source, order: p.order, total: p.total, path: p})
	}
	if !paths[0].point {
		all = append(all, q.unions(r, e, indexes, paths)...)
		all = append(all, q.intersections(r, e, paths)...)
		all = append(all, q.keeps(r, e)...)
	}
	if all, err = q.refuse(r, e, all); err != nil {
		return nil, err
	}
	wanted := -1.0
	if len(q.rels) == 1 {
		wanted = float64(q.constantCount(q.limit, -1))
	}
	all = prune(all, wanted)
	for i := range all {
		if c := &all[i]; c.node == nil {
			c.node = c.path.access()
		}
	}
	q.spare = nil
	return all, nil
}

// What is assumed of a subquery that is run for rows, and the most rows that are worth keeping.
const (
	assumedRuns = 30
	maxKept     = 10_000
)

// keeps returns the candidate that keeps the rows of a relation for all runs of the query, if it is
// run for the rows of another one: without the terms that are different in each run.
func (q *query) keeps(r *relation, e *estimate.Estimator) []candidate {
	if !q.repeated() || q.refusesFullScan() {
		return nil
	}
	inner := *r
	inner.pred, inner.need = nil, need{slices.Clone(r.need.ordinals), r.need.rowKey}
	var different []expr.Expr
	for _, t := range r.pred {
		if q.scope.hasArgument(t) {
			different = append(different, t)
			addColumns(&inner.need, t, r.source)
		} else {
			inner.pred = append(inner.pred, t)
		}
	}
	var room [usualIndexes]*schema.Index
	indexes, err := q.usable(room[:0], &inner)
	if err != nil {
		return nil
	}
	var best *path
	for _, x := range indexes {
		p := q.newPath(&inner, x, false)
		p.price(e, q.costs())
		if best == nil || p.estimate.Cost < best.estimate.Cost {
			best = p
		}
	}
	if best == nil || best.rows > maxKept {
		return nil
	}
	n := q.keep(best.access())
	if len(different) > 0 {
		s := operator.Step{Elements: n.Layout(), Expected: n.Estimate()}
		s.Expected.Cost += s.Expected.Rows * q.costs().Test * float64(len(different))
		s.Expected.Rows = estimate.Clamp(e.Rows() * e.Selectivity(r.pred))
		n = &Filter{Unary: over(s, n), Pred: toSlots(expr.AllOf(different), s.Elements)}
	}
	return []candidate{{node: n, set: 1 << r.source}}
}

// keep keeps the rows of a node.
func (q *query) keep(n Node) Node {
	s := operator.Step{Elements: n.Layout(), Expected: n.Estimate()}
	s.Expected.Startup = s.Expected.Cost / assumedRuns
	s.Expected.Cost = s.Expected.Startup + s.Expected.Rows*q.costs().Test
	return &Keep{Unary: over(s, n)}
}

// repeated reports whether a query is run for the rows of another one.
func (q *query) repeated() bool {
	for ; q != nil; q = q.holder {
		if q.isApplied {
			return true
		}
	}
	return false
}

// hasArgument reports whether an expression has an argument of a subquery.
func (sc *scope) hasArgument(e expr.Expr) bool {
	return expr.Has(e, func(x expr.Expr) bool {
		p, ok := x.(expr.Param)
		return ok && sc.arguments[p.Index]
	})
}

// manyListed is from which length on the values of a list may be more than the entries that are
// tested for them instead.
const manyListed = 8

// shallow returns a path that reads what the first columns of the key leave, and tests entries for
// the list of the next one, nil if there is no long list: few entries are read faster than they
// are searched for many values.
func (p *path) shallow(e *estimate.Estimator) *path {
	if p.index == nil || p.index.Buckets() > 1 || p.repeats {
		return nil
	}
	for i := range p.key.Ordinals {
		if in, ok := conjunct.ListOn(&p.key, i, p.pred); ok {
			if i == 0 || e.Length(in.List) < manyListed {
				return nil
			}
			s := *p
			s.key.Fields, s.key.Ordinals = p.key.Fields[:i:i], p.key.Ordinals[:i:i]
			return &s
		}
		if _, ok := conjunct.PointOn(&p.key, i, p.pred); !ok {
			return nil
		}
	}
	return nil
}

// tested returns the columns that the relation's own terms are about.
func (r *relation) tested() (s schema.ColumnSet) {
	for _, t := range r.pred {
		s.Union(r.columnsOf(t))
	}
	return s
}

// mayUse reports whether an index can be better than the rows: by a condition on one of its
// columns, an order or groups by one, or because it has all columns.
func (r *relation) mayUse(x *schema.Index, tested schema.ColumnSet, wants []want) bool {
	for _, c := range x.Columns {
		if tested.Has(c.Ordinal) || slices.ContainsFunc(wants, func(w want) bool {
			return slices.Contains(w.group, c.Ordinal) ||
				slices.ContainsFunc(w.order, func(o operator.OrderColumn) bool {
					return o.Source == r.source && o.Ordinal == c.Ordinal
				})
		}) {
			return true
		}
	}
	all := schema.Columns(r.need.ordinals...)
	all.Union(tested)
	return x.Where != nil || all.Within(x.Covers())
}

// bestPoint keeps one point: the row itself if it can be, else an index that covers.
func bestPoint(paths []*path) []*path {
	var best *path
	for _, p := range paths {
		if p.point && (best == nil || best.index != nil && !best.covering && p.covering) {
			best = p
		}
	}
	return []*path{best}
}

// refuse drops candidates that read a whole table, if that is forbidden.
func (q *query) refuse(r *relation, e *estimate.Estimator, all []candidate) ([]candidate, error) {
	if !q.refusesFullScan() {
		return all, nil
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.path != nil && c.path.fullScan })
	if len(all) == 0 {
		return nil, &FullScanError{Table: r.name, Rows: e.Rows()}
	}
	return all, nil
}

func (q *query) refusesFullScan() bool {
	if q.scope.opt.RefuseFullScan {
		return true
	}
	for o := q; o != nil; o = o.outer {
		if o.sel.Hints.RefuseFullScan {
			return true
		}
	}
	return false
}

// prune keeps the cheapest candidate, that with the cheapest first rows, if so many are wanted
// (negative: all), and those with an order that no cheaper one has: of skip scans that may cost
// more, and of all others.
func prune(all []candidate, wanted float64) []candidate {
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.cost(), b.cost()) })
	kept := all[:0:0]
	if wanted < 0 {
		kept = all[:0]
	}
	for _, c := range all {
		have := false
		for _, k := range kept {
			have = have || k.doubtful() == c.doubtful() && (len(c.order) == 0 && !c.bucketed() ||
				slices.Equal(k.order, c.order) && k.bucketed() == c.bucketed() &&
					k.expected().Startup <= c.expected().Startup)
		}
		if !have {
			kept = append(kept, c)
		}
	}
	if wanted < 0 || len(all) == 0 {
		return kept
	}
	first := func(c candidate) float64 {
		if c.path != nil && c.path.skip != nil {
			return math.Inf(1) // they may be of its last groups
		}
		e := c.expected()
		return e.FirstRows(wanted)
	}
	soonest := slices.MinFunc(all, func(a, b candidate) int {
		return cmp.Compare(first(a), first(b))
	})
	if !slices.ContainsFunc(kept, func(k candidate) bool {
		return k.node == soonest.node && k.path == soonest.path
	}) {
		kept = append(kept, soonest)
	}
	return kept
}

// doubtful reports whether a skip scan may cost more than is expected.
func (c *candidate) doubtful() bool {
	return c.path != nil && c.path.skip != nil && c.path.whole > c.path.estimate.Cost
}

// bucketed says whether groups could be made bucket by bucket.
func (c *candidate) bucketed() bool {
	p := c.path
	return p != nil && p.q.grouped && !p.ordered && p.sharded()
}

// filtered returns the tree of a relation that is a subquery, with its own terms on top.
func (r *relation) filtered(q *query) Node {
	n := r.sub.tree
	layout := make([]ColumnRef, len(r.sub.query.outputs))
	for i, o := range r.sub.query.outputs {
		layout[i] = ColumnRef{Source: r.source, Ordinal: i, Name: o.Name}
	}
	s := operator.Step{Elements: layout, Expected: n.Estimate()}
	var out Node = &Derived{Unary: over(s, n)}
	correlated := func(s *subquery) bool { return s.query.correlated }
	if q.repeated() && s.Expected.Rows <= maxKept && !slices.ContainsFunc(r.sub.all(), correlated) {
		out = q.keep(out)
		s.Expected = out.Estimate()
	}
	if pred := expr.AllOf(r.pred); pred != nil {
		s.Expected.Rows *= q.estimatorOf(r).Selectivity(r.pred)
		out = &Filter{Unary: over(s, out), Pred: toSlots(pred, layout)}
	}
	return out
}

// findPoint recognises a path whose every column of a unique key is fixed by equality.
func (p *path) findPoint() bool {
	if p.index != nil && (!p.index.Unique || p.repeats) {
		return false
	}
	var operands []expr.Expr
	for i := range p.own {
		found := false
		for _, t := range p.pred {
			c, ok := t.(expr.Cmp)
			if !ok || c.Op != expr.Eq || !spans.IsConstant(c.R) {
				continue
			}
			if _, list := spans.IsList(c.R); list {
				continue
			}
			column, ok := c.L.(expr.Column)
			if ok && column.Ordinal == p.key.Ordinals[i] && column.Source == p.rel.source &&
				column.Collation == p.key.Fields[i].Collation {
				operands, found = append(operands, c.R), true
				break
			}
		}
		if !found {
			return false
		}
	}
	p.point, p.operands = true, operands
	return true
}
