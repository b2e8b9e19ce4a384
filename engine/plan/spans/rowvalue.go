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
