package plan

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
)

// maxParams bounds the parameters of a query.
const maxParams = 1 << 16

// typing finds the types of expressions of a query.
func (q *query) typing() expr.Typing {
	return expr.Typing{Leaf: q.typeOf, Compared: q.noteKind}
}

// kindOf returns the kind of an expression's value as far as it is known, KindNull
// otherwise. Numbers are KindInt.
func kindOf(q *query, e expr.Expr) expr.Kind { return numbersAsInt(q.typing().TypeOf(e).Kind) }

// typeOf is expr.Typing.Leaf.
func (q *query) typeOf(e expr.Expr) expr.Type {
	switch e := e.(type) {
	case expr.Column:
		return q.typeOfColumn(e)
	case expr.Agg:
		return typeOfAggregate(q, q.aggregates[e.Index])
	case expr.Apply:
		return typeOfSubquery(e.Kind, e.Query)
	case expr.Subquery:
		return typeOfSubquery(e.Kind, e.Query)
	}
	return expr.Type{}
}

func (q *query) typeOfColumn(c expr.Column) (out expr.Type) {
	steps, source := OuterOf(c.Source)
	o := q.around(steps)
	if steps > 0 && o != nil && source == Aggregates {
		return typeOfAggregate(o, o.aggregates[c.Ordinal])
	}
	if o == nil {
		return out
	}
	r := o.relationOf(source)
	switch {
	case r == nil:
	case r.table == nil && c.Ordinal < r.columns():
		for _, s := range r.sub.all() {
			out.Kind = kindOf(s.query, s.query.outputs[c.Ordinal].Expr)
			if out.Kind != expr.KindNull {
				return out
			}
		}
	case r.tableColumn(c.Ordinal) != nil:
		own := *r.tableColumn(c.Ordinal)
		if out.Kind = own.Kind(); own.List {
			own.List = false
			out.Element = own.Kind()
		}
	}
	return out
}

// typeOfSubquery returns the type of the value of a subquery, of a list that of its elements.
func typeOfSubquery(kind expr.SubqueryKind, of any) (out expr.Type) {
	s, ok := of.(*subquery)
	switch {
	case kind == expr.Exists:
		out.Kind = expr.KindBool
	case !ok:
	case len(s.query.outputs) == 1:
		out.Kind = kindOf(s.query, s.query.outputs[0].Expr)
	case kind == expr.Rows:
		for _, o := range s.query.outputs {
			out.Columns = append(out.Columns, expr.Typed{Expr: o.Expr,
				Type: expr.Type{Kind: kindOf(s.query, o.Expr)}})
		}
	}
	return out
}

func numbersAsInt(k expr.Kind) expr.Kind {
	if k.Numeric() {
		return expr.KindInt
	}
	return k
}

func typeOfAggregate(q *query, a Aggregate) expr.Type {
	switch {
	case a.Func == Count, a.Func == Sum, a.Func == Avg:
		return expr.Type{Kind: expr.KindInt}
	case a.Arg == nil:
		return expr.Type{}
	}
	return q.typing().TypeOf(a.Arg)
}

// checkTypes refuses operators on values of kinds they do not take. Original is where the
// caller knows positions of; resolved has the same shape.
func (q *query) checkTypes(original, resolved expr.Expr) error {
	_, err := q.typing().Check(resolved)
	return q.mistyped(original, err)
}

// mistyped makes an error of types one at the expression that it is in, whose place is known, or at
// another one.
func (q *query) mistyped(around expr.Expr, err error) error {
	if err == nil {
		return nil
	}
	var wrong *expr.TypeError
	if errors.As(err, &wrong) {
		return queryError(cmp.Or(q.position(wrong.At), q.position(around)), "%s: %s", wrong.At,
			wrong.Message)
	}
	return queryError(q.position(around), "%v", err)
}

// checkKind refuses an expression that is known to be of another kind.
func (q *query) checkKind(e expr.Expr, want expr.Kind) error {
	if k := kindOf(q, e); k != expr.KindNull && k != want {
		return queryError(q.position(e), "%[1]s: %[1]s is %[2]s, not %[3]s", e, k.Phrase(),
			want.Phrase())
	}
	return nil
}

// noteKind remembers what a parameter is compared with first.
func (q *query) noteKind(p expr.Param, k expr.Kind) {
	if _, known := q.scope.kinds[p.Index]; !known {
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
