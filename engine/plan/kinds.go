package plan

import (
	"errors"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
)

// maxParams bounds the parameters of a query.
const maxParams = 1 << 16

// kindOf returns the kind of an expression's value as far as it is known, KindNull
// otherwise. Numbers are KindInt.
func kindOf(q *query, e expr.Expr) expr.Kind {
	switch e := e.(type) {
	case expr.Const:
		return numbersAsInt(e.Kind())
	case expr.Column:
		steps, source := OuterOf(e.Source)
		o := q.around(steps)
		if steps > 0 && o != nil && source == Aggregates {
			return kindOfAggregate(o, o.aggregates[e.Ordinal])
		}
		if o == nil || o.relationOf(source) == nil {
			return expr.KindNull
		}
		r := o.rels[source]
		if r.table == nil && e.Ordinal < r.columns() {
			for _, s := range r.sub.all() {
				if k := kindOf(s.query, s.query.outputs[e.Ordinal].Expr); k != expr.KindNull {
					return k
				}
			}
			return expr.KindNull
		}
		if c := r.tableColumn(e.Ordinal); c != nil {
			return numbersAsInt(c.Kind())
		}
		c, _ := r.columnOf(e.Ordinal)
		return numbersAsInt(c.Kind())
	case expr.Arith:
		return expr.KindInt
	case expr.Agg:
		return kindOfAggregate(q, q.aggregates[e.Index])
	case expr.Func, expr.Case, expr.Cast:
		if t, err := expr.TypeOf(e, typesOf(q, e)); err == nil {
			return numbersAsInt(t.Kind)
		}
	case expr.Apply:
		return kindOfSubquery(e.Kind, e.Query)
	case expr.Subquery:
		return kindOfSubquery(e.Kind, e.Query)
	case expr.Cmp, expr.In, expr.Between, expr.BeginsWith, expr.Like, expr.IsNull, expr.IsDistinct,
		expr.And, expr.Or, expr.Not, expr.Contains:
		return expr.KindBool
	}
	return expr.KindNull
}

// kindOfSubquery returns the kind of the value of a subquery, of a list that of its elements.
func kindOfSubquery(kind expr.SubqueryKind, of any) expr.Kind {
	s, ok := of.(*subquery)
	switch {
	case kind == expr.Exists:
		return expr.KindBool
	case !ok || len(s.query.outputs) != 1:
		return expr.KindNull
	}
	return kindOf(s.query, s.query.outputs[0].Expr)
}

// typesOf returns the types of operands, as far as their kinds are known.
func typesOf(q *query, e expr.Expr) []expr.Type {
	children := expr.Children(e)
	out := make([]expr.Type, len(children))
	for i, c := range children {
		if out[i].Kind = kindOf(q, c); out[i].Kind == expr.KindList {
			out[i].Element = q.elementOf(c)
		}
	}
	return out
}

// elementOf returns the kind of the elements of a column of lists.
func (q *query) elementOf(e expr.Expr) expr.Kind {
	c, ok := e.(expr.Column)
	if r := q.relationOf(c.Source); ok && r != nil && r.table != nil {
		list, _ := r.columnOf(c.Ordinal)
		list.List = false
		return numbersAsInt(list.Kind())
	}
	return expr.KindNull
}

func numbersAsInt(k expr.Kind) expr.Kind {
	if k.Numeric() {
		return expr.KindInt
	}
	return k
}

func kindOfAggregate(q *query, a Aggregate) expr.Kind {
	switch a.Func {
	case Count, Sum, Avg:
		return expr.KindInt
	}
	if a.Arg == nil {
		return expr.KindNull
	}
	return kindOf(q, a.Arg)
}

// checkTypes refuses operators on values of kinds they do not take. Original is where the
// caller knows positions of; resolved has the same shape.
func (q *query) checkTypes(original, resolved expr.Expr) (err error) {
	expr.Walk(resolved, func(x expr.Expr) bool {
		if err == nil {
			err = q.checkNode(x)
		}
		return err == nil
	})
	if err == nil {
		return nil
	}
	if e, ok := err.(*QueryError); ok && e.Pos == 0 {
		e.Pos = q.position(original)
	}
	return err
}

func (q *query) checkNode(e expr.Expr) error {
	switch x := e.(type) {
	case expr.Cmp:
		return q.checkPair(e, x.L, x.R)
	case expr.In:
		if _, ok := x.X.(expr.Const); ok && isSubquery(x.List[0]) {
			return nil // it is in no result without rows
		}
		for _, item := range x.List {
			if err := q.checkPair(e, x.X, item); err != nil {
				return err
			}
		}
	case expr.Between:
		if err := q.checkPair(e, x.X, x.Lo); err != nil {
			return err
		}
		return q.checkPair(e, x.X, x.Hi)
	case expr.BeginsWith:
		return q.checkText(e, x.X, x.Prefix)
	case expr.Like:
		return q.checkText(e, x.X, x.Pattern)
	case expr.And:
		return q.checkKind(e, expr.KindBool, x.Terms...)
	case expr.Or:
		return q.checkKind(e, expr.KindBool, x.Terms...)
	case expr.Not:
		return q.checkKind(e, expr.KindBool, x.X)
	case expr.Arith:
		if x.R == nil {
			return q.checkKind(e, expr.KindInt, x.L)
		}
		return q.checkKind(e, expr.KindInt, x.L, x.R)
	case expr.IsDistinct:
		return q.checkPair(e, x.L, x.R)
	case expr.Func, expr.Case, expr.Cast, expr.Contains:
		return q.checkOperands(e)
	}
	return nil
}

