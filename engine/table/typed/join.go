package typed

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// Join is a join of two or more tables, as a variable of a program: each field of the struct J is
// a row of one of them. A pointer is a row that may be absent, which is nil then: a left join.
//
//	type Sale struct {
//		Order Order
//		User  User
//		Note  *Note
//	}
//
//	var (
//		Sales    = typed.NewJoin[Sale](Orders, Users, Notes)
//		SaleUser = typed.Col(Sales, func(s *Sale) *string { return &s.Order.UserID })
//		UserKey  = typed.Col(Sales, func(s *Sale) *string { return &s.User.ID })
//		…
//	)
//
// Its columns are made by [Col], [Ptr] and [List], and its rows are found by a [Query].
type Join[J any] struct{ parts []*part }

// part is one table of a join.
type part struct {
	table   Definition
	name    string // of the field
	typ     reflect.Type
	offset  uintptr
	pointer bool
}

// NewJoin returns the join of tables, in the order of the fields of J. It panics, naming the field,
// if J is not a struct of their rows.
func NewJoin[J any](tables ...Definition) *Join[J] {
	j, typ := new(Join[J]), reflect.TypeFor[J]()
	if typ.Kind() != reflect.Struct || typ.NumField() != len(tables) || len(tables) < 2 {
		panic(fmt.Sprintf("typed: a join of %d tables as %s: it needs a struct with a field for "+
			"each of two or more tables", len(tables), typ))
	}
	for i, t := range tables {
		f := typ.Field(i)
		p := &part{table: t, name: f.Name, typ: f.Type, offset: f.Offset}
		if f.Type.Kind() == reflect.Pointer {
			p.typ, p.pointer = f.Type.Elem(), true
		}
		if p.typ != t.rowType() || p.pointer && i == 0 || !f.IsExported() {
			panic(fmt.Sprintf("typed: field %s of %s is a %s: a join has the rows of %s there, a "+
				"%s, or, after the first table, a pointer to it", f.Name, typ, f.Type, t.Name(),
				t.rowType()))
		}
		j.parts = append(j.parts, p)
	}
	return j
}

// On returns the query of the rows that belong together: each table after the first one needs a
// predicate that compares a column of it. A predicate decides about rows of the last table that it
// names; of a left join a row without a partner stays. Conditions on what is found are for Where.
//
//	Sales.On(SaleUser.EqColumn(UserKey)).Where(Amount.Gt(5)).OrderBy(UserName.Asc()).Limit(10)
func (j *Join[J]) On(predicates ...Predicate[J]) Query[J] {
	return Query[J]{join: j, on: expressions(predicates)}
}

// title implements Rows.
func (j *Join[J]) title() string { return reflect.TypeFor[J]().Name() }

// fieldAt implements Rows.
func (j *Join[J]) fieldAt(selector func(*J) unsafe.Pointer, size uintptr) *field {
	probe := new(J)
	for _, p := range j.parts {
		if p.pointer {
			p.row(unsafe.Pointer(probe))
		}
	}
	at := selector(probe)
	for i, p := range j.parts {
		for _, f := range p.table.columns() {
			if f.size != size || at != f.at(p.row(unsafe.Pointer(probe))) {
				continue
			}
			joined := *f
			joined.part, joined.source = p, i
			joined.column.Nullable = f.column.Nullable || p.pointer
			return &joined
		}
	}
	return nil
}

// row returns the row of the part in a struct of the join, a new one if it is absent.
func (p *part) row(joined unsafe.Pointer) unsafe.Pointer {
	at := unsafe.Add(joined, p.offset)
	if !p.pointer {
		return at
	}
	if to := (*unsafe.Pointer)(at); *to == nil {
		*to = reflect.New(p.typ).UnsafePointer()
	}
	return *(*unsafe.Pointer)(at)
}

// bind returns the bindings of the tables.
func (j *Join[J]) bind(db *table.DB) (bound, error) {
	bs := make(bound, len(j.parts))
	for i, p := range j.parts {
		var err error
		if bs[i], err = p.table.bind(db); err != nil {
			return nil, err
		}
	}
	return bs, nil
}

