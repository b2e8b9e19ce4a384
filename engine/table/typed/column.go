package typed

import (
	"fmt"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// Selector is a column of a Table, whatever the type of its values: a [Column] or a
// [ListColumn].
type Selector[T any] interface {
	// column returns the field of the column. The argument is nil: it keeps columns of other
	// rows from being a Selector[T].
	column(*T) *field
}

// Rows is what has columns: a [Table] or a [Join], whose rows are structs T.
type Rows[T any] interface {
	title() string
	// fieldAt returns the column whose field in a struct the selector returns, nil if there is
	// none.
	fieldAt(selector func(*T) unsafe.Pointer, size uintptr) *field
}

// Column is a column whose values are of type V, of the rows T. It is immutable. Conditions
// with other columns or values do not compile.
type Column[T, V any] struct{ field *field }

// Col returns the column that selector points at, a field of the struct it is given:
//
//	UserID = typed.Col(Orders, func(o *Order) *string { return &o.UserID })
//
// It panics if what selector returns is not a column of the struct. A nullable column that is a
// pointer is that of [Ptr], a slice that of [List].
func Col[T, V any](t Rows[T], selector func(*T) *V) Column[T, V] {
	f := selected(t, selector)
	if f.pointer || f.column.List {
		panic(fmt.Sprintf("typed: column %q of %s is no plain value: use Ptr or List",
			f.column.Name, t.title()))
	}
	return Column[T, V]{f}
}

// Ptr is Col of a column that is a pointer, nil being NULL.
func Ptr[T, V any](t Rows[T], selector func(*T) **V) Column[T, V] {
	return Column[T, V]{selected(t, selector)}
}

// selected finds the field that a selector points at, by where it lies in a struct.
func selected[T, F any](t Rows[T], selector func(*T) *F) *field {
	f := t.fieldAt(func(probe *T) unsafe.Pointer { return unsafe.Pointer(selector(probe)) },
		unsafe.Sizeof(*new(F)))
	if f == nil {
		panic(fmt.Sprintf("typed: the selector of a column of %s (%T) does not return the address "+
			"of a field that is a column", t.title(), new(T)))
	}
	return f
}

// fieldAt implements Rows.
func (t *Table[T]) fieldAt(selector func(*T) unsafe.Pointer, size uintptr) *field {
	probe := new(T)
	at := selector(probe)
	for _, f := range t.fields {
		if f.size == size && at == f.at(unsafe.Pointer(probe)) {
			return f
		}
	}
	return nil
}

func (c Column[T, V]) column(*T) *field { return c.field }

// Name returns the name of the column in the database.
func (c Column[T, V]) Name() string { return c.field.column.Name }

// ref is the column in an expression: its ordinal is that of the field, until a query is
// bound to a database.
func (c Column[T, V]) ref() expr.Expr { return ref(c.field) }

func ref(f *field) expr.Expr {
	return expr.Column{Source: f.source, Ordinal: f.index, Name: f.column.Name,
		Collation: f.column.Collation}
}

// valueOf returns the value that v is in conditions. The zero value is itself there, also of
// a column that stores it as NULL: see IsNull.
func (c Column[T, V]) valueOf(v V) expr.Value { return c.field.constant(unsafe.Pointer(&v)) }

// constant is scalar for conditions and parameters. Bytes are copied: plans are kept, rows come
// later, and callers use their buffers again.
func (f *field) constant(p unsafe.Pointer) expr.Value {
	if f.kind == kindBytes {
		return expr.Bytes(*(*[]byte)(p))
	}
	return f.scalar(p)
}

// Term is a column in an order or an index, or a value of a group in an order.
type Term[T any] struct {
	field     *field
	group     *output // instead of a field
	desc      bool
	nullsLast bool
	each      bool
}

// Asc orders by the column, smaller values and NULL first.
func (c Column[T, V]) Asc() Term[T] { return Term[T]{field: c.field} }

// Desc orders by the column, larger values first; NULL stays before them.
func (c Column[T, V]) Desc() Term[T] { return Term[T]{field: c.field, desc: true} }

// NullsLast puts NULL after all values.
func (t Term[T]) NullsLast() Term[T] {
	t.nullsLast = true
	return t
}

func (t Term[T]) order() plan.Order {
	return plan.Order{Expr: ref(t.field), Desc: t.desc, NullsLast: t.nullsLast}
}

// ListColumn is a column that is a slice of E.
type ListColumn[T, E any] struct{ field *field }

// List is Col of a column that is a slice. A nil slice is stored as an empty list, or as
// NULL if the field has the option null.
func List[T, E any](t Rows[T], selector func(*T) *[]E) ListColumn[T, E] {
	f := selected(t, selector)
	if !f.column.List {
		panic(fmt.Sprintf("typed: column %q of %s is not a list", f.column.Name, t.title()))
	}
	return ListColumn[T, E]{f}
}

func (c ListColumn[T, E]) column(*T) *field { return c.field }

// Contains is true of rows whose list has an element equal to v.
func (c ListColumn[T, E]) Contains(v E) Predicate[T] {
	item := c.field.constant(unsafe.Pointer(&v))
	return Predicate[T]{e: expr.Contains{X: ref(c.field), Item: expr.Const{Value: item}}}
}

// ContainsArg is Contains of a parameter.
func (c ListColumn[T, E]) ContainsArg(a Arg[E]) Predicate[T] {
	return Predicate[T]{e: expr.Contains{X: ref(c.field), Item: a.param(c.field)}}
}

// IsNull is true of rows without a list.
func (c ListColumn[T, E]) IsNull() Predicate[T] {
	return Predicate[T]{e: expr.IsNull{X: ref(c.field)}}
}

// Each is the term of an index that has an entry for each different element.
func (c ListColumn[T, E]) Each() Term[T] { return Term[T]{field: c.field, each: true} }
