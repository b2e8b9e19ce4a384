package typed

import (
	"context"
	"iter"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// Group is what GroupBy returns of the rows that agree in some columns: Key has these
// columns, its other fields are zero. The rest is about the values of one column of type V
// that are not NULL: there are Values of them; Min and Max are zero values without any, Sum
// and Avg NULL.
type Group[T, V any] struct {
	Key      T
	Count    int64 // rows
	Values   int64
	Sum, Avg expr.Value // NULL if V is no number
	Min, Max V
}

// Grouped is a query of groups. It is an immutable value, as Query is.
type Grouped[T, V any] struct {
	query  Query[T]
	of     *field
	keys   []*field
	having []expr.Expr
	number bool
}

// GroupBy returns the rows of a query in groups that agree in the keys, with aggregates of
// the column of. Without keys all rows are one group. The query's order may be by keys only,
// and its limit counts groups.
func GroupBy[T, V any](q Query[T], of Column[T, V], keys ...Selector[T]) Grouped[T, V] {
	g := Grouped[T, V]{query: q, of: of.field}
	for _, k := range keys {
		f := k.column(nil)
		g.keys = append(g.keys, f)
	}
	kind := of.field.column.Kind()
	g.number = kind.Numeric()
	return g
}

func (g *Grouped[T, V]) sel(db *table.DB, args *arguments) (*plan.Select, error) {
	sel, b, err := g.query.sel(db, args)
	if err != nil {
		return nil, err
	}
	of := b.ref(g.of)
	for _, k := range g.keys {
		sel.GroupBy = append(sel.GroupBy, b.ref(k))
	}
	sel.Aggregates = []plan.Aggregate{{Func: plan.Count}, {Func: plan.Count, Arg: of},
		{Func: plan.Min, Arg: of}, {Func: plan.Max, Arg: of}}
	if g.number {
		sel.Aggregates = append(sel.Aggregates, plan.Aggregate{Func: plan.Sum, Arg: of},
			plan.Aggregate{Func: plan.Avg, Arg: of})
	}
	return sel, g.addHaving(sel)
}

// The places of the aggregates in the query.
const (
	aggregateCount = iota
	aggregateValues
	aggregateMin
	aggregateMax
	aggregateSum
	aggregateAvg
)

func (g *Grouped[T, V]) addHaving(sel *plan.Select) error {
	for _, e := range g.having {
		missing := false
		expr.Walk(e, func(x expr.Expr) bool {
			a, ok := x.(expr.Agg)
			missing = missing || ok && a.Index >= len(sel.Aggregates)
			return true
		})
		if missing {
			return invalid("%s is no number and has no sum and average", g.of.column.Name)
		}
	}
	if len(g.having) > 0 {
		sel.Having = expr.And{Terms: g.having}
	}
	return nil
}

// Having leaves only the groups for which the predicates are true:
//
//	g := typed.GroupBy(Quakes.Where(), Mag, Net)
//	g = g.Having(g.Count().Ge(100), typed.Or(g.Max().Gt(5), g.Avg().Gt(3)))
func (g Grouped[T, V]) Having(predicates ...Predicate[Group[T, V]]) Grouped[T, V] {
	g.having = append(g.having[:len(g.having):len(g.having)], expressions(predicates)...)
	return g
}

// Aggregated is a value of each Group[T, V], of type A, for Grouped.Having.
type Aggregated[T, V, A any] struct {
	agg   expr.Agg
	value func(A) expr.Expr
}

func aggregated[T, V, A any](index int, name string, of *field) Aggregated[T, V, A] {
	return Aggregated[T, V, A]{expr.Agg{Index: index, Name: name}, func(a A) expr.Expr {
		if of != nil {
			return expr.Const{Value: of.scalar(unsafe.Pointer(&a))}
		}
		v, _ := expr.From(a) // an int64 or a float64
		return expr.Const{Value: v}
	}}
}

// Count is the number of rows.
func (g Grouped[T, V]) Count() Aggregated[T, V, int64] {
	return aggregated[T, V, int64](aggregateCount, "Count", nil)
}

// Values is the number of values that are not NULL.
func (g Grouped[T, V]) Values() Aggregated[T, V, int64] {
	return aggregated[T, V, int64](aggregateValues, "Values", nil)
}

// Min is the smallest value.
func (g Grouped[T, V]) Min() Aggregated[T, V, V] {
	return aggregated[T, V, V](aggregateMin, "Min", g.of)
}

// Max is the largest value.
func (g Grouped[T, V]) Max() Aggregated[T, V, V] {
	return aggregated[T, V, V](aggregateMax, "Max", g.of)
}

// Sum is the sum of the values. Of columns that are no numbers the query fails.
func (g Grouped[T, V]) Sum() Aggregated[T, V, float64] {
	return aggregated[T, V, float64](aggregateSum, "Sum", nil)
}

// Avg is the average of the values, as Sum.
func (g Grouped[T, V]) Avg() Aggregated[T, V, float64] {
	return aggregated[T, V, float64](aggregateAvg, "Avg", nil)
}

func (a Aggregated[T, V, A]) compare(op expr.Op, v A) Predicate[Group[T, V]] {
	return Predicate[Group[T, V]]{e: expr.Cmp{Op: op, L: a.agg, R: a.value(v)}}
}

// Eq is true of groups where the value is equal to v; where it is NULL, nothing is true.
func (a Aggregated[T, V, A]) Eq(v A) Predicate[Group[T, V]] { return a.compare(expr.Eq, v) }

// Ne is true where the value is another one than v.
func (a Aggregated[T, V, A]) Ne(v A) Predicate[Group[T, V]] { return a.compare(expr.Ne, v) }

// Lt is true where the value is less than v.
func (a Aggregated[T, V, A]) Lt(v A) Predicate[Group[T, V]] { return a.compare(expr.Lt, v) }

// Le is true where the value is at most v.
func (a Aggregated[T, V, A]) Le(v A) Predicate[Group[T, V]] { return a.compare(expr.Le, v) }

// Gt is true where the value is greater than v.
func (a Aggregated[T, V, A]) Gt(v A) Predicate[Group[T, V]] { return a.compare(expr.Gt, v) }

// Ge is true where the value is at least v.
func (a Aggregated[T, V, A]) Ge(v A) Predicate[Group[T, V]] { return a.compare(expr.Ge, v) }

// All returns the groups.
func (g Grouped[T, V]) All(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[Group[T, V], error] {
	return allOf(func(yield func(*Group[T, V]) bool) error {
		return statement(g.sel).each(ctx, r, bindings, func(values []expr.Value) (bool, error) {
			var group Group[T, V]
			err := g.read(&group, values)
			return err == nil && yield(&group), err
		})
	})
}

func (g *Grouped[T, V]) read(group *Group[T, V], values []expr.Value) error {
	for i, k := range g.keys {
		if err := k.setIn(unsafe.Pointer(&group.Key), values[i]); err != nil {
			return err
		}
	}
	values = values[len(g.keys):]
	group.Count, _ = values[0].AsInt()
	group.Values, _ = values[1].AsInt()
	if group.Values > 0 {
		if err := g.of.setScalar(unsafe.Pointer(&group.Min), values[2], true); err != nil {
			return err
		}
		if err := g.of.setScalar(unsafe.Pointer(&group.Max), values[3], true); err != nil {
			return err
		}
	}
	if g.number {
		group.Sum, group.Avg = values[4].Clone(), values[5].Clone()
	}
	return nil
}

// Explain returns the plan of the query.
func (g Grouped[T, V]) Explain(ctx context.Context, r table.Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	return statement(g.sel).explain(ctx, r, bindings)
}
