package plan

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// variants are what the plans of one query for values of its parameters are made from; a Cache
// keeps them. A Prepared holds for all values, but one plan is not the best for all: a range that
// is a parameter may have a row or all of them. What the values leave of the rows, column by
// column, is their class: values of one class differ by less than a factor of two in each column
// and share a plan.
//
// A class costs some look-ups in histograms. Queries of many columns have more classes than are
// worth planning: the classes of a query that was planned often become coarser, until the plan
// for all values is taken. So is it, after some runs, if ranges are all that is watched and the
// plan is the same whatever they leave.
type variants struct {
	sel     *Select
	opt     Options
	watched []watched
	ranges  bool // nothing but ranges is watched
	planned atomic.Int64
	runs    atomic.Int64 // counted if ranges is set

	mu sync.Mutex
	// resolved are the plans for values of subqueries, by their class. Guarded by mu.
	resolved map[string]*Prepared
}

// watched is what parameters decide about a column: the terms of an AND that compare it.
type watched struct {
	estimator *estimate.Estimator
	terms     []expr.Expr
}

const (
	maxWatched = 8  // columns
	maxClasses = 64 // times that a query is planned before its classes become coarser
	maxCoarser = 5  // times that they do, each to twice the bits
	maxBits    = 99 // the least that is left is 2^-maxBits of the rows

	settledAfter = 8 // runs: a query that is run once or twice is not worth more plans

	maxResolved = 16 // classes of values of subqueries whose plans are kept
)

// Fitting returns a query with the plan for values like these, p itself if they make no
// difference. The result of the query does not depend on it. A cache that keeps nothing returns
// p.
func (c *Cache) Fitting(p *Prepared, params []expr.Value) *Prepared {
	v := p.variants
	if v == nil || c.most <= 0 || len(params) < p.q.scope.params || p.q.scope.params == 0 {
		return p
	}
	coarser := v.planned.Load() / maxClasses
	if coarser > maxCoarser {
		return p
	}
	if v.ranges && v.runs.Add(1) == settledAfter && v.indifferent(p) {
		v.planned.Store((maxCoarser + 1) * maxClasses)
		return p
	}
	var room [16 + maxWatched]byte
	key := binary.AppendUvarint(append(room[:0], keyOfClass, byte(coarser)), p.id)
	key = v.appendClass(key, params, coarser, false)
	fitting := c.fitting(key, p, params)
	if _, risky := fitting.root.(*fallback); !risky {
		return fitting
	}
	// Counting what these values find costs far less than the wrong one of the two plans.
	key = append(key, keyOfCounted)
	return c.fitting(v.appendClass(key, params, coarser, true), p, params)
}

// fitting returns the plan that is kept for a class of values, or plans for these.
func (c *Cache) fitting(key []byte, p *Prepared, params []expr.Value) *Prepared {
	if fitting, ok := c.Get(key).(*Prepared); ok {
		return fitting
	}
	p.variants.planned.Add(1)
	fitting := p.variants.planFor(p, params)
	c.Keep(key, fitting)
	return fitting
}

// shares are what a bound may leave of the rows: almost nothing, to all.
var shares = [...]float64{1e-9, 1e-3, 0.03, 0.2, 1}

// indifferent reports whether a query that one operator answers has the same plan p whatever its
// ranges leave of the rows. Costs are nearly linear in that, so that few shares stand for all.
func (v *variants) indifferent(p *Prepared) bool {
	if p.physical == nil || !v.ranges {
		return false
	}
	for _, share := range shares {
		opt := v.opt
		opt.share = share
		other, err := prepare(v.sel, opt)
		if err != nil || !p.physical.reads(other.physical) {
			return false
		}
	}
	return true
}

// keyOfCounted stands between the class of values by statistics and that by counts.
const keyOfCounted = 0xFF

// appendClass appends the class of values: what they leave of the rows, column by column; counted
// has that counted where it can be.
func (v *variants) appendClass(key []byte, values []expr.Value, coarser int64,
	counted bool) []byte {
	for i := range v.watched {
		w := &v.watched[i]
		e := w.estimator.With(values, counted)
		bits := min(max(-math.Log2(e.Selectivity(w.terms)), 0), maxBits)
		key = append(key, byte(bits)>>coarser)
	}
	return key
}

// planFor plans the query for values, p if it cannot: what it refuses p has been allowed.
func (v *variants) planFor(p *Prepared, values []expr.Value) *Prepared {
	opt := v.opt
	if len(values) == p.q.scope.params { // what subqueries return is not among them
		opt.first = 0
	}
	opt.empty = emptyLists(values, p.q.scope.params)
	opt.Values = make([]expr.Value, len(values))
	for i, value := range values {
		opt.Values[i] = value.Clone()
	}
	fitting, err := prepare(v.sel, opt)
	resolved := len(values) > p.q.scope.params // of the subqueries of p, in their order
	if err != nil || resolved && fitting.q.scope.opt.first != p.q.scope.opt.first {
		return p
	}
	if fitting.resolver = v; fitting.q.scope.opt.first != v.opt.first {
		fitting.resolver = fitting.newVariants(v.sel)
	}
	if fitting.joined == nil {
		fitting.joined = p.joined
	}
	return fitting
}

