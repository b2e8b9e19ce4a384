package typed

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// Grouped is a query of groups, whose results are structs R: see [GroupBy]. It is an immutable
// value, as Query is.
type Grouped[T, R any] struct {
	query   Query[T]
	outputs []*output
	having  []expr.Expr
	order   []Term[Group[R]]
}

// Group stands for a group whose result is a struct R, in conditions and orders of groups.
type Group[R any] struct{ _ [0]R }

// Output is a field of the result of each group, a [Value].
type Output[T, R any] interface{ output(*T, *R) *output }

// output is what a field of a result is set to.
type output struct {
	field *field
	agg   *expr.Agg // nil of a key; its index is unique in the process
	of    plan.Aggregate
	set   func(result unsafe.Pointer, v expr.Value) error
}

// GroupBy returns the rows of a query in groups that agree in all outputs made by [By] and
// [ByPtr], with the aggregates of any columns that the other outputs are. Without keys all rows
// are one group. Limit and Offset of the query count groups.
//
//	type NetSum struct {
//		Net       string
//		Quakes    int64
//		Strongest float64
//		Depth     float64
//	}
//
//	quakes := typed.Count(Net, func(s *NetSum) *int64 { return &s.Quakes })
//	sums := typed.GroupBy(Quakes.Where(),
//		typed.By(Net, func(s *NetSum) *string { return &s.Net }), quakes,
//		typed.Max(Mag, func(s *NetSum) *float64 { return &s.Strongest }),
//		typed.Avg(Depth, func(s *NetSum) *float64 { return &s.Depth })).
//		Having(quakes.Ge(100)).OrderBy(quakes.Desc())
func GroupBy[T, R any](q Query[T], outputs ...Output[T, R]) Grouped[T, R] {
	g := Grouped[T, R]{query: q}
	for _, o := range outputs {
		g.outputs = append(g.outputs, o.output(nil, nil))
	}
	return g
}

// Value is a value of type V of each group, kept in a field of the struct R. It is immutable.
type Value[T, R, V any] struct {
	out   *output
	value func(V) expr.Value
}

func (a Value[T, R, V]) output(*T, *R) *output { return a.out }

// By is a key of groups: the value of a column that their rows have in common, the zero value for
// NULL.
func By[T, R, V any](c Column[T, V], to func(*R) *V) Value[T, R, V] {
	return valueOf(c, nil, 0, to)
}

// ByPtr is By with nil for NULL.
func ByPtr[T, R, V any](c Column[T, V], to func(*R) **V) Value[T, R, V] {
	a := valueOf(c, nil, 0, func(*R) *V { return nil })
	a.out.set = func(result unsafe.Pointer, v expr.Value) (err error) {
		var p *V
		if !v.IsNull() {
			p = new(V)
			err = c.field.setScalar(unsafe.Pointer(p), v, true)
		}
		*to((*R)(result)) = p
		return err
	}
	return a
}

// Min is the smallest value of a column, the zero value if all are NULL.
func Min[T, R, V any](c Column[T, V], to func(*R) *V) Value[T, R, V] {
	return valueOf(c, aggregateOf(c.field, "MIN"), plan.Min, to)
}

// Max is the largest value of a column, the zero value if all are NULL.
func Max[T, R, V any](c Column[T, V], to func(*R) *V) Value[T, R, V] {
	return valueOf(c, aggregateOf(c.field, "MAX"), plan.Max, to)
}

// valueOf is an output of the type of its column.
func valueOf[T, R, V any](c Column[T, V], agg *expr.Agg, f plan.AggregateFunc,
	to func(*R) *V) Value[T, R, V] {
	set := func(result unsafe.Pointer, v expr.Value) error {
		p := to((*R)(result))
		if v.IsNull() {
			*p = *new(V)
			return nil
		}
		return c.field.setScalar(unsafe.Pointer(p), v, true)
	}
	return Value[T, R, V]{&output{c.field, agg, plan.Aggregate{Func: f}, set}, c.valueOf}
}