// from adds the tables to a query, with the conditions that join them.
func (j *Join[J]) from(sel *plan.Select, bs bound, on []expr.Expr, args *arguments) error {
	terms := make([][]expr.Expr, len(bs))
	for _, e := range on {
		last := 0
		for c := range expr.Columns(e) {
			last = max(last, c.Source)
		}
		if last == 0 {
			return invalid("%s joins no table to %s: it is for Where", e, j.parts[0].name)
		}
		resolved, err := bs.resolve(e, args)
		if err != nil {
			return err
		}
		terms[last] = append(terms[last], resolved)
	}
	for i, p := range j.parts {
		sel.From = append(sel.From, plan.Source{Table: bs[i].schema, Alias: p.name})
		if i == 0 {
			continue
		}
		if len(terms[i]) == 0 {
			return invalid("no predicate of On compares a column of field %s, the rows of %s",
				p.name, p.table.Name())
		}
		next := plan.Join{On: expr.And{Terms: terms[i]}}
		if p.pointer {
			next.Kind = plan.Left
		}
		sel.Joins = append(sel.Joins, next)
	}
	return nil
}

// outputs are the columns of all tables, after a column of the primary key, which is never NULL,
// of those that may be absent.
func (j *Join[J]) outputs(bs bound) (columns []plan.Output) {
	for i, p := range j.parts {
		if p.pointer {
			key := bs[i].schema.Ref(i, bs[i].schema.KeyOrdinals()[0])
			columns = append(columns, plan.Output{Expr: key})
		}
		columns = bs[i].outputs(columns, i)
	}
	return columns
}

// read sets the rows of a struct of the join to the values of outputs.
func (j *Join[J]) read(joined unsafe.Pointer, values []expr.Value) error {
	for _, p := range j.parts {
		fields, absent := p.table.columns(), false
		if p.pointer {
			absent, values = values[0].IsNull(), values[1:]
		}
		if !absent {
			if err := setValues(p.row(joined), fields, values, true); err != nil {
				return err
			}
		}
		values = values[len(fields):]
	}
	return nil
}

// Columns makes the query read some columns only; the other fields of its rows are zero.
func (q Query[T]) Columns(columns ...Selector[T]) Query[T] {
	q.only = nil
	for _, c := range columns {
		q.only = append(q.only, c.column(nil))
	}
	return q
}

// wide reports whether the results are not whole rows of one table.
func (q *Query[T]) wide() bool { return q.join != nil || q.only != nil }

// wideOutputs are the columns of a wide query.
func (q *Query[T]) wideOutputs(bs bound) (columns []plan.Output) {
	if q.only == nil {
		return q.join.outputs(bs)
	}
	for _, f := range q.only {
		columns = append(columns, plan.Output{Expr: bs.ref(f), Name: f.column.Name})
	}
	return columns
}

// readWide returns what calls yield with the struct of each row of a wide query.
func (q *Query[T]) readWide(yield func(*T) bool) func([]expr.Value) (bool, error) {
	return func(values []expr.Value) (bool, error) {
		row := new(T)
		if q.only == nil {
			err := q.join.read(unsafe.Pointer(row), values)
			return err == nil && yield(row), err
		}
		for i, f := range q.only {
			if err := f.setIn(unsafe.Pointer(row), values[i]); err != nil {
				return false, err
			}
		}
		return yield(row), nil
	}
}

// setIn sets the field of a table or join in a struct of its rows. NULL leaves the row of a left
// join absent.
func (f *field) setIn(row unsafe.Pointer, v expr.Value) error {
	if f.part == nil {
		return f.set(row, v, true)
	}
	if v.IsNull() && f.part.pointer {
		return nil
	}
	return f.set(f.part.row(row), v, true)
}

// inJoin returns the prepared query for a database.
func (p *Prepared[T]) inJoin(db *table.DB) (*preparedFor, error) {
	bs, err := p.query.join.bind(db)
	if err != nil {
		return nil, err
	}
	if f := p.last.Load(); f != nil && slices.Equal(f.joined, bs) {
		return f, nil
	}
	f, err := p.query.prepared(db)
	if err == nil {
		f.joined = bs
		p.last.Store(f)
	}
	return f, err
}

// eachWide runs a wide query that is prepared.
func (p *Prepared[T]) eachWide(ctx context.Context, r table.Reader, f *preparedFor,
	bindings []Binding, yield func(*T) bool) error {
	rows, err := queryWith(ctx, f.prepared, r, f.args, bindings)
	if err != nil {
		return err
	}
	return eachRow(rows, p.query.readWide(yield))
}

// firstOf returns the first row of a sequence.
func firstOf[T any](rows iter.Seq2[T, error]) (T, error) {
	for row, err := range rows {
		return row, err
	}
	var none T
	return none, table.ErrNotFound
}
