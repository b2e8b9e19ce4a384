package typed

import (
	"github.com/kstonedb/kstone/engine/expr"
)

// Predicate is a condition on rows T, with the three truth values of SQL: what is compared
// with NULL is unknown, and only rows for which a condition is true are found. It is
// immutable; the zero Predicate is not a condition, true of every row.
type Predicate[T any] struct {
	e expr.Expr
	// field and value are the short form of a comparison for equality: it needs no tree
	// where a key is built of it.
	field *field
	value expr.Value
}

// expression returns the tree of the predicate, or nil.
func (p Predicate[T]) expression() expr.Expr {
	if p.field == nil {
		return p.e
	}
	return expr.Cmp{Op: expr.Eq, L: ref(p.field), R: expr.Const{Value: p.value}}
}

// String returns the condition in SQL.
func (p Predicate[T]) String() string {
	if e := p.expression(); e != nil {
		return e.String()
	}
	return "TRUE"
}

// And is true where all predicates are.
func And[T any](predicates ...Predicate[T]) Predicate[T] {
	return Predicate[T]{e: expr.And{Terms: expressions(predicates)}}
}

// Or is true where one of the predicates is; of none it is false.
func Or[T any](predicates ...Predicate[T]) Predicate[T] {
	var terms []expr.Expr
	for _, p := range predicates {
		e := p.expression()
		if e == nil {
			e = expr.And{}
		}
		terms = append(terms, e)
	}
	return Predicate[T]{e: expr.Or{Terms: terms}}
}

// Not is true where the predicate is false.
func Not[T any](p Predicate[T]) Predicate[T] {
	e := p.expression()
	if e == nil {
		e = expr.And{}
	}
	return Predicate[T]{e: expr.Not{X: e}}
}

func expressions[T any](predicates []Predicate[T]) []expr.Expr {
	var terms []expr.Expr
	for _, p := range predicates {
		if e := p.expression(); e != nil {
			terms = append(terms, e)
		}
	}
	return terms
}

func (c Column[T, V]) compare(op expr.Op, r expr.Expr) Predicate[T] {
	return Predicate[T]{e: expr.Cmp{Op: op, L: c.ref(), R: r}}
}

func (c Column[T, V]) constant(v V) expr.Expr { return expr.Const{Value: c.valueOf(v)} }

// Eq is true where the column is equal to v.
func (c Column[T, V]) Eq(v V) Predicate[T] {
	return Predicate[T]{field: c.field, value: c.valueOf(v)}
}

// Ne is true where the column is another value than v.
func (c Column[T, V]) Ne(v V) Predicate[T] { return c.compare(expr.Ne, c.constant(v)) }

// Lt is true where the column is less than v.
func (c Column[T, V]) Lt(v V) Predicate[T] { return c.compare(expr.Lt, c.constant(v)) }

// Le is true where the column is at most v.
func (c Column[T, V]) Le(v V) Predicate[T] { return c.compare(expr.Le, c.constant(v)) }

// Gt is true where the column is greater than v.
func (c Column[T, V]) Gt(v V) Predicate[T] { return c.compare(expr.Gt, c.constant(v)) }

// Ge is true where the column is at least v.
func (c Column[T, V]) Ge(v V) Predicate[T] { return c.compare(expr.Ge, c.constant(v)) }

// Between is true where the column is at least lo and at most hi.
func (c Column[T, V]) Between(lo, hi V) Predicate[T] {
	return Predicate[T]{e: expr.Between{X: c.ref(), Lo: c.constant(lo), Hi: c.constant(hi)}}
}

// In is true where the column is one of the values.
func (c Column[T, V]) In(values ...V) Predicate[T] {
	list := make([]expr.Expr, len(values))
	for i, v := range values {
		list[i] = c.constant(v)
	}
	return Predicate[T]{e: expr.In{X: c.ref(), List: list}}
}

// IsNull is true where the column is NULL.
func (c Column[T, V]) IsNull() Predicate[T] { return Predicate[T]{e: expr.IsNull{X: c.ref()}} }

// NotNull is true where the column is not NULL.
func (c Column[T, V]) NotNull() Predicate[T] {
	return Predicate[T]{e: expr.IsNull{X: c.ref(), Not: true}}
}

