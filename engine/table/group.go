package table

import (
	"context"
	"iter"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
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
	number bool
}

// GroupBy returns the rows of a query in groups that agree in the keys, with aggregates of
// the column of. Without keys all rows are one group. The query's order may be by keys only,
// and its limit counts groups.
func GroupBy[T, V any](q Query[T], of Column[T, V], keys ...Selector[T]) Grouped[T, V] {
	g := Grouped[T, V]{query: q, of: of.field}
	for _, k := range keys {
		_, f := k.column()
		g.keys = append(g.keys, f)
	}
	kind := of.field.column.Kind()
	g.number = kind.Numeric()
	return g
}

func (g *Grouped[T, V]) sel(db *DB, args *arguments) (*plan.Select, error) {
	sel, b, err := g.query.sel(db, args)
	if err != nil {
		return nil, err
	}
	of := b.schema.Ref(0, b.ordinals[g.of.index])
	for _, k := range g.keys {
		sel.GroupBy = append(sel.GroupBy, b.schema.Ref(0, b.ordinals[k.index]))
	}
	sel.Aggregates = []plan.Aggregate{{Func: plan.Count}, {Func: plan.Count, Arg: of},
		{Func: plan.Min, Arg: of}, {Func: plan.Max, Arg: of}}
	if g.number {
		sel.Aggregates = append(sel.Aggregates, plan.Aggregate{Func: plan.Sum, Arg: of},
			plan.Aggregate{Func: plan.Avg, Arg: of})
	}
	return sel, nil
}

func (g *Grouped[T, V]) rows(ctx context.Context, r Reader, bindings []Binding) (*Rows, error) {
	var args arguments
	sel, err := g.sel(r.DB(), &args)
	if err != nil {
		return nil, err
	}
	return queryOnce(ctx, r, sel, args, bindings)
}

// All returns the groups.
func (g Grouped[T, V]) All(ctx context.Context, r Reader,
	bindings ...Binding) iter.Seq2[Group[T, V], error] {
	return allOf(func(yield func(*Group[T, V]) bool) error {
		rows, err := g.rows(ctx, r, bindings)
		if err != nil {
			return err
		}
		for values, err := range rows.All() {
			if err != nil {
				return err
			}
			var group Group[T, V]
			if err := g.read(&group, values); err != nil {
				return err
			}
			if !yield(&group) {
				return nil
			}
		}
		return nil
	})
}

func (g *Grouped[T, V]) read(group *Group[T, V], values []expr.Value) error {
	for i, k := range g.keys {
		if err := k.set(unsafe.Pointer(&group.Key), values[i], true); err != nil {
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
func (g Grouped[T, V]) Explain(ctx context.Context, r Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	rows, err := g.rows(ctx, r, bindings)
	if err != nil {
		return nil, err
	}
	return rows.Explain()
}
