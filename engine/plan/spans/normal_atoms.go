package spans

import (
	"github.com/kstonedb/kstone/engine/expr"
)

// comparison normalises L op R.
func (n *normaliser) comparison(e expr.Cmp, want bool) expr.Expr {
	if !want {
		e.Op = e.Op.Negate()
	}
	l, lrow := e.L.(expr.Row)
	r, rrow := e.R.(expr.Row)
	if lrow && rrow && len(l.Items) == len(r.Items) && len(l.Items) > 0 {
		return n.rows(e.Op, l.Items, r.Items)
	}
	return n.compare(e.Op, n.operand(e.L), n.operand(e.R))
}

// isNormal reports whether a comparison is that of a column with a value of it.
func (n *normaliser) isNormal(e expr.Cmp) bool {
	column, isColumn := e.L.(expr.Column)
	c, isConst := e.R.(expr.Const)
	if !isColumn || !isConst || c.IsNull() {
		return false
	}
	if n.columns == nil {
		return true
	}
	f, ok := n.columns(column.Source, column.Ordinal)
	if !ok {
		return true
	}
	floor, p := Place(&f, c.Value)
	return p == foreign || p == Exact && floor == c.Value
}

// compare returns l op r for operands that are normal already.
func (n *normaliser) compare(op expr.Op, l, r expr.Expr) expr.Expr {
	if IsNull(l) || IsNull(r) {
		return False
	}
	e := expr.Cmp{Op: op, L: l, R: r}
	if isConst(l) && isConst(r) {
		if folded, ok := n.fold(e); ok {
			return n.opaque(folded, true)
		}
	}
	if IsConstant(l) && !IsConstant(r) {
		e = expr.Cmp{Op: op.Swap(), L: r, R: l}
	}
	return n.convert(e)
}

func isConst(e expr.Expr) bool {
	_, ok := e.(expr.Const)
	return ok
}

// convert turns the constant of a comparison into a value of the column.
func (n *normaliser) convert(e expr.Cmp) expr.Expr {
	column, isColumn := e.L.(expr.Column)
	c, isConst := e.R.(expr.Const)
	if !isColumn || !isConst || n.columns == nil {
		return e
	}
	f, ok := n.columns(column.Source, column.Ordinal)
	if !ok {
		return e
	}
	floor, p := Place(&f, c.Value)
	atLeast := e.Op == expr.Gt || e.Op == expr.Ge
	switch p {
	case Exact:
		if floor == c.Value {
			return e
		}
		return expr.Cmp{Op: e.Op, L: e.L, R: expr.Const{Value: floor}}
	case Between:
		switch e.Op {
		case expr.Lt, expr.Le:
			return expr.Cmp{Op: expr.Le, L: e.L, R: expr.Const{Value: floor}}
		case expr.Gt, expr.Ge:
			return expr.Cmp{Op: expr.Gt, L: e.L, R: expr.Const{Value: floor}}
		}
	case below, above:
		if e.Op != expr.Eq && e.Op != expr.Ne {
			if atLeast == (p == below) {
				return n.isNull(expr.IsNull{X: e.L}, false)
			}
			return False
		}
	case foreign:
		return e
	}
	if e.Op == expr.Ne {
		return n.isNull(expr.IsNull{X: e.L}, false)
	}
	return False
}

func (n *normaliser) between(e expr.Between, want bool) expr.Expr {
	want = want != e.Not
	low := n.comparison(expr.Cmp{Op: expr.Ge, L: e.X, R: e.Lo}, want)
	high := n.comparison(expr.Cmp{Op: expr.Le, L: e.X, R: e.Hi}, want)
	return junction([]expr.Expr{low, high}, want)
}

// in normalises X IN (list): the items that are constant become a list, the others
// comparisons.
func (n *normaliser) in(e expr.In, want bool) expr.Expr {
	want = want != e.Not
	op := expr.Eq
	if !want {
		op = expr.Ne
	}
	x, isRow := e.X.(expr.Row)
	operand := e.X
	if !isRow {
		operand = n.operand(e.X)
	}
	var terms, constants []expr.Expr
	for _, item := range e.List {
		_, open := IsList(item)
		row, rowItem := item.(expr.Row)
		switch {
		case isRow && rowItem && len(row.Items) == len(x.Items) && len(x.Items) > 0:
			terms = append(terms, n.rows(op, x.Items, row.Items))
			continue
		case isRow || isSubquery(item):
			return expr.In{X: operand, List: e.List, Not: !want} // of a subquery, or an error
		case open && IsNull(operand):
			return expr.In{X: operand, List: e.List, Not: !want} // true if the list is empty
		}
		item = n.operand(item)
		compared := n.compare(op, operand, item)
		c, isComparison := compared.(expr.Cmp)
		switch {
		case isComparison && c.Op == op && IsConstant(item) && !IsConstant(operand):
			constants = append(constants, c.R)
		default:
			terms = append(terms, compared)
		}
	}
	if len(constants) > 0 {
		terms = append(terms, list(operand, constants, !want))
	}
	return junction(terms, !want)
}

