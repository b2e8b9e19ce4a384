package sql

import (
	"fmt"
	"math"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// typ is the type of an expression as far as it is known; the zero typ is not.
type typ struct {
	of    keycodec.Type
	unit  keycodec.Unit // of a time
	scale int32         // decimal places of a fixed-scale decimal
	list  bool          // of elements of the type
}

func (t typ) known() bool { return t.of != 0 }

func typeOfColumn(c *schema.Column) typ {
	return typ{c.Type, c.Unit, c.Scale, c.List}
}

func plainType(t keycodec.Type) typ { return typ{of: t} }

// column returns a column of the type.
func (t typ) column() schema.Column {
	return schema.Column{Type: t.of, Unit: t.unit, Scale: t.scale, List: t.list}
}

// kind returns the kind of values or, of a list, of elements.
func (t typ) kind() expr.Kind {
	c := schema.Column{Type: t.of}
	return c.Kind()
}

// String returns the type in the words of CREATE TABLE, "" if it is not known.
func (t typ) String() string {
	if !t.known() {
		return ""
	}
	c := t.column()
	return c.TypeText()
}

// typeOf returns the type of a bound expression.
func (sc *scope) typeOf(e expr.Expr) typ {
	switch e := e.(type) {
	case expr.Const:
		return typeOfValue(e.Value)
	case expr.Column:
		steps, source := plan.OuterOf(e.Source)
		from := sc.around(steps)
		if steps > 0 && source == plan.Aggregates {
			return from.typeOfAggregate(from.sel.Aggregates[e.Ordinal])
		}
		return typeOfColumn(&from.table(source).Columns[e.Ordinal])
	case expr.Agg:
		return sc.typeOfAggregate(sc.sel.Aggregates[e.Index])
	case expr.Arith:
		l := sc.typeOf(e.L)
		if e.R != nil {
			if r := sc.typeOf(e.R); r.float() || !l.known() {
				l = r
			}
		}
		return l.widest()
	case expr.Func:
		return sc.typeOfCall(e)
	case expr.Case:
		results := make([]expr.Expr, 0, len(e.Whens)+1)
		for _, w := range e.Whens {
			results = append(results, w.Then)
		}
		return sc.typeOfChoice(append(results, e.Else))
	case expr.Cast:
		return typeOfCast(e.To)
	case expr.Param:
		return sc.b.params.typeOf(e)
	case expr.Subquery:
		if inner := e.Query.(*plan.Select); e.Kind != expr.Exists {
			in := &scope{b: sc.b, outer: sc, depth: sc.depth + 1, sel: inner}
			return in.typeOf(inner.Columns[0].Expr)
		}
		return plainType(keycodec.TypeBool)
	}
	if expr.IsCondition(e) {
		return plainType(keycodec.TypeBool)
	}
	return typ{}
}

func (t typ) float() bool {
	return !t.list &&
		(t.of == keycodec.TypeFloat64 || t.of == keycodec.TypeFloat32)
}

func (t typ) time() bool { return !t.list && t.of == keycodec.TypeTime }

func (t typ) date() bool { return t.time() && t.unit == keycodec.Day }

func (t typ) integer() bool {
	k := t.kind()
	return !t.list && (k == expr.KindInt || k == expr.KindUint)
}

// widest returns the type of results of arithmetic with operands of a type.
func (t typ) widest() typ {
	switch {
	case t.float():
		return plainType(keycodec.TypeFloat64)
	case t.integer():
		return plainType(keycodec.TypeInt64)
	case t.known():
		return plainType(keycodec.TypeDecimal)
	}
	return t
}

func (sc *scope) typeOfAggregate(a plan.Aggregate) typ {
	if a.Func == plan.Count {
		return plainType(keycodec.TypeInt64)
	}
	t := sc.typeOf(a.Arg)
	switch {
	case a.Func == plan.Sum:
		return t.widest()
	case a.Func == plan.Avg && t.known() && !t.float():
		return plainType(keycodec.TypeDecimal)
	case a.Func == plan.Avg:
		return t.widest()
	}
	return t
}

func (sc *scope) typeOfCall(e expr.Func) typ {
	if expr.Chooses(e.Name) {
		return sc.typeOfChoice(e.Args)
	}
	if strings.HasPrefix(e.Name, "date_") && e.Name != "date_part" {
		for _, arg := range e.Args {
			if t := sc.typeOf(arg); t.time() {
				by, ok := e.Args[len(e.Args)-1].(expr.Const)
				if ok && t.date() && !expr.WholeDays(by.Value) {
					t.unit = keycodec.Second
				}
				return t
			}
		}
	}
	types := expr.Typing{Leaf: func(e expr.Expr) expr.Type { return sc.typeOf(e).value() }}
	return plainType(typesOfKinds[types.TypeOf(e).Kind])
}

// typeOfChoice returns the type of one of several values.
func (sc *scope) typeOfChoice(list []expr.Expr) (out typ) {
	for _, e := range list {
		out = union(out, sc.typeOf(e))
	}
	return out
}

// typesOfKinds are the types of values that stand alone.
var typesOfKinds = [math.MaxUint8 + 1]keycodec.Type{
	expr.KindBool: keycodec.TypeBool, expr.KindInt: keycodec.TypeInt64,
	expr.KindUint: keycodec.TypeUint64, expr.KindFloat: keycodec.TypeFloat64,
	expr.KindString: keycodec.TypeString, expr.KindBytes: keycodec.TypeBytes,
	expr.KindTime: keycodec.TypeTime, expr.KindUUID: keycodec.TypeUUID,
	expr.KindDecimal: keycodec.TypeDecimal, expr.KindIP: keycodec.TypeIP,
	expr.KindIPPrefix: keycodec.TypeIPPrefix,
}

func typeOfValue(v expr.Value) typ {
	t := plainType(typesOfKinds[v.Kind()])
	if v.Kind() == expr.KindTime {
		t.unit = keycodec.FullRange
	}
	return t
}

// coerceTo is coerce for an operand that is compared with other, of row values for each
// item.
func (sc *scope) coerceTo(other, e expr.Expr, at syntax.Expr) expr.Expr {
	row, ok := e.(expr.Row)
	if !ok {
		return sc.coerce(sc.typeOf(other), e, at)
	}
	otherRow, ok := other.(expr.Row)
	tree, isRow := at.(*syntax.Row)
	if !ok || !isRow || len(otherRow.Items) != len(row.Items) {
		return e // the planner says what is wrong
	}
	out := expr.Row{Items: make([]expr.Expr, len(row.Items))}
	for i, item := range row.Items {
		out.Items[i] = sc.coerceTo(otherRow.Items[i], item, tree.Items[i])
	}
	return sc.mark(out, at.Position())
}

// coerce gives a constant, or a parameter once its value is known, the form that a
// comparison with a value of the type needs: texts stand for times, UUIDs and addresses,
// and beside a float a number with decimal places means the float nearest to it.
func (sc *scope) coerce(t typ, was expr.Expr, at syntax.Expr) expr.Expr {
	if !t.known() {
		return was
	}
	switch e := was.(type) {
	case expr.Const:
		if t.list != (e.Kind() == expr.KindList) {
			return was
		}
		v, err := t.each(e.Value, typ.adapt)
		switch {
		case err != nil:
			sc.b.fail(at.Position(), "%v", err)
		case v == e.Value:
			return was
		}
		return sc.mark(expr.Const{Value: v}, at.Position())
	case expr.Param:
		return sc.b.params.compare(e, t)
	case expr.Func:
		if call, ok := at.(*syntax.Call); ok && expr.Chooses(e.Name) {
			return sc.mark(sc.coerceArgs(t, e, call), at.Position())
		}
	case expr.Case:
		if c, ok := at.(*syntax.Case); ok {
			return sc.mark(sc.coerceResults(t, e, c), at.Position())
		}
	}
	return was
}

// coerceArgs is coerce for the arguments of a function that returns one of them.
func (sc *scope) coerceArgs(t typ, f expr.Func, at *syntax.Call) expr.Expr {
	args := make([]expr.Expr, len(f.Args))
	for i, arg := range f.Args {
		args[i] = sc.chosen(t, arg, at.Args[i])
	}
	return expr.Func{Name: f.Name, Args: args, Pos: f.Pos}
}

// chosen is coerce for one of several values. A text that is a day is a DATE beside others: as a
// time it would make the result one.
func (sc *scope) chosen(t typ, was expr.Expr, at syntax.Expr) expr.Expr {
	out := sc.coerce(t, was, at)
	c, ok := was.(expr.Const)
	if !ok || c.Kind() != expr.KindString || !t.date() {
		return out
	}
	day := expr.Cast{X: out, To: dateType, Pos: sc.b.place(at.Position())}
	if v, err := expr.Eval(day, nil, nil); err != nil || v != out.(expr.Const).Value {
		return out
	}
	return sc.mark(day, at.Position())
}

// class is what values of types have in common for which arguments take one form.
func (t typ) class() keycodec.Type {
	switch {
	case t.list:
		return 0
	case t.kind().Numeric() && !t.float():
		return keycodec.TypeInt64
	}
	return t.of
}

// comparable reports whether a value, or the elements of a list, can be compared with values
// of the type.
func (t typ) comparable(v expr.Value) bool {
	if v.Kind() == expr.KindList && !t.list {
		for e := range v.Elements() {
			if !t.comparable(e) {
				return false
			}
		}
		return true
	}
	c := t.column()
	kind := c.Kind()
	return v.IsNull() || v.Kind() == kind || v.Kind().Numeric() && kind.Numeric()
}

// adapt returns the value to compare with values of the type; other values than those that
// coerce names are returned as they are.
func (t typ) adapt(v expr.Value) (expr.Value, error) {
	switch {
	case v.Kind() == expr.KindDecimal && t.float():
		f, _ := v.AsFloat()
		if t.of == keycodec.TypeFloat32 {
			f = float64(float32(f))
		}
		return expr.Float(f), nil
	case v.Kind() == expr.KindString:
		c := schema.Column{Name: "value", Type: t.of}
		switch t.of {
		case keycodec.TypeTime:
			c.Unit = keycodec.FullRange // so that nothing is cut off
		case keycodec.TypeUUID, keycodec.TypeIP, keycodec.TypeIPPrefix:
		default:
			return v, nil
		}
		out, err := c.Convert(v)
		if err != nil {
			return v, fmt.Errorf("%s is no %s", v, t)
		}
		return out, nil
	}
	return v, nil
}
