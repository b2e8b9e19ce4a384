package expr

import (
	"math"
	"math/bits"
)

// IntTest is a condition on integers, for many rows at a time: comparisons, of arithmetic of
// columns, constants and parameters, that are all true. Why: to call the program of a condition
// takes longer than to compare two numbers. It decides nothing about other values: for rows that
// have such the ordinary program answers.
//
// It belongs to one goroutine.
type IntTest struct {
	places []int
	terms  []intTerm
}

// intTerm is a comparison.
type intTerm struct {
	op   Op
	l, r *intNode
}

// intNode is an operand: a column, a constant, a parameter, or an operator over others.
type intNode struct {
	column int // of the columns of a test, or -1
	param  int // or -1
	value  int64
	op     ArithOp
	l, r   *intNode // nil: it is no operator
	out    []int64  // memory of the results
}

// CompileIntTest returns an IntTest of a condition on places of a row, nil if it has none.
func CompileIntTest(e Expr) *IntTest {
	t := &IntTest{}
	if nodes := maxIntNodes; !t.add(e, &nodes) || len(t.places) == 0 {
		return nil
	}
	return t
}

// Places returns the places that the test looks at.
func (t *IntTest) Places() []int { return t.places }

// add adds a term, or several, and reports whether it can.
func (t *IntTest) add(e Expr, nodes *int) bool {
	switch e := e.(type) {
	case And:
		for _, term := range e.Terms {
			if !t.add(term, nodes) {
				return false
			}
		}
		return true
	case Between:
		return !e.Not && t.compare(Ge, e.X, e.Lo, nodes) && t.compare(Le, e.X, e.Hi, nodes)
	case Cmp:
		return t.compare(e.Op, e.L, e.R, nodes)
	}
	return false
}

func (t *IntTest) compare(op Op, l, r Expr, nodes *int) bool {
	term := intTerm{op, t.node(l, nodes), t.node(r, nodes)}
	t.terms = append(t.terms, term)
	return term.l != nil && term.r != nil && int(op) < len(opNames)
}

// node returns an operand, nil if it is not one of integers.
func (t *IntTest) node(e Expr, nodes *int) *intNode {
	if *nodes--; *nodes < 0 {
		return nil
	}
	n := &intNode{column: -1, param: -1}
	switch e := e.(type) {
	case Const:
		n.value = int64(e.n)
		if e.kind != KindInt {
			return nil
		}
	case Param:
		n.param = e.Index
	case Slot:
		n.column = t.place(e.I)
	case Arith:
		if n.op = e.Op; e.Op > Mod || e.L == nil || e.R == nil {
			return nil
		}
		if n.l, n.r = t.node(e.L, nodes), t.node(e.R, nodes); n.l == nil || n.r == nil {
			return nil
		}
	default:
		return nil
	}
	return n
}

// place returns the number of a place.
func (t *IntTest) place(at int) int {
	for i, p := range t.places {
		if p == at {
			return i
		}
	}
	t.places = append(t.places, at)
	return len(t.places) - 1
}

// Test sets keep[i] to false for each row i for which the condition is not true. columns[k] has the
// values of Places()[k]; rows with a NULL among them are not kept by the caller. It reports false
// if it cannot say: a parameter or a result is not an integer. Requires: columns are as long
// as keep.
func (t *IntTest) Test(columns [][]int64, keep []bool, params []Value) bool {
	for i := range t.terms {
		c := &t.terms[i]
		l, ok := c.l.values(columns, keep, params)
		if !ok {
			return false
		}
		r, ok := c.r.values(columns, keep, params)
		if !ok {
			return false
		}
		c.op.keep(l, r, keep)
	}
	return true
}

// keep compares values one by one.
func (o Op) keep(l, r []int64, keep []bool) {
	l, r = l[:len(keep)], r[:len(keep)]
	switch o {
	case Eq:
		for i := range keep {
			keep[i] = keep[i] && l[i] == r[i]
		}
	case Ne:
		for i := range keep {
			keep[i] = keep[i] && l[i] != r[i]
		}
	case Lt:
		for i := range keep {
			keep[i] = keep[i] && l[i] < r[i]
		}
	case Le:
		for i := range keep {
			keep[i] = keep[i] && l[i] <= r[i]
		}
	case Gt:
		for i := range keep {
			keep[i] = keep[i] && l[i] > r[i]
		}
	default:
		for i := range keep {
			keep[i] = keep[i] && l[i] >= r[i]
		}
	}
}

// constant returns the value of an operand that is the same for all rows.
func (n *intNode) constant(params []Value) (x int64, is, ok bool) {
	switch {
	case n.column >= 0 || n.l != nil:
		return 0, false, true
	case n.param >= 0:
		x, ok = intAt(params, n.param)
		return x, true, ok
	}
	return n.value, true, true
}

// values returns the values of an operand. Rows where it is NULL are not kept. They are valid until
// the next call.
func (n *intNode) values(columns [][]int64, keep []bool, params []Value) ([]int64, bool) {
	if n.column >= 0 {
		return columns[n.column], true
	}
	if cap(n.out) < len(keep) {
		n.out = make([]int64, len(keep))
	}
	out := n.out[:len(keep)]
	if n.l == nil {
		x, _, ok := n.constant(params)
		for i := range out {
			out[i] = x
		}
		return out, ok
	}
	l, ok := n.l.values(columns, keep, params)
	if !ok {
		return nil, false
	}
	if by, is, ok := n.r.constant(params); is && n.op == Mod && by > 0 {
		if uint64(by) < 1<<31 {
			modShort(out, l, by)
			return out, ok
		}
		for i, x := range l[:len(out)] {
			out[i] = x % by
		}
		return out, ok
	}
	r, ok := n.r.values(columns, keep, params)
	return out, ok && n.op.calculate(out, l, r, keep)
}

// modShort sets out to the remainders of a division by a number of 32 bits. Most dividends are that
// short, too: then two multiplications with its inverse take the place of the division (Lemire,
// Kaser, Kurz: Faster remainder by direct computation, 2019).
func modShort(out, l []int64, by int64) {
	inverse := math.MaxUint64/uint64(by) + 1
	for i, x := range l[:len(out)] {
		if uint64(x) < 1<<32 {
			r, _ := bits.Mul64(inverse*uint64(x), uint64(by))
			out[i] = int64(r)
		} else {
			out[i] = x % by
		}
	}
}

// calculate applies an operator to the values of the rows that are kept. It reports false if a
// result does not fit.
func (o ArithOp) calculate(out, l, r []int64, keep []bool) bool {
	l, r = l[:len(out)], r[:len(out)]
	for i, kept := range keep {
		if !kept {
			continue
		}
		x, y := l[i], r[i]
		switch o {
		case Add:
			if out[i] = x + y; (out[i] > x) != (y > 0) {
				return false
			}
		case Sub:
			if out[i] = x - y; (out[i] < x) != (y > 0) {
				return false
			}
		default:
			v, ok := intArith(o, x, y)
			if !ok {
				return false
			}
			out[i], keep[i] = int64(v.n), v.kind == KindInt
		}
	}
	return true
}