// isSubquery reports whether an item of an IN is a list.
func isSubquery(e expr.Expr) bool {
	if a, ok := e.(expr.Apply); ok {
		return a.Kind == expr.Rows
	}
	_, ok := e.(expr.Subquery)
	return ok
}

// isNull normalises X IS NULL, which is never unknown.
func (n *normaliser) isNull(e expr.IsNull, want bool) expr.Expr {
	if row, ok := e.X.(expr.Row); ok {
		terms := make([]expr.Expr, len(row.Items))
		for i, item := range row.Items {
			terms[i] = n.isNull(expr.IsNull{X: item, Not: e.Not}, want)
		}
		return junction(terms, want)
	}
	e = expr.IsNull{X: n.operand(e.X), Not: e.Not == want}
	if folded, ok := n.fold(e); ok {
		return n.opaque(folded, true)
	}
	if c, ok := e.X.(expr.Column); ok && n.columns != nil {
		if f, known := n.columns(c.Source, c.Ordinal); known && !f.Nullable {
			if e.Not {
				return True
			}
			return False
		}
	}
	return e
}

// isDistinct normalises L IS DISTINCT FROM R, which is never unknown: with a constant it is a
// comparison, a test for NULL, or both.
func (n *normaliser) isDistinct(e expr.IsDistinct, want bool) expr.Expr {
	same := e.Not == want
	l, r := e.L, n.operand(e.R)
	if _, ok := r.(expr.Const); !ok {
		l, r = e.R, n.operand(e.L)
	}
	c, ok := r.(expr.Const)
	switch {
	case !ok:
		return n.opaque(expr.IsDistinct{L: n.operand(e.L), R: n.operand(e.R), Not: same}, true)
	case c.IsNull():
		return n.isNull(expr.IsNull{X: l}, same)
	case !same:
		return junction([]expr.Expr{n.comparison(expr.Cmp{Op: expr.Ne, L: l, R: c}, true),
			n.isNull(expr.IsNull{X: l}, true)}, false)
	case c.Kind() == expr.KindBool:
		return n.truth(l, isTrue(c))
	}
	return n.comparison(expr.Cmp{Op: expr.Eq, L: l, R: c}, true)
}

// like normalises X LIKE pattern. A fixed beginning of the pattern becomes a condition of
// its own.
func (n *normaliser) like(e expr.Like, want bool) expr.Expr {
	want = want != e.Not
	e.X, e.Pattern, e.Not = n.operand(e.X), n.operand(e.Pattern), !want
	c, isConst := e.Pattern.(expr.Const)
	pattern, isText := c.AsString()
	if IsNull(e.X) || IsNull(e.Pattern) {
		return False
	}
	if _, isColumn := e.X.(expr.Column); !isConst || !isText || !isColumn || e.Fold {
		return n.opaque(e, true)
	}
	text, whole, begins := expr.LikePrefix(pattern, e.Escape)
	prefix := expr.Const{Value: expr.String(text)}
	switch {
	case whole && want:
		return n.compare(expr.Eq, e.X, prefix)
	case whole:
		return n.compare(expr.Ne, e.X, prefix)
	case begins:
		return n.opaque(expr.BeginsWith{X: e.X, Prefix: prefix}, want)
	case text == "" || !want:
		return e
	}
	return junction([]expr.Expr{expr.BeginsWith{X: e.X, Prefix: prefix}, e}, true)
}

// ListFunc marks, inside a Prepared, a parameter that may stand for a whole list, so that
// x IN (?) is not taken for x = ?. Bind replaces it by the value.
const ListFunc = "list"

// IsList reports whether an operand is a parameter that may be a list, and which.
func IsList(e expr.Expr) (p expr.Param, ok bool) {
	f, ok := e.(expr.Func)
	if !ok || f.Name != ListFunc {
		return p, false
	}
	p, ok = f.Args[0].(expr.Param)
	return p, ok
}
