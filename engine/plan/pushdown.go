package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
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

// comparesTexts reports whether all collated columns of a term are operands of comparisons, so that
// the term has the same value for texts that are equal under their collation. Others may be true of
// some rows of a group only, and cut it.
func comparesTexts(t expr.Expr) bool {
	open := 0
	count := func(by int, operands ...expr.Expr) {
		for _, e := range operands {
			if c, ok := e.(expr.Column); ok && c.Collation != keycodec.CollateBytes {
				open += by
			}
		}
	}
	expr.Walk(t, func(x expr.Expr) bool {
		switch x := x.(type) {
		case expr.Column:
			count(1, x)
		case expr.Cmp:
			count(-1, x.L, x.R)
		case expr.IsDistinct:
			count(-1, x.L, x.R)
		case expr.In:
			count(-1, x.X)
		case expr.Between:
			count(-1, x.X)
		case expr.Like:
			count(-1, x.X)
		case expr.BeginsWith:
			count(-1, x.X)
		case expr.IsNull:
			count(-1, x.X)
		}
		return true
	})
	return open == 0
}

// inside returns a term on the results of a query as one on its rows, nil if it can be tested on
// results only.
func (q *query) inside(t expr.Expr, source int) expr.Expr {
	if q.limit != nil || q.offset != nil || q.page ||
		(q.grouped || q.sel.Distinct) && !comparesTexts(t) {
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