// Count is the number of rows whose column is not NULL: of a column of the primary key, that of
// all rows.
func Count[T, R, V any](c Column[T, V], to func(*R) *int64) Value[T, R, int64] {
	return number[T](c.field, "COUNT", plan.Aggregate{Func: plan.Count}, to)
}

// CountDistinct is the number of different values of a column.
func CountDistinct[T, R, V any](c Column[T, V], to func(*R) *int64) Value[T, R, int64] {
	return number[T](c.field, "COUNT DISTINCT",
		plan.Aggregate{Func: plan.Count, Distinct: true}, to)
}

// Number is what sums and averages are made of.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint |
		~float32 | ~float64 | keycodec.Decimal
}

// Total is what sums and averages become. Without values, numbers are 0 and an expr.Value, which
// is exact, is NULL. A sum that is no int64 fails as one; of an int64 with decimal places, an int64
// counts the smallest unit as the column does.
type Total interface{ int64 | float64 | expr.Value }

// Sum is the sum of the values of a column.
func Sum[T, R any, V Number, S Total](c Column[T, V], to func(*R) *S) Value[T, R, S] {
	return number[T](c.field, "SUM", plan.Aggregate{Func: plan.Sum}, to)
}

// Avg is the average of the values of a column.
func Avg[T, R any, V Number, S Total](c Column[T, V], to func(*R) *S) Value[T, R, S] {
	return number[T](c.field, "AVG", plan.Aggregate{Func: plan.Avg}, to)
}

// number is an output that is a number whatever the type of its column.
func number[T, R any, S Total](f *field, name string, of plan.Aggregate,
	to func(*R) *S) Value[T, R, S] {
	coefficient := f.kind == kindCoefficient && of.Func != plan.Count
	set := func(result unsafe.Pointer, v expr.Value) error {
		ok := true
		switch p := any(to((*R)(result))).(type) {
		case *expr.Value:
			*p = v.Clone()
		case *int64:
			if coefficient {
				*p, ok = v.AsScaled(f.column.Scale)
			} else {
				*p, ok = v.AsInt()
			}
		case *float64:
			*p, ok = v.AsFloat()
		}
		if !ok && !v.IsNull() {
			return fmt.Errorf("typed: %s of column %q is %s: as a float64 or an expr.Value it fits",
				name, f.column.Name, v)
		}
		return nil
	}
	value := func(s S) expr.Value {
		switch s := any(s).(type) {
		case expr.Value:
			return s
		case int64:
			if coefficient {
				return expr.Scaled(s, f.column.Scale)
			}
		}
		v, _ := expr.From(s) // never an error: an int64 or a float64
		return v
	}
	return Value[T, R, S]{&output{f, aggregateOf(f, name), of, set}, value}
}

var aggregates atomic.Int64 // all there were

func aggregateOf(f *field, name string) *expr.Agg {
	return &expr.Agg{Index: int(aggregates.Add(1)), Name: name + "(" + f.column.Name + ")"}
}

// expression is the output before the query is bound to a database.
func (o *output) expression() expr.Expr {
	if o.agg != nil {
		return *o.agg
	}
	return ref(o.field)
}

// Asc orders groups by the value, smaller ones and NULL first.
func (a Value[T, R, V]) Asc() Term[Group[R]] { return Term[Group[R]]{group: a.out} }

// Desc orders groups by the value, larger ones first; NULL stays before them.
func (a Value[T, R, V]) Desc() Term[Group[R]] {
	return Term[Group[R]]{group: a.out, desc: true}
}

func (a Value[T, R, V]) compare(op expr.Op, v V) Predicate[Group[R]] {
	return Predicate[Group[R]]{e: expr.Cmp{Op: op, L: a.out.expression(),
		R: expr.Const{Value: a.value(v)}}}
}

