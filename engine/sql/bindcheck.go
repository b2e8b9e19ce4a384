package sql

import (
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
)

// The planner checks the types of queries. What statements that write compute beside their query
// is checked here, so that they fail when they are prepared, and without a row, too.

// checked returns an expression that stands at pos after it has checked the types in it.
func (sc *scope) checked(e expr.Expr, pos int) expr.Expr {
	switch e.(type) {
	case expr.Const, expr.Param:
		return e
	}
	column := func(c expr.Column) expr.Type { return sc.typeOf(c).value() }
	if _, err := expr.CheckTypes(e, column); err != nil {
		sc.refuseTypes(pos, err)
	}
	return e
}

// refuseTypes fails with an error of expr.CheckTypes, which is in an expression at pos.
func (sc *scope) refuseTypes(pos int, err error) {
	var wrong *expr.TypeError
	if errors.As(err, &wrong) && sc.position(wrong.At) > 0 {
		pos = sc.position(wrong.At) - 1
	}
	sc.b.refuse(pos, err)
}

// value returns the type of values.
func (t typ) value() expr.Type {
	out := expr.Type{Kind: t.kind()}
	switch {
	case !t.known():
		return expr.Type{}
	case t.list:
		return expr.Type{Kind: expr.KindList, Element: out.Kind}
	}
	return out
}

// assignable fails if no value of an expression can be written to a column. Constants, and the
// texts of what a text stands for, are converted one by one.
func (sc *scope) assignable(e expr.Expr, c *schema.Column, pos int) {
	t := sc.typeOf(e)
	from, to := t.value().Kind, typeOfColumn(c).value().Kind
	_, constant := e.(expr.Const)
	switch {
	case constant, !t.known(), from == to, from.Numeric() && to.Numeric():
		return
	case from == expr.KindString && to != expr.KindBool && to != expr.KindList && !to.Numeric():
		return
	}
	panic(sc.b.failed(pos, schema.ErrType, "wrong type: %s is %s, for column %q of type %s", e,
		from.Phrase(), c.Name, typeOfColumn(c)))
}