// checkOperands checks the operands of functions, CASE and CAST.
func (q *query) checkOperands(x expr.Expr) error {
	if c, ok := x.(expr.Case); ok && c.X != nil {
		for _, w := range c.Whens {
			if err := q.checkPair(x, c.X, w.If); err != nil {
				return err
			}
		}
	}
	_, err := expr.TypeOf(x, typesOf(q, x))
	var wrong *expr.TypeError
	switch {
	case errors.As(err, &wrong):
		return queryError(q.position(x), "%s: %s", x, wrong.Message)
	case err != nil:
		return queryError(q.position(x), "%v", err)
	}
	return nil
}

// checkKind refuses operands that are known to be of another kind.
func (q *query) checkKind(x expr.Expr, want expr.Kind, operands ...expr.Expr) error {
	for _, o := range operands {
		if k := kindOf(q, o); k != expr.KindNull && k != want {
			name := want.Phrase()
			if want == expr.KindBool {
				name = "a condition"
			}
			return queryError(q.position(x), "%s: %s is %s, not %s", x, o, k.Phrase(), name)
		}
	}
	return nil
}

// checkText wants texts or byte strings, both of the same kind.
func (q *query) checkText(x, a, b expr.Expr) error {
	for _, o := range []expr.Expr{a, b} {
		k := kindOf(q, o)
		if k != expr.KindNull && k != expr.KindString && k != expr.KindBytes {
			return queryError(q.position(x), "%s: %s is %s, not a text", x, o, k.Phrase())
		}
	}
	return q.checkPair(x, a, b)
}

// checkPair refuses to compare what cannot be compared.
func (q *query) checkPair(x, l, r expr.Expr) error {
	a, aRow := l.(expr.Row)
	b, bRow := r.(expr.Row)
	switch {
	case aRow && bRow:
		if len(a.Items) != len(b.Items) || len(a.Items) == 0 {
			return queryError(q.position(x), "%s: rows of %d and %d values", x, len(a.Items),
				len(b.Items))
		}
		for i := range a.Items {
			if err := q.checkPair(x, a.Items[i], b.Items[i]); err != nil {
				return err
			}
		}
		return nil
	case aRow != bRow:
		if s, ok := r.(expr.Subquery); ok && aRow {
			return q.checkRow(x, a, s)
		}
		if isPlaceholder(l) || isPlaceholder(r) {
			return nil
		}
		return queryError(q.position(x), "%s: a row is compared with a value", x)
	}
	j, k := kindOf(q, l), kindOf(q, r)
	q.noteKind(l, k)
	q.noteKind(r, j)
	if j != k && j != expr.KindNull && k != expr.KindNull {
		return q.incomparable(x, l, j, r, k)
	}
	return nil
}

func (q *query) incomparable(x, l expr.Expr, j expr.Kind, r expr.Expr, k expr.Kind) error {
	return queryError(q.position(x), "%s: %s (%s) and %s (%s) cannot be compared", x, l,
		j.Phrase(), r, k.Phrase())
}

// checkRow is checkPair for a row and the rows of a subquery, whose number of columns is checked
// elsewhere.
func (q *query) checkRow(x expr.Expr, row expr.Row, of expr.Subquery) error {
	s, ok := of.Query.(*subquery)
	if !ok || len(s.query.outputs) != len(row.Items) {
		return nil
	}
	for i, item := range row.Items {
		out := s.query.outputs[i].Expr
		j, k := kindOf(q, item), kindOf(s.query, out)
		if j != k && j != expr.KindNull && k != expr.KindNull {
			return q.incomparable(x, item, j, out, k)
		}
	}
	return nil
}

// noteKind remembers what a parameter is compared with.
func (q *query) noteKind(e expr.Expr, k expr.Kind) {
	p, ok := e.(expr.Param)
	if _, known := q.scope.kinds[p.Index]; ok && !known && k != expr.KindNull {
		if q.scope.kinds == nil {
			q.scope.kinds = map[int]expr.Kind{}
		}
		q.scope.kinds[p.Index] = k
	}
}

// check refuses too few values, and those that cannot be compared with what they are
// compared with.
func (sc *scope) check(params []expr.Value) error {
	if len(params) < sc.params {
		return queryError(0, "%d parameters are given, %d are needed", len(params), sc.params)
	}
	for _, p := range sc.checked {
		if p.index >= len(params) || fits(&params[p.index], p.kind) {
			continue
		}
		if params[p.index].Kind() == expr.KindList && sc.listed[p.index] {
			continue // its elements are checked when they are compared
		}
		return aboutParam(p.index+1, "parameter %d is %s and is compared with %s", p.index+1,
			params[p.index], p.kind.Phrase())
	}
	return nil
}

// paramKind is what a parameter is compared with.
type paramKind struct {
	index int
	kind  expr.Kind
}

// close makes the list that check goes through, once all kinds are known. Nothing is planned any
// more.
func (sc *scope) close() {
	sc.opt.Check = nil
	if len(sc.kinds) == 0 {
		return
	}
	for _, i := range slices.Sorted(maps.Keys(sc.kinds)) {
		sc.checked = append(sc.checked, paramKind{i, sc.kinds[i]})
	}
}

// fits says whether a value is NULL or of a kind, KindInt being that of all numbers.
func fits(v *expr.Value, k expr.Kind) bool {
	return v.Kind() == k || v.IsNull() || k == expr.KindInt && v.Kind().Numeric()
}

func isSubquery(e expr.Expr) bool {
	_, ok := e.(expr.Subquery)
	return ok
}

func isPlaceholder(e expr.Expr) bool {
	switch e.(type) {
	case expr.Subquery, expr.Param:
		return true
	}
	return false
}
