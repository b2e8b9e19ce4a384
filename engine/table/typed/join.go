package typed

import (
	"context"
	"iter"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// Pair is a row of one table with a row of another one. R is nil if a left join has found
// no partner.
type Pair[L, R any] struct {
	L *L
	R *R
}

// Joined is a query of pairs of rows. It is an immutable value, as Query is.
type Joined[L, R any] struct {
	left  Query[L]
	right Query[R]
	on    func(b [2]*binding) []expr.Expr
	kind  plan.JoinKind
}

// Join returns the pairs of rows of two queries in which two columns are equal. The order,
// the limit and the offset are those of the first query; the second one has conditions only.
func Join[L, R, V any](left Query[L], l Column[L, V], right Query[R],
	r Column[R, V]) Joined[L, R] {
	return Joined[L, R]{left: left, right: right, on: equal(l.field, r.field)}
}

// LeftJoin is Join that also returns the rows of the first query without a partner.
func LeftJoin[L, R, V any](left Query[L], l Column[L, V], right Query[R],
	r Column[R, V]) Joined[L, R] {
	j := Join(left, l, right, r)
	j.kind = plan.Left
	return j
}

func equal(l, r *field) func(b [2]*binding) []expr.Expr {
	return func(b [2]*binding) []expr.Expr {
		return []expr.Expr{expr.Cmp{Op: expr.Eq, L: b[0].schema.Ref(0, b[0].ordinals[l.index]),
			R: b[1].schema.Ref(1, b[1].ordinals[r.index])}}
	}
}

// On is one more pair of columns that must be equal, for Joined.And.
type On[L, R any] struct{ l, r *field }

// Equal returns the condition that two columns are equal.
func Equal[L, R, V any](l Column[L, V], r Column[R, V]) On[L, R] {
	return On[L, R]{l.field, r.field}
}

// And adds pairs of columns that must be equal, too.
func (j Joined[L, R]) And(on ...On[L, R]) Joined[L, R] {
	first := j.on
	j.on = func(b [2]*binding) []expr.Expr {
		terms := first(b)
		for _, o := range on {
			terms = append(terms, equal(o.l, o.r)(b)...)
		}
		return terms
	}
	return j
}

// sel returns the query for a database.
func (j *Joined[L, R]) sel(db *table.DB, args *arguments) (*plan.Select, error) {
	l, err := j.left.bindSource(db, 0, args)
	if err != nil {
		return nil, err
	}
	r, err := j.right.bindSource(db, 1, args)
	if err != nil {
		return nil, err
	}
	if j.right.limit != nil || j.right.offset != nil || len(j.right.order) > 0 {
		return nil, invalid("the second query of a join has conditions only")
	}
	on := j.on([2]*binding{l.b, r.b})
	if r.where != nil {
		on = append(on, r.where)
	}
	sel := &plan.Select{Where: l.where, OrderBy: l.order, Hints: j.left.hints,
		From:  []plan.Source{{Table: l.b.schema, Alias: "l"}, {Table: r.b.schema, Alias: "r"}},
		Joins: []plan.Join{{Kind: j.kind, On: expr.And{Terms: on}}}}
	if err := j.left.limits(sel, l.b, args); err != nil {
		return nil, err
	}
	if j.right.index != "" {
		if sel.Hints.Index == nil {
			sel.Hints.Index = map[int]string{}
		}
		sel.Hints.Index[1] = j.right.index
	}
	sel.Columns = r.b.outputs(l.b.outputs(nil, 0), 1)
	// Columns of the primary key are never NULL: one of them is NULL only without a partner.
	key := r.b.schema.KeyOrdinals()[0]
	sel.Columns = append(sel.Columns, plan.Output{Expr: r.b.schema.Ref(1, key)})
	return sel, nil
}

// All returns the pairs. Their rows are new ones for each pair.
func (j Joined[L, R]) All(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[Pair[L, R], error] {
	return allOf(func(yield func(*Pair[L, R]) bool) error {
		return statement(j.sel).each(ctx, r, bindings, func(values []expr.Value) (bool, error) {
			var p Pair[L, R]
			err := j.read(&p, values)
			return err == nil && yield(&p), err
		})
	})
}

func (j *Joined[L, R]) read(p *Pair[L, R], values []expr.Value) error {
	lf, rf := j.left.table.fields, j.right.table.fields
	p.L = new(L)
	if err := setValues(unsafe.Pointer(p.L), lf, values, true); err != nil {
		return err
	}
	if values[len(lf)+len(rf)].IsNull() {
		return nil
	}
	p.R = new(R)
	return setValues(unsafe.Pointer(p.R), rf, values[len(lf):], true)
}

// Count returns the number of pairs.
func (j Joined[L, R]) Count(ctx context.Context, r table.Reader, bindings ...Binding) (int64,
	error) {
	return statement(j.sel).count(ctx, r, bindings)
}

// Explain returns the plan of the query.
func (j Joined[L, R]) Explain(ctx context.Context, r table.Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	return statement(j.sel).explain(ctx, r, bindings)
}
