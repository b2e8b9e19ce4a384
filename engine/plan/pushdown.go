package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
)

// pushDown moves what is tested on the rows of a query of FROM into it: through its columns, and
// into each of several whose rows follow each other. A LIMIT stops that, since it counts the rows
// before, and so does a group, except for terms on what all rows of a group have in common.
//
// Columns that are not needed are not computed.
//
// Requires: distribute was called, and the query of FROM is not planned yet.
func (q *query) pushDown(r *relation) {
	r.pred = slices.DeleteFunc(r.pred, func(t expr.Expr) bool {
		var inside []expr.Expr
		for _, s := range r.sub.all() {
			x := s.query.inside(t, r.source)
			if x == nil {
				return false
			}
			inside = append(inside, x)
		}
		for i, s := range r.sub.all() {
			part := s.query
			part.correlated = part.correlated || q.scope.hasArgument(inside[i])
			part.where = expr.Terms(part.where, part.normalise(inside[i]))
		}
		return true
	})
	need := r.need
	need.ordinals = slices.Clone(need.ordinals)
	for _, t := range r.pred {
		addColumns(&need, t, r.source)
	}
	for _, s := range r.sub.all() {
		if s.query.sel.Distinct {
			return
		}
	}
	for _, s := range r.sub.all() {
		outputs := slices.Clone(s.query.outputs)
		for i := range outputs {
			if _, found := slices.BinarySearch(need.ordinals, i); !found {
				outputs[i].Expr = expr.Const{}
			}
		}
		s.query.outputs = outputs
	}
}

// inside returns a term on the results of a query as one on its rows, nil if it can be tested on
// results only.
func (q *query) inside(t expr.Expr, source int) expr.Expr {
	if q.limit != nil || q.offset != nil || q.page {
		return nil
	}
	columns, ok := 0, true
	out := expr.MapColumns(t, func(c expr.Column) expr.Expr {
		if columns++; c.Source != source {
			ok = false
			return c
		}
		o := q.outputs[c.Ordinal].Expr
		same := func(g expr.Expr) bool { return expr.Equal(g, o) }
		// A condition under another collation is another condition.
		ok = ok && expr.CollationOf(o) == c.Collation &&
			(!q.grouped || slices.ContainsFunc(q.groups, same))
		return o
	})
	if !ok || columns == 0 {
		return nil
	}
	return out
}
