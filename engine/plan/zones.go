package plan

import (
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// zonesOf returns the template of what blocks are tested for, nil if they are not. pred is the
// terms as one.
//
// Invariant: entries are tested for terms that their filter has. Why: an older entry that shows
// because the block of a newer one was left out has to be dropped before its row is fetched, which
// may be another one by now, or gone.
func (p *path) zonesOf(terms []expr.Expr, pred expr.Expr) *spans.ZoneTemplate {
	if p.index != nil {
		if terms = p.entryTerms(terms); len(terms) > 0 {
			pred = expr.AllOf(terms)
		}
	}
	if p.point || p.probe != nil || p.skip != nil || len(terms) == 0 {
		return nil
	}
	return spans.CompileZones(p.rel.table, p.index, p.rel.source, pred, p.selected(terms))
}

// priceAgain prices the paths of a relation again, if more is known now: what zones leave of rows,
// or of entries, is all that a scan reads, and no path finds more rows than are in the ranges of
// one of them, or than zones leave.
func (q *query) priceAgain(r *relation, e *estimate.Estimator, paths []*path) {
	if !e.Counts() {
		return
	}
	found := r.foundBy(e)
	for _, p := range paths {
		if p.index != nil && p.scan.Bounded && p.skip == nil && !p.point && !p.repeats {
			r.foundAtMost(e.Entries(p.index) * p.scan.Fraction)
		}
	}
	if zoned := q.askZones(e, paths); !zoned && r.found.rows == found {
		return
	}
	for _, p := range paths {
		p.priceOf(e, q.costs())
	}
}

// askZones finds the share of the rows, or entries, that zones leave to scans, and reports whether
// there is less than all to one. Why only if the cheapest path by another key costs more than such
// a scan at best: blocks are tested for it.
func (q *query) askZones(e *estimate.Estimator, paths []*path) (zoned bool) {
	c := q.costs()
	for i, p := range paths {
		if !p.mayBeZoned() {
			continue
		}
		least, same := math.Inf(1), i
		for j, other := range paths {
			switch {
			case other.index != p.index:
				least = min(least, other.estimate.Cost)
			case j < same && other.mayBeZoned():
				same = j
			}
		}
		seeks := p.scan.Ranges * p.scan.Buckets
		best := e.Entries(p.index)*p.scan.Fraction*c.Zone + p.seekCost(e, c, seeks)
		switch {
		case same < i && paths[same].left < 1: // it reads the same
			p.left = paths[same].left
		case same == i && best < least:
			p.left = p.zoned(e)
		}
		zoned = zoned || p.left < 1
		if p.index == nil && p.left < surelyLeft && e.Rows()*e.EntryBytes(nil) >= surelyBytes {
			p.rel.foundAtMost(max(leastHeld, e.Rows()*p.scan.Fraction*p.left))
		}
	}
	return zoned
}

// What zones leave bounds what is found if it is less than surelyLeft of a table of surelyBytes or
// more. Why: of few blocks in a stripe, those at its ends count in part.
const (
	surelyLeft  = 0.5
	surelyBytes = 8 << 20
)

// leastHeld is how many rows zones are taken to leave at least: one of 32 stripes is asked.
const leastHeld = 32

// mayBeZoned reports whether all rows are read, or so many entries that it is worth testing some
// blocks.
func (p *path) mayBeZoned() bool {
	if p.skip != nil || p.point || p.repeats {
		return false
	}
	return p.index == nil && !p.scan.Bounded || p.reads >= leastZoned
}

// leastZoned is from how many entries, and rows that are fetched for them, on a scan of an index is
// priced with zones, if it has at most maxZoned spans.
const (
	leastZoned = 1000
	maxZoned   = 4
)

// zoned returns the share of the rows, or entries, that zones leave, 1 if it is not known.
func (p *path) zoned(e *estimate.Estimator) float64 {
	pred := expr.AllOf(p.pred)
	if pred == nil || p.probe != nil {
		return 1
	}
	given := p.q.scope.opt.Values
	if expr.Has(pred, func(x expr.Expr) bool {
		v, ok := x.(expr.Param)
		return ok && (v.Index >= len(given) || given[v.Index].IsNull())
	}) {
		return 1
	}
	var z spans.Zones
	if z.Set(p.zonesOf(p.pred, pred), given); !z.Bind() {
		return 1
	}
	if p.index == nil && !p.scan.Bounded {
		return e.Left(nil, []spans.Span{{}}, z.MayHold)
	}
	b := spans.NewBuilder()
	defer b.Release()
	set := b.BuildRanges(spans.Compile(p.key, pred), given, maxZoned+1)
	if set.Truncated || len(set.Spans) > maxZoned {
		return 1
	}
	return e.Left(p.index, set.Spans, z.MayHold)
}

// selected returns the columns that keys are selected by: those that are equal to something, and
// the next one.
func (p *path) selected(terms []expr.Expr) []int {
	n := 1
	for n < len(p.key.Ordinals) && slices.ContainsFunc(terms, func(t expr.Expr) bool {
		c, ok := t.(expr.Cmp)
		if !ok || c.Op != expr.Eq {
			return false
		}
		column, ok := c.L.(expr.Column)
		return ok && column.Ordinal == p.key.Ordinals[n-1]
	}) {
		n++
	}
	return p.key.Ordinals[:n]
}

// boundZones returns the predicate for the parameters, nil if blocks are not tested.
func (b *binder) boundZones(n *Access, t *spans.ZoneTemplate) *spans.Zones {
	tested := n.Residual
	if n.Index != nil {
		tested = n.Filter
	}
	if t == nil || n.Spans.Empty() || tested == nil || n.Point {
		return nil
	}
	z := new(spans.Zones)
	z.Set(t, b.params)
	if len(b.arguments) > 0 { // which are others in the next run
		z.Bind()
	}
	return z
}
