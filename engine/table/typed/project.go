package typed

import (
	"context"
	"iter"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// boundQuery is a query that stands in a condition.
type boundQuery struct {
	make statement
	name string // of the table
}

// String stands for the query in the text of a condition.
func (q *boundQuery) String() string { return "SELECT FROM " + q.name }

// Projection is one column, of type V, of the rows that a query finds: see [Select].
type Projection[V any] struct {
	query *boundQuery
	field *field
}

// Select returns one column of the rows that a query finds, for Column.InQuery or by itself.
func Select[T, V any](q Query[T], c Column[T, V]) Projection[V] {
	return Projection[V]{field: c.field, query: &boundQuery{name: q.title(),
		make: func(db *table.DB, args *arguments) (*plan.Select, error) {
			sel, b, err := q.sel(db, args)
			if err != nil {
				return nil, err
			}
			sel.Distinct = q.distinct
			sel.Columns = []plan.Output{{Expr: b.ref(c.field),
				Name: c.field.column.Name}}
			return sel, nil
		}}}
}

// Distinct is Select of the different values only.
func Distinct[T, V any](q Query[T], c Column[T, V]) Projection[V] {
	q.distinct = true
	return Select(q, c)
}

// All returns the values. NULL is the zero value; see AllNull.
func (p Projection[V]) All(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for v, err := range p.AllNull(ctx, r, bindings...) {
			var out V
			if v != nil {
				out = *v
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

// AllNull is All with nil for NULL.
func (p Projection[V]) AllNull(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[*V, error] {
	return eachOf(func(yield func(*V) bool) error {
		return p.query.make.each(ctx, r, bindings, func(values []expr.Value) (bool, error) {
			var v *V
			if !values[0].IsNull() {
				v = new(V)
				if err := p.field.setScalar(unsafe.Pointer(v), values[0], true); err != nil {
					return false, err
				}
			}
			return yield(v), nil
		})
	})
}

// Explain returns the plan of the query.
func (p Projection[V]) Explain(ctx context.Context, r table.Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	return p.query.make.explain(ctx, r, bindings)
}
