// Package conjunct takes the terms of an AND, and what a single one says, apart. It knows
// expressions and no queries.
package conjunct

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// Equality takes column = constant, column IS NULL and list contains constant apart. The column has
// the collation of the comparison, which may take more texts for equal than its own does.
func Equality(t expr.Expr, source int) (c expr.Column, operand expr.Expr, ok bool) {
	var x expr.Expr
	switch t := t.(type) {
	case expr.Cmp:
		if _, list := spans.IsList(t.R); t.Op != expr.Eq || list || !spans.IsConstant(t.R) {
			return c, nil, false
		}
		x, operand = t.L, t.R
	case expr.IsNull:
		if t.Not {
			return c, nil, false
		}
		x, operand = t.X, expr.Const{}
	case expr.Contains:
		if !spans.IsConstant(t.Item) {
			return c, nil, false
		}
		x, operand = t.X, t.Item
	default:
		return c, nil, false
	}
	c, ok = x.(expr.Column)
	return c, operand, ok && c.Source == source
}

// List takes column IN (constants) apart.
func List(t expr.Expr, source int) (expr.In, bool) {
	in, ok := t.(expr.In)
	if c, cmp := t.(expr.Cmp); cmp && c.Op == expr.Eq {
		if _, ok = spans.IsList(c.R); ok {
			in = expr.In{X: c.L, List: []expr.Expr{c.R}}
		}
	}
	if !ok || in.Not || len(in.List) == 0 {
		return in, false
	}
	c, ok := in.X.(expr.Column)
	for _, item := range in.List {
		ok = ok && spans.IsConstant(item)
	}
	return in, ok && c.Source == source
}

// PointOn finds a term that leaves one value of column i of a key.
func PointOn(key *spans.Key, i int, terms []expr.Expr) (operand expr.Expr, ok bool) {
	for _, t := range terms {
		if c, x, ok := Equality(t, key.Source); ok && isOf(key, i, c) {
			return x, true
		}
	}
	return nil, false
}

// ListOn finds column i of a key IN (constants).
func ListOn(key *spans.Key, i int, terms []expr.Expr) (in expr.In, ok bool) {
	for _, t := range terms {
		if in, ok := List(t, key.Source); ok && isOf(key, i, in.X.(expr.Column)) {
			return in, true
		}
	}
	return expr.In{}, false
}

// isOf reports whether c is column i of a key, compared as it is in the key.
func isOf(key *spans.Key, i int, c expr.Column) bool {
	return c.Ordinal == key.Ordinals[i] && c.Collation == key.Fields[i].Collation
}

// Restricted returns the column of an atom that spans can use.
func Restricted(e expr.Expr) (ordinal int, ok bool) {
	var x expr.Expr
	switch e := e.(type) {
	case expr.Cmp:
		if !spans.IsConstant(e.R) || e.Op == expr.Ne {
			return 0, false
		}
		x = e.L
	case expr.In:
		if e.Not {
			return 0, false
		}
		x = e.X
	case expr.BeginsWith:
		x = e.X
	case expr.Like:
		if !spans.OpenLike(e) {
			return 0, false
		}
		x = e.X
	case expr.IsNull:
		x = e.X
	case expr.Contains:
		x = e.X
	}
	c, ok := x.(expr.Column)
	return c.Ordinal, ok
}
