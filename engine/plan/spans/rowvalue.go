package spans

import "github.com/kstonedb/kstone/engine/expr"

// rows normalises the comparison of rows of equal length. They compare like one value:
//
//	(a, b) > (x, y)  is  a > x OR (a = x AND b > y)
//
// and are unknown where a NULL stands before the first pair that differs.
func (n *normaliser) rows(op expr.Op, l, r []expr.Expr) expr.Expr {
	last := len(l) - 1
	switch {
	case op == expr.Eq || op == expr.Ne:
		terms := make([]expr.Expr, len(l))
		for i := range l {
			terms[i] = n.pair(op, l[i], r[i])
		}
		return junction(terms, op == expr.Eq)
	case last == 0:
		return n.pair(op, l[0], r[0])
	}
	strict := op
	switch op {
	case expr.Le:
		strict = expr.Lt
	case expr.Ge:
		strict = expr.Gt
	}
	out := n.pair(op, l[last], r[last])
	for i := last - 1; i >= 0; i-- {
		tie := junction([]expr.Expr{n.pair(expr.Eq, l[i], r[i]), out}, true)
		out = junction([]expr.Expr{n.pair(strict, l[i], r[i]), tie}, false)
	}
	return out
}

func (n *normaliser) pair(op expr.Op, l, r expr.Expr) expr.Expr {
	return n.comparison(expr.Cmp{Op: op, L: l, R: r}, true)
}

// KeyTerm is one column of an order and the value at which to go on.
type KeyTerm struct {
	Column expr.Expr
	Value  expr.Value
	Desc   bool
	// NullsLast puts NULLs after all values; otherwise they stand before them.
	NullsLast bool
	// Nullable says that the column may be NULL.
	Nullable bool
}

// After returns the condition, normalised, that a row comes after the given values in the
// order of the terms: what keyset paging asks for. Directions may be mixed, and NULLs are
// where the order has them. Over an index in the same order it is two adjacent ranges.
func After(terms []KeyTerm) expr.Expr {
	out := False
	for i := len(terms) - 1; i >= 0; i-- {
		t := &terms[i]
		tie := junction([]expr.Expr{t.equal(), out}, true)
		out = junction([]expr.Expr{t.behind(), tie}, false)
	}
	return out
}

func (t *KeyTerm) equal() expr.Expr {
	if t.Value.IsNull() {
		return expr.IsNull{X: t.Column}
	}
	return expr.Cmp{Op: expr.Eq, L: t.Column, R: expr.Const{Value: t.Value}}
}

// behind is the condition that the column alone decides.
func (t *KeyTerm) behind() expr.Expr {
	switch {
	case t.Value.IsNull() && t.NullsLast:
		return False
	case t.Value.IsNull():
		return expr.IsNull{X: t.Column, Not: true}
	}
	op := expr.Gt
	if t.Desc {
		op = expr.Lt
	}
	values := expr.Expr(expr.Cmp{Op: op, L: t.Column, R: expr.Const{Value: t.Value}})
	if t.NullsLast && t.Nullable {
		return junction([]expr.Expr{values, expr.IsNull{X: t.Column}}, false)
	}
	return values
}