// Eq is true of groups where the value is equal to v; where it is NULL, nothing is true.
func (a Value[T, R, V]) Eq(v V) Predicate[Group[R]] { return a.compare(expr.Eq, v) }

// Ne is true where the value is another one than v.
func (a Value[T, R, V]) Ne(v V) Predicate[Group[R]] { return a.compare(expr.Ne, v) }

// Lt is true where the value is less than v.
func (a Value[T, R, V]) Lt(v V) Predicate[Group[R]] { return a.compare(expr.Lt, v) }

// Le is true where the value is at most v.
func (a Value[T, R, V]) Le(v V) Predicate[Group[R]] { return a.compare(expr.Le, v) }

// Gt is true where the value is greater than v.
func (a Value[T, R, V]) Gt(v V) Predicate[Group[R]] { return a.compare(expr.Gt, v) }

// Ge is true where the value is at least v.
func (a Value[T, R, V]) Ge(v V) Predicate[Group[R]] { return a.compare(expr.Ge, v) }

// Having leaves only the groups for which the predicates are true.
func (g Grouped[T, R]) Having(predicates ...Predicate[Group[R]]) Grouped[T, R] {
	g.having = append(g.having[:len(g.having):len(g.having)], expressions(predicates)...)
	return g
}

// OrderBy orders the groups, in place of the order of the query.
func (g Grouped[T, R]) OrderBy(terms ...Term[Group[R]]) Grouped[T, R] {
	g.order = slices.Clone(terms)
	return g
}

func (g *Grouped[T, R]) sel(db *table.DB, args *arguments) (*plan.Select, error) {
	sel, b, err := g.query.sel(db, args)
	if err != nil {
		return nil, err
	}
	indexes := map[int]int{}
	for _, o := range g.outputs {
		column := b.ref(o.field)
		if o.agg == nil {
			sel.GroupBy = append(sel.GroupBy, column)
			sel.Columns = append(sel.Columns, plan.Output{Expr: column})
			continue
		}
		agg := expr.Agg{Index: len(sel.Aggregates), Name: o.agg.Name}
		indexes[o.agg.Index] = agg.Index
		of := o.of
		of.Arg = column
		sel.Aggregates = append(sel.Aggregates, of)
		sel.Columns = append(sel.Columns, plan.Output{Expr: agg})
	}
	resolve := func(e expr.Expr) (expr.Expr, error) {
		e, err := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
			a, ok := x.(expr.Agg)
			if !ok {
				return x, nil
			}
			i, known := indexes[a.Index]
			if !known {
				return nil, invalid("%s is no output of the groups: add it to GroupBy", a)
			}
			a.Index = i
			return a, nil
		})
		if err != nil {
			return nil, err
		}
		return b.resolve(e, args)
	}
	if len(g.having) > 0 {
		if sel.Having, err = resolve(expr.And{Terms: g.having}); err != nil {
			return nil, err
		}
	}
	if g.order != nil {
		sel.OrderBy = nil
	}
	for _, t := range g.order {
		e, err := resolve(t.group.expression())
		if err != nil {
			return nil, err
		}
		sel.OrderBy = append(sel.OrderBy,
			plan.Order{Expr: e, Desc: t.desc, NullsLast: t.nullsLast})
	}
	return sel, nil
}

// All returns the results of the groups.
func (g Grouped[T, R]) All(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[R, error] {
	return allOf(func(yield func(*R) bool) error {
		return statement(g.sel).each(ctx, r, bindings, func(values []expr.Value) (bool, error) {
			result := new(R)
			for i, o := range g.outputs {
				if err := o.set(unsafe.Pointer(result), values[i]); err != nil {
					return false, err
				}
			}
			return yield(result), nil
		})
	})
}

// Explain returns the plan of the query.
func (g Grouped[T, R]) Explain(ctx context.Context, r table.Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	return statement(g.sel).explain(ctx, r, bindings)
}