// fitResolved returns the query with the plan for the values of its parameters and subqueries. They
// are known when the subqueries have run: not before, a list is expected to be of average values.
// Of small tables any plan is good.
func (p *Prepared) fitResolved(values []expr.Value) *Prepared {
	v := p.resolver
	if v == nil || !slices.ContainsFunc(v.watched, func(w watched) bool {
		return w.estimator.Counts() && hasResolved(w.terms, p.q.scope.params)
	}) {
		return p
	}
	var room [16 + maxWatched]byte
	classed := v.appendClass(room[:0], values, 0, false)
	for _, i := range emptyLists(values, p.q.scope.params) {
		classed = binary.AppendUvarint(classed, uint64(i))
	}
	key := string(classed)
	v.mu.Lock()
	defer v.mu.Unlock()
	if fitting := v.resolved[key]; fitting != nil {
		return fitting
	}
	if v.resolved == nil || len(v.resolved) == maxResolved {
		v.resolved = map[string]*Prepared{}
	}
	fitting := v.planFor(p, values)
	v.resolved[key] = fitting
	return fitting
}

// emptyLists returns which values, from that one on, are lists without any.
func emptyLists(values []expr.Value, from int) (at []int) {
	for i := from; i < len(values); i++ {
		if values[i].Kind() == expr.KindList && values[i].Len() == 0 {
			at = append(at, i)
		}
	}
	return at
}

// hasResolved reports whether terms have the value of a subquery: those are the parameters after
// the first so many.
func hasResolved(terms []expr.Expr, params int) bool {
	return slices.ContainsFunc(terms, func(t expr.Expr) bool {
		return expr.Has(t, func(x expr.Expr) bool {
			p, ok := x.(expr.Param)
			return ok && p.Index >= params
		})
	})
}

// watch returns the variants of a query that was planned for no values, nil if values make no
// difference.
func (p *Prepared) watch(sel *Select) *variants {
	opt := p.q.scope.opt
	if opt.Values != nil || p.q.scope.params == 0 && len(p.subs) == 0 ||
		p.physical != nil && p.physical.Point {
		return nil
	}
	return p.newVariants(sel)
}

// newVariants returns the variants of a query whatever it was planned for.
func (p *Prepared) newVariants(sel *Select) *variants {
	v := &variants{sel: sel, opt: p.q.scope.opt, ranges: true}
	v.opt.Values, v.opt.empty = nil, nil
	v.watchQuery(p)
	if len(v.watched) == 0 {
		return nil
	}
	return v
}

func (v *variants) watchQuery(p *Prepared) {
	v.watchRelations(p.q)
	for _, s := range p.subs {
		v.watchQuery(s.prepared)
	}
}

func (v *variants) watchRelations(q *query) {
	for _, r := range q.rels {
		switch {
		case r.table == nil:
			v.watchRelations(r.sub.query)
		case len(q.rels) > 1 || len(r.table.Indexes) > 0:
			v.watchTerms(newEstimator(r, &v.opt), r.pred)
		}
	}
}

// watchTerms adds the columns that the terms of an AND compare with parameters.
func (v *variants) watchTerms(e *estimate.Estimator, terms []expr.Expr) {
	var groups [][]expr.Expr
	var ordinals []int
	for _, t := range terms {
		if or, ok := t.(expr.Or); ok {
			for _, b := range or.Terms {
				v.watchTerms(e, expr.Terms(nil, b))
			}
			continue
		}
		ordinal, ok := conjunct.Restricted(t)
		if !ok {
			continue
		}
		at := 0
		for at < len(ordinals) && ordinals[at] != ordinal {
			at++
		}
		if at == len(ordinals) {
			ordinals, groups = append(ordinals, ordinal), append(groups, nil)
		}
		groups[at] = append(groups[at], t)
	}
	for i, terms := range groups {
		if len(v.watched) < maxWatched && e.Depends(ordinals[i], terms) {
			v.watched = append(v.watched, watched{e, terms})
			v.ranges = v.ranges && !slices.ContainsFunc(terms, isNoRange)
		}
	}
}

// isNoRange reports whether a term is no comparison that bounds a range.
func isNoRange(t expr.Expr) bool {
	c, ok := t.(expr.Cmp)
	_, list := spans.IsList(c.R)
	return !ok || list || c.Op == expr.Eq || c.Op == expr.Ne
}
