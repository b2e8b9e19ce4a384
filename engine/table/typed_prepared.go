package table

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// PreparedQuery is a query that is planned once for each database and definition of its
// tables, and run with parameters. It may be used by any number of goroutines.
type PreparedQuery[T any] struct {
	query  Query[T]
	likely []expr.Value // nil, or what its constants were, see Query.generic
	last   atomic.Pointer[preparedFor]
}

// preparedFor is what a prepared query is for one database.
type preparedFor struct {
	b        *binding
	prepared *Prepared
	args     arguments
	point    []pointTerm // the primary key, nil if the query is another one
}

// pointTerm fixes a column of the primary key.
type pointTerm struct {
	ordinal int
	name    string // of the parameter, "" if it is value
	value   expr.Value
}

// pointOf returns the terms of a query that asks for a primary key and nothing else.
func (q *Query[T]) pointOf(b *binding) (terms []pointTerm) {
	key := b.schema.KeyOrdinals()
	if len(q.where) != len(key) || q.limit != nil || q.offset != nil || q.page ||
		q.index != "" || q.hints.Index != nil {
		return nil
	}
	seen := schema.Columns()
	for _, e := range q.where {
		c, ok := e.(expr.Cmp)
		if !ok || c.Op != expr.Eq {
			return nil
		}
		column, ok := c.L.(expr.Column)
		if !ok {
			return nil
		}
		term := pointTerm{ordinal: b.ordinals[column.Ordinal]}
		switch r := c.R.(type) {
		case expr.Const:
			term.value = r.Value
		case expr.Param:
			term.name = r.Name
		default:
			return nil
		}
		if seen.Has(term.ordinal) ||
			!slices.Contains(key, term.ordinal) {
			return nil
		}
		seen.Add(term.ordinal)
		terms = append(terms, term)
	}
	return terms
}

// load is First of a point.
func (p *PreparedQuery[T]) load(ctx context.Context, r Reader, f *preparedFor,
	bindings []Binding) (row T, err error) {
	s := getPool.Get().(*getScratch)
	defer s.release()
	s.blank(len(f.b.schema.Columns))
	for i := range f.point {
		t := &f.point[i]
		value := &t.value
		if t.name != "" {
			b := bindingOf(bindings, t.name)
			if b == nil || b.err != nil {
				_, err := f.args.values(nil, bindings)
				return row, err
			}
			value = &b.value
		}
		if value.IsNull() {
			return row, ErrNotFound
		}
		s.row[t.ordinal] = *value
	}
	err = p.query.table.load(ctx, r, f.b, s, unsafe.Pointer(&row))
	return row, err
}

// bindingOf returns the first binding of a name, nil if there is none.
func bindingOf(bindings []Binding, name string) *Binding {
	for i := range bindings {
		if bindings[i].name == name {
			return &bindings[i]
		}
	}
	return nil
}

// Prepare returns the query as one that is planned when it is first run, not each time.
func (q Query[T]) Prepare() *PreparedQuery[T] { return &PreparedQuery[T]{query: q} }

// in returns the query for a database.
func (p *PreparedQuery[T]) in(db *DB) (*preparedFor, error) {
	b, err := p.query.table.bind(db)
	if err != nil {
		return nil, err
	}
	if f := p.last.Load(); f != nil && f.b == b {
		return f, nil
	}
	f := &preparedFor{b: b}
	sel, err := p.query.rowsSelect(db, &f.args)
	if err != nil {
		return nil, err
	}
	if f.prepared, err = db.prepareLikely(sel, f.args.likely(p.likely)); err != nil {
		return nil, err
	}
	f.point = p.query.pointOf(b)
	p.last.Store(f)
	return f, nil
}

func (p *PreparedQuery[T]) rows(ctx context.Context, r Reader, bindings []Binding) (*Rows,
	error) {
	f, err := p.in(r.DB())
	if err != nil {
		return nil, err
	}
	return queryWith(ctx, f.prepared, r, f.args, bindings)
}

// paramsPool has room for the values of parameters.
var paramsPool = sync.Pool{New: func() any { return new([]expr.Value) }}

