package expr

import "cmp"

// Most values that queries calculate with are of KindInt. Where an expression may be made of such
// values alone, it is compiled a second time, as an intFn, which hands on eight bytes instead of a
// Value and an error. It decides nothing: whatever it does not know the ordinary program answers.

// intFn evaluates an expression over values of KindInt; ok is false if one is not of that kind, or
// if the result does not fit or is NULL.
type intFn func(row, params []Value) (x int64, ok bool)

// maxIntNodes bounds the expressions that have an intFn. Why: each level of an expression that
// turns out to be of another kind has tried to be one.
const maxIntNodes = 16

// compileInt returns an intFn, nil if the expression has none.
func compileInt(e Expr) intFn {
	nodes := maxIntNodes
	return intOf(e, &nodes)
}

// intOf is compileInt with the number of nodes that are left.
func intOf(e Expr, nodes *int) intFn {
	if *nodes--; *nodes < 0 {
		return nil
	}
	switch e := e.(type) {
	case Const:
		if e.kind == KindInt {
			x := int64(e.n)
			return func(_, _ []Value) (int64, bool) { return x, true }
		}
	case Param:
		at := e.Index
		return func(_, params []Value) (int64, bool) { return intAt(params, at) }
	case Column:
		if e.Source == 0 {
			return intPlace(e.Ordinal)
		}
	case Slot:
		return intPlace(e.I)
	case Arith:
		return intArithOf(e, nodes)
	}
	return nil
}

func intPlace(at int) intFn {
	return func(row, _ []Value) (int64, bool) { return intAt(row, at) }
}

func intAt(values []Value, at int) (int64, bool) {
	if uint(at) >= uint(len(values)) {
		return 0, false
	}
	v := &values[at]
	return int64(v.n), v.kind == KindInt
}

// intArithOf compiles an operator.
func intArithOf(e Arith, nodes *int) intFn {
	if e.Op > Mod || e.L == nil || e.R == nil {
		return nil
	}
	l := intOf(e.L, nodes)
	if l == nil {
		return nil
	}
	op := e.Op
	if c, ok := e.R.(Const); ok && op == Mod && c.kind == KindInt && int64(c.n) > 0 {
		by := int64(c.n)
		return func(row, params []Value) (int64, bool) {
			x, ok := l(row, params)
			return x % by, ok
		}
	}
	r := intOf(e.R, nodes)
	if r == nil {
		return nil
	}
	return func(row, params []Value) (int64, bool) {
		x, ok := l(row, params)
		if !ok {
			return 0, false
		}
		y, ok := r(row, params)
		if !ok {
			return 0, false
		}
		v, ok := intArith(op, x, y)
		return int64(v.n), ok && v.kind == KindInt
	}
}

// compileIntCmp compiles the comparison of two expressions that may be of KindInt, nil if they
// cannot both be. What is not goes to slow.
func compileIntCmp(e Cmp, slow testFn) testFn {
	op := e.Op
	l := compileInt(e.L)
	if c, ok := e.R.(Const); ok && c.kind == KindInt && l != nil {
		want := int64(c.n)
		return func(m env) (Truth, error) {
			if m.get == nil {
				if x, ok := l(m.row, m.params); ok {
					return truthOf(op.holds(cmp.Compare(x, want))), nil
				}
			}
			return slow(m)
		}
	}
	r := compileInt(e.R)
	if l == nil || r == nil {
		return nil
	}
	return func(m env) (Truth, error) {
		if m.get == nil {
			if x, ok := l(m.row, m.params); ok {
				if y, ok := r(m.row, m.params); ok {
					return truthOf(op.holds(cmp.Compare(x, y))), nil
				}
			}
		}
		return slow(m)
	}
}

// intSet returns values as a set of integers, nil if not all of them are of KindInt.
func intSet(list []Value) map[int64]struct{} {
	set := make(map[int64]struct{}, len(list))
	for i := range list {
		if list[i].kind != KindInt {
			return nil
		}
		set[int64(list[i].n)] = struct{}{}
	}
	return set
}
