package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
)

// joinFacts is what joins ask about a relation again and again: each of it is found once for
// a query.
type joinFacts struct {
	estimator *estimate.Estimator
	rows      float64 // that satisfy the relation's own terms
	constants map[int]bool
	where, on []term // terms of WHERE about the relation and others, and its ON
	ways      []way
	probes    []*path // by each index that may be used, without a probe
}

// way is the candidates for one want of a merge join, nil being none.
type way struct {
	order []operator.OrderColumn
	found []candidate
	err   error
}

// term is a condition with the relations that it is about, as bits.
type term struct {
	expr.Expr
	set uint64
	// equality says that it compares two values, of the relations in l and r.
	equality bool
	l, r     uint64
}

func termOf(e expr.Expr) term {
	t := term{Expr: e}
	if c, ok := e.(expr.Cmp); ok && c.Op == expr.Eq {
		if _, row := c.L.(expr.Row); !row {
			t.equality, t.l, t.r = true, sourcesOf(c.L), sourcesOf(c.R)
			t.set = t.l | t.r
			return t
		}
	}
	t.set = sourcesOf(e)
	return t
}

func termsOf(list []expr.Expr) []term {
	out := make([]term, len(list))
	for i, e := range list {
		out[i] = termOf(e)
	}
	return out
}

// findFacts prepares what the joins ask for.
//
// Requires: distribute was called, and subqueries are planned.
func (q *query) findFacts() {
	q.facts = make([]joinFacts, len(q.rels))
	where := termsOf(q.where)
	for i, r := range q.rels {
		f := &q.facts[i]
		f.estimator = newEstimator(r, &q.scope.opt)
		f.rows = f.estimator.Rows() * f.estimator.Selectivity(r.pred)
		f.constants = r.constants()
		f.on = termsOf(r.on)
		for _, t := range where {
			if t.set>>r.source&1 != 0 || r.kind == Full {
				f.where = append(f.where, t)
			}
		}
	}
}

// waysOf is candidates for one want, or for none, of a relation that is joined.
func (q *query) waysOf(r *relation, order []operator.OrderColumn) ([]candidate, error) {
	f := &q.facts[r.source]
	for i := range f.ways {
		if w := &f.ways[i]; slices.Equal(w.order, order) {
			return w.found, w.err
		}
	}
	var wants []want
	if order != nil {
		wants = []want{{order: order}}
	}
	found, err := q.candidates(r, wants)
	f.ways = append(f.ways, way{order, found, err})
	return found, err
}

// probesOf returns a path of a relation for each index that may be used.
func (q *query) probesOf(r *relation) ([]*path, error) {
	f := &q.facts[r.source]
	if f.probes == nil {
		indexes, err := q.usable(r)
		if err != nil {
			return nil, err
		}
		for _, x := range indexes {
			f.probes = append(f.probes, q.newPath(r, x, false))
		}
	}
	return f.probes, nil
}