// All is Query.All with values for the parameters.
func (p *PreparedQuery[T]) All(ctx context.Context, r Reader,
	bindings ...Binding) iter.Seq2[T, error] {
	return allOf(func(yield func(*T) bool) error {
		return p.run(ctx, r, bindings, true, yield)
	})
}

// Each is Query.Each with values for the parameters.
func (p *PreparedQuery[T]) Each(ctx context.Context, r Reader,
	bindings ...Binding) iter.Seq2[*T, error] {
	return eachOf(func(yield func(*T) bool) error {
		return p.run(ctx, r, bindings, false, yield)
	})
}

func (p *PreparedQuery[T]) run(ctx context.Context, r Reader, bindings []Binding, keep bool,
	yield func(*T) bool) error {
	f, err := p.in(r.DB())
	if err != nil {
		return err
	}
	room := paramsPool.Get().(*[]expr.Value)
	defer paramsPool.Put(room)
	params, err := f.args.values((*room)[:0], bindings)
	if err != nil {
		return err
	}
	*room = params
	return p.runWith(ctx, r, f, params, -1, keep, yield)
}

// runWith runs the query with the values of its parameters. No more rows than most are wanted
// if that is not negative.
func (p *PreparedQuery[T]) runWith(ctx context.Context, r Reader, f *preparedFor,
	params []expr.Value, most int64, keep bool, yield func(*T) bool) error {
	if used, err := p.runStored(ctx, r, f, params, most, keep, yield); used {
		return err
	}
	rows, err := f.prepared.Query(ctx, r, params...)
	if err != nil {
		return err
	}
	return readRows(rows, p.query.table.fields, keep, yield)
}

// runStored reads rows from where they are stored into one struct. used is false if the query
// cannot be run so.
func (p *PreparedQuery[T]) runStored(ctx context.Context, r Reader, f *preparedFor,
	params []expr.Value, most int64, keep bool, yield func(*T) bool) (used bool, err error) {
	row, b := new(T), f.b
	var failed error
	used, err = f.prepared.stored(ctx, r, params, most,
		func(t *schema.Table, key store.Key, value []byte) bool {
			if t != b.schema {
				if b, failed = p.query.table.bindTo(r.DB(), b.core, t); failed != nil {
					return false
				}
			}
			if keep {
				failed = b.readOwn(unsafe.Pointer(row), key, value)
			} else {
				failed = b.read(unsafe.Pointer(row), key, value, false)
			}
			return failed == nil && yield(row)
		})
	if err == nil {
		err = failed
	}
	return used, err
}

// First returns the first row. The error matches ErrNotFound if there is none. A query that has
// an Eq for each column of the primary key, and no other condition, is a single read; as with
// Get, times are then cut to the unit of their column, as when they were written.
func (p *PreparedQuery[T]) First(ctx context.Context, r Reader, bindings ...Binding) (row T,
	err error) {
	f, err := p.in(r.DB())
	if err != nil {
		return row, err
	}
	if f.point != nil {
		return p.load(ctx, r, f, bindings)
	}
	room := paramsPool.Get().(*[]expr.Value)
	defer paramsPool.Put(room)
	params, err := f.args.values((*room)[:0], bindings)
	if err != nil {
		return row, err
	}
	*room = params
	return p.first(ctx, r, f, params)
}

// first is First with the values of the parameters.
func (p *PreparedQuery[T]) first(ctx context.Context, r Reader, f *preparedFor,
	params []expr.Value) (row T, err error) {
	found := new(T)
	if there, used, err := p.firstByIndex(ctx, r, f, params, unsafe.Pointer(found)); used {
		if err == nil && !there {
			err = ErrNotFound
		}
		return *found, err
	}
	err = ErrNotFound
	runErr := p.runWith(ctx, r, f, params, 1, true, func(found *T) bool {
		row, err = *found, nil
		return false
	})
	if runErr != nil {
		return row, runErr
	}
	return row, err
}

// Explain returns the plan for these values of the parameters.
func (p *PreparedQuery[T]) Explain(ctx context.Context, r Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	rows, err := p.rows(ctx, r, bindings)
	if err != nil {
		return nil, err
	}
	return rows.Explain()
}
