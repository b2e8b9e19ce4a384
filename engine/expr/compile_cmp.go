package expr

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/keycodec"
)

// holds reports whether a comparison that came out as c satisfies the operator.
func (o Op) holds(c int) bool {
	switch o {
	case Eq:
		return c == 0
	case Ne:
		return c != 0
	case Lt:
		return c < 0
	case Le:
		return c <= 0
	case Gt:
		return c > 0
	}
	return c >= 0
}

// compareTruth compares two values.
func compareTruth(op Op, a, b Value, collation keycodec.Collation) (Truth, error) {
	if a.kind == KindNull || b.kind == KindNull {
		return Unknown, nil
	}
	c, ok := compareUnder(a, b, collation)
	if !ok {
		return Unknown, incomparable(a, b)
	}
	return truthOf(op.holds(c)), nil
}

func compileCmp(e Cmp) (testFn, error) {
	if int(e.Op) >= len(opNames) {
		return nil, fmt.Errorf("expr: unknown %s", e.Op)
	}
	l, lrow := e.L.(Row)
	r, rrow := e.R.(Row)
	if lrow || rrow {
		if !lrow || !rrow || len(l.Items) != len(r.Items) || len(l.Items) == 0 {
			return nil, fmt.Errorf("%w: %s compared with %s", ErrType, e.L, e.R)
		}
		return compileRowCmp(e.Op, l, r)
	}
	collation := CollationOfPair(e.L, e.R)
	if test := compileFastCmp(e, collation); test != nil {
		return test, nil
	}
	left, right, err := compilePair(e.L, e.R)
	if err != nil {
		return nil, err
	}
	op := e.Op
	test := func(m env) (Truth, error) {
		v, w, err := evalPair(m, left, right)
		if err != nil {
			return Unknown, err
		}
		return compareTruth(op, v, w, collation)
	}
	if ints := compileIntCmp(e, test); ints != nil {
		return ints, nil
	}
	return test, nil
}

// compileFastCmp compiles the comparison of a place in the row with a constant, the most
// frequent one, without calls; nil if e is something else.
func compileFastCmp(e Cmp, collation keycodec.Collation) testFn {
	if _, ok := e.L.(Const); ok {
		e = Cmp{e.Op.Swap(), e.R, e.L}
	}
	source, at := 0, 0
	switch p := e.L.(type) {
	case Column:
		source, at = p.Source, p.Ordinal
	case Slot:
		source, at = slotSource, p.I
	default:
		return nil
	}
	c, ok := e.R.(Const)
	if !ok || source > 0 {
		return nil
	}
	op, want, place := e.Op, c.Value, e.L
	return func(m env) (Truth, error) {
		if m.get == nil && uint(at) < uint(len(m.row)) {
			v := &m.row[at]
			if v.kind == KindInt && want.kind == KindInt {
				return truthOf(op.holds(cmp.Compare(int64(v.n), int64(want.n)))), nil
			}
			return compareTruth(op, *v, want, collation)
		}
		v, err := m.place(source, at, place)
		if err != nil {
			return Unknown, err
		}
		return compareTruth(op, v, want, collation)
	}
}

// compileRowCmp compiles the comparison of rows: = and <> look at all items, the others
// at the items up to the first that differ.
func compileRowCmp(op Op, l, r Row) (testFn, error) {
	type pair struct {
		l, r      valueFn
		collation keycodec.Collation
	}
	pairs := make([]pair, len(l.Items))
	for i := range pairs {
		left, right, err := compilePair(l.Items[i], r.Items[i])
		if err != nil {
			return nil, err
		}
		pairs[i] = pair{left, right, CollationOfPair(l.Items[i], r.Items[i])}
	}
	if op == Eq || op == Ne {
		equal := func(m env) (Truth, error) {
			out := True
			for _, p := range pairs {
				v, w, err := evalPair(m, p.l, p.r)
				if err != nil {
					return Unknown, err
				}
				t, err := compareTruth(Eq, v, w, p.collation)
				if err != nil || t == False {
					return t, err
				}
				out = min(out, t)
			}
			return out, nil
		}
		return negated(equal, op == Ne), nil
	}
	return func(m env) (Truth, error) {
		for _, p := range pairs {
			v, w, err := evalPair(m, p.l, p.r)
			if err != nil || v.kind == KindNull || w.kind == KindNull {
				return Unknown, err
			}
			c, ok := compareUnder(v, w, p.collation)
			switch {
			case !ok:
				return Unknown, incomparable(v, w)
			case c != 0:
				return truthOf(op.holds(c)), nil
			}
		}
		return truthOf(op.holds(0)), nil
	}, nil
}

// manyItems is the number of constants from which a list is searched by bisection.
const manyItems = 8

func compileIn(e In) (testFn, error) {
	if len(e.List) == 0 {
		return func(env) (Truth, error) { return truthOf(e.Not), nil }, nil
	}
	if a, ok := e.List[0].(Apply); ok && a.Kind == Rows {
		test, err := compileInApply(e.X, a)
		return negated(test, e.Not), err
	}
	if test, err := compileInConstants(e); test != nil || err != nil {
		return negated(test, e.Not), err
	}
	terms := make([]Expr, len(e.List))
	for i, item := range e.List {
		terms[i] = Cmp{Eq, e.X, item}
	}
	test, err := compileTerms(terms, True)
	return negated(test, e.Not), err
}

// compileInApply compiles X IN (SELECT …) where the list is another one for each row. In an empty
// list is nothing, NULL neither.
func compileInApply(x Expr, a Apply) (testFn, error) {
	collation := CollationOfPair(x, a)
	value, list, err := compilePair(x, a)
	if err != nil {
		return nil, err
	}
	return func(m env) (Truth, error) {
		v, in, err := evalPair(m, value, list)
		switch {
		case err != nil:
			return Unknown, err
		case in.s == "":
			return False, nil
		case v.kind == KindNull:
			return Unknown, nil
		}
		return listContains(in, v, collation)
	}, nil
}

// compileInConstants compiles X IN (…) with constants of one class only, sorted; nil if
// they are not.
func compileInConstants(e In) (testFn, error) {
	collation := CollationOf(e.X)
	if _, row := e.X.(Row); row || len(e.List) < manyItems || collation != keycodec.CollateBytes {
		return nil, nil
	}
	list, without := make([]Value, 0, len(e.List)), False
	for _, item := range e.List {
		c, ok := item.(Const)
		switch {
		case !ok || (len(list) > 0 && !c.IsNull() && c.kind.class() != list[0].kind.class()):
			return nil, nil
		case c.IsNull():
			without = Unknown // the NULL may be equal to a value that is not found
		default:
			list = append(list, c.Value)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	slices.SortFunc(list, Order)
	value, err := compileValue(e.X)
	if err != nil {
		return nil, err
	}
	x, ints := compileInt(e.X), intSet(list)
	return func(m env) (Truth, error) {
		if x != nil && ints != nil && m.get == nil {
			if n, ok := x(m.row, m.params); ok {
				if _, found := ints[n]; found {
					return True, nil
				}
				return without, nil
			}
		}
		v, err := value(m)
		switch {
		case err != nil || v.kind == KindNull:
			return Unknown, err
		case v.kind.class() != list[0].kind.class():
			return Unknown, incomparable(v, list[0])
		}
		if _, found := slices.BinarySearchFunc(list, v, Order); found {
			return True, nil
		}
		return without, nil
	}, nil
}
