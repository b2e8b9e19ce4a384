package estimate

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
)

// listID is the memory of a list, and its length.
type listID struct {
	first *expr.Expr
	n     int
}

// columnList is a list, by its listID or its value, that a column is compared with.
type columnList struct {
	table   *schema.Table
	ordinal int
	list    any
}

// remembered returns the share of the rows that a long list of a column leaves. It is estimated
// once: every path asks for it.
func (e *Estimator) remembered(ordinal int, list any, length int, share func() float64) float64 {
	if e.live == nil || length <= maxCountedItems {
		return share()
	}
	id := columnList{e.table, ordinal, list}
	f, ok := e.live.shares[id]
	if !ok {
		f = share()
		if e.live.shares == nil {
			e.live.shares = map[columnList]float64{}
		}
		e.live.shares[id] = f
	}
	return f
}

// withList returns lists with one more, which all are true of a row: of a column with several
// that are known, what these have in common.
func (e *Estimator) withList(lists []expr.In, in expr.In) []expr.In {
	column, ok := in.X.(expr.Column)
	if !ok || in.Not || len(in.List) == 0 {
		return append(lists, in)
	}
	for i, other := range lists {
		c, ok := other.X.(expr.Column)
		if !ok || other.Not || c.Ordinal != column.Ordinal || c.Collation != column.Collation {
			continue
		}
		if both, ok := e.common(other, in); ok {
			lists[i] = both
			return lists
		}
	}
	return append(lists, in)
}

// common returns the values that are in two lists of a column; ok is false if they are not known.
//
// Requires: e.live is not nil. Why: it keeps them, many paths are estimated by the same terms.
func (e *Estimator) common(a, b expr.In) (both expr.In, ok bool) {
	if len(a.List) == 0 || &a.List[0] == &b.List[0] ||
		len(a.List) == 1 && len(b.List) == 1 && expr.Equal(a.List[0], b.List[0]) {
		return a, true
	}
	id := [2]listID{{&a.List[0], len(a.List)}, {&b.List[0], len(b.List)}}
	if both, ok = e.live.common[id]; ok {
		return both, true
	}
	of, known := e.valuesOf(a)
	also, all := e.valuesOf(b)
	if !known || !all {
		return both, false
	}
	in := make(map[expr.Value]bool, len(also))
	for _, v := range also {
		in[v.Canonical()] = true
	}
	both = expr.In{X: a.X, List: []expr.Expr{}}
	for _, v := range of {
		if in[v.Canonical()] {
			both.List = append(both.List, expr.Const{Value: v})
		}
	}
	if e.live.common == nil {
		e.live.common = map[[2]listID]expr.In{}
	}
	e.live.common[id] = both
	return both, true
}

// listWithin returns a list without the values that are known to be outside of bounds.
func (e *Estimator) listWithin(in expr.In, b bounds) expr.In {
	column, ok := in.X.(expr.Column)
	if !ok || column.Collation != 0 || b.lo.IsNull() && b.hi.IsNull() {
		return in
	}
	values, ok := e.valuesOf(in)
	if !ok {
		return in
	}
	kept := []expr.Expr{}
	for _, v := range values {
		if b.has(v) {
			kept = append(kept, expr.Const{Value: v})
		}
	}
	return expr.In{X: in.X, List: kept}
}

// listAmong is listWith of a list and of the range of its column, whose place it returns,
// or -1.
func (e *Estimator) listAmong(equals equalities, ranges []columnRange, in expr.In) (f float64,
	at int) {
	column, ok := in.X.(expr.Column)
	own := func(r columnRange) bool { return r.ordinal == column.Ordinal }
	if at = slices.IndexFunc(ranges, own); !ok || in.Not || at < 0 {
		return e.listWith(equals, in), -1
	}
	r := ranges[at]
	within := e.within(r.ordinal, r.bounds)
	return min(e.listWith(equals, e.listWithin(in, r.bounds)), within), at
}

// runs estimates how many ranges the n values of a list make: integers that follow each other are
// one.
func (e *Estimator) runs(in expr.In, n float64) float64 {
	values, ok := e.valuesOf(in)
	for i := 1; ok && i < len(values); i++ {
		a, ints := values[i-1].AsInt()
		b, both := values[i].AsInt()
		if ints && both && b == a+1 {
			n--
		}
	}
	return n
}

// listHas returns the column of a list, if it has a value that is known to be in the list.
func (e *Estimator) listHas(equals equalities, in expr.In) (ordinal int, ok bool) {
	column, ok := in.X.(expr.Column)
	if !ok || in.Not {
		return 0, false
	}
	operand, ok := equals.of(column.Ordinal)
	if !ok {
		return 0, false
	}
	v, known := e.known(operand)
	values, all := e.valuesOf(in)
	return column.Ordinal, known && all && slices.ContainsFunc(values, func(x expr.Value) bool {
		order, comparable := expr.Compare(x, v)
		return comparable && order == 0
	})
}

// valuesOf returns the values of a list; ok is false if not all are known.
func (e *Estimator) valuesOf(in expr.In) (values []expr.Value, ok bool) {
	for _, item := range in.List {
		switch list, many := e.listOf(item); {
		case many && list.IsNull():
			return nil, false
		case list.Kind() == expr.KindList:
			values = slices.AppendSeq(values, list.Elements())
		case many:
			values = append(values, list)
		default:
			v, known := e.known(item)
			if !known {
				return nil, false
			}
			values = append(values, v)
		}
	}
	return values, true
}