// EqColumn is true where both columns have the same value.
func (c Column[T, V]) EqColumn(other Column[T, V]) Predicate[T] {
	return c.compare(expr.Eq, other.ref())
}

// LtColumn is true where the column is less than another one.
func (c Column[T, V]) LtColumn(other Column[T, V]) Predicate[T] {
	return c.compare(expr.Lt, other.ref())
}

// EqArg is Eq of a parameter.
func (c Column[T, V]) EqArg(a Arg[V]) Predicate[T] { return c.compare(expr.Eq, a.param(c.field)) }

// NeArg is Ne of a parameter.
func (c Column[T, V]) NeArg(a Arg[V]) Predicate[T] { return c.compare(expr.Ne, a.param(c.field)) }

// LtArg is Lt of a parameter.
func (c Column[T, V]) LtArg(a Arg[V]) Predicate[T] { return c.compare(expr.Lt, a.param(c.field)) }

// LeArg is Le of a parameter.
func (c Column[T, V]) LeArg(a Arg[V]) Predicate[T] { return c.compare(expr.Le, a.param(c.field)) }

// GtArg is Gt of a parameter.
func (c Column[T, V]) GtArg(a Arg[V]) Predicate[T] { return c.compare(expr.Gt, a.param(c.field)) }

// GeArg is Ge of a parameter.
func (c Column[T, V]) GeArg(a Arg[V]) Predicate[T] { return c.compare(expr.Ge, a.param(c.field)) }

// BetweenArgs is Between of two parameters.
func (c Column[T, V]) BetweenArgs(lo, hi Arg[V]) Predicate[T] {
	return Predicate[T]{e: expr.Between{X: c.ref(), Lo: lo.param(c.field), Hi: hi.param(c.field)}}
}

// InQuery is true where the column is one of those that a query returns: a semi join. Its
// negation with [Not] has the NULL rules of SQL.
func (c Column[T, V]) InQuery(q Projection[V]) Predicate[T] {
	return Predicate[T]{e: expr.In{X: c.ref(), List: []expr.Expr{
		expr.Subquery{Query: q.query, Kind: expr.Rows}}}}
}

// BeginsWith is true where the text, or byte string, of the column begins with prefix.
func BeginsWith[T any, V ~string | ~[]byte](c Column[T, V], prefix V) Predicate[T] {
	return Predicate[T]{e: expr.BeginsWith{X: c.ref(), Prefix: c.constant(prefix)}}
}

// Like is true where the text of the column matches the pattern, in which % stands for any
// characters and _ for one.
func Like[T any, V ~string](c Column[T, V], pattern string) Predicate[T] {
	return Predicate[T]{e: expr.Like{X: c.ref(), Pattern: expr.Const{Value: expr.String(pattern)}}}
}

// RowValue is several columns with a value each, to be compared like one value, from the
// first on. It is made by RowOf.
type RowValue[T any] struct {
	columns, values []expr.Expr
}

// RowOf returns the row value of predicates that are all made by Column.Eq:
//
//	typed.RowOf(Day.Eq(d), ID.Eq(5)).Gt() // (day, id) > (d, 5)
//
// It panics for other predicates.
func RowOf[T any](items ...Predicate[T]) RowValue[T] {
	var r RowValue[T]
	for _, p := range items {
		if p.field == nil {
			panic("typed: RowOf takes predicates of Column.Eq only, not " + p.String())
		}
		r.columns = append(r.columns, ref(p.field))
		r.values = append(r.values, expr.Const{Value: p.value})
	}
	return r
}

func (r RowValue[T]) compare(op expr.Op) Predicate[T] {
	return Predicate[T]{e: expr.Cmp{Op: op, L: expr.Row{Items: r.columns},
		R: expr.Row{Items: r.values}}}
}

// Lt is true where the columns are less than the values.
func (r RowValue[T]) Lt() Predicate[T] { return r.compare(expr.Lt) }

// Le is true where the columns are at most the values.
func (r RowValue[T]) Le() Predicate[T] { return r.compare(expr.Le) }

// Gt is true where the columns are greater than the values.
func (r RowValue[T]) Gt() Predicate[T] { return r.compare(expr.Gt) }

// Ge is true where the columns are at least the values.
func (r RowValue[T]) Ge() Predicate[T] { return r.compare(expr.Ge) }
