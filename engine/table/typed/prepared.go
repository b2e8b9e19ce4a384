package typed

import (
	"context"
	"iter"
	"sync/atomic"
	"unsafe"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// Prepared is a query that is planned once for each database and definition of its
// tables, and run with parameters. It may be used by any number of goroutines.
type Prepared[T any] struct {
	query Query[T]
	last  atomic.Pointer[preparedFor]
}

// preparedFor is what a prepared query is for one database.
type preparedFor struct {
	b        *binding
	joined   bound // in place of b
	prepared *table.Prepared
	args     arguments
}

// bindingOf returns the first binding of a name, or nil.
func bindingOf(bindings []Binding, name string) *Binding {
	for i := range bindings {
		if bindings[i].name == name {
			return &bindings[i]
		}
	}
	return nil
}

// Prepare returns the query as one that is planned when it is first run, not each time.
func (q Query[T]) Prepare() *Prepared[T] { return &Prepared[T]{query: q} }

// in returns the query for a database.
func (p *Prepared[T]) in(db *table.DB) (*preparedFor, error) {
	if p.query.join != nil {
		return p.inJoin(db)
	}
	b, err := p.query.table.bind(db)
	if err != nil {
		return nil, err
	}
	if f := p.last.Load(); f != nil && f.b == b {
		return f, nil
	}
	f, err := p.query.preparedOn(b)
	if err == nil {
		p.last.Store(f)
	}
	return f, err
}

// preparedOn is prepared for a table of a database.
func (q *Query[T]) preparedOn(b *binding) (*preparedFor, error) {
	f, err := q.prepared(b.table.DB())
	if err == nil {
		f.b = b
	}
	return f, err
}

// prepared plans the query for a database.
func (q *Query[T]) prepared(db *table.DB) (*preparedFor, error) {
	f := new(preparedFor)
	sel, err := q.rowsSelect(db, &f.args)
	if err != nil {
		return nil, err
	}
	f.prepared, err = db.Prepare(sel)
	return f, err
}

func (p *Prepared[T]) rows(ctx context.Context, r table.Reader, bindings []Binding) (*table.Rows,
	error) {
	f, err := p.in(r.DB())
	if err != nil {
		return nil, err
	}
	return queryWith(ctx, f.prepared, r, f.args, bindings)
}

// All is Query.All with values for the parameters.
func (p *Prepared[T]) All(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[T, error] {
	return allOf(func(yield func(*T) bool) error {
		return p.run(ctx, r, bindings, true, yield)
	})
}

// Each is Query.Each with values for the parameters.
func (p *Prepared[T]) Each(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[*T, error] {
	return eachOf(func(yield func(*T) bool) error {
		return p.run(ctx, r, bindings, false, yield)
	})
}

func (p *Prepared[T]) run(ctx context.Context, r table.Reader, bindings []Binding, keep bool,
	yield func(*T) bool) error {
	f, err := p.in(r.DB())
	if err != nil {
		return err
	}
	if p.query.wide() {
		return p.eachWide(ctx, r, f, bindings, yield)
	}
	x := p.query.table.run()
	defer p.query.table.release(x)
	if x.params, err = f.args.values(x.params, bindings, nil); err != nil {
		return err
	}
	return p.query.each(x, ctx, r, f, keep, yield)
}

// each runs a plan of the query with the values of its parameters that x has.
func (q *Query[T]) each(x *run[T], ctx context.Context, r table.Reader, f *preparedFor, keep bool,
	yield func(*T) bool) error {
	row := new(T)
	x.sink = sink{table: q.table, row: unsafe.Pointer(row), keep: keep,
		next: func() bool { return yield(row) }}
	_, err := f.prepared.Read(ctx, r, &x.rows, x.into(f))
	return err
}

// First returns the first row. The error matches table.ErrNotFound if there is none. A query
// that has an Eq for each column of the primary key, and no other condition, is a single read;
// as with Get, the times of its parameters are then cut to the unit of their column, as when
// they were written.
func (p *Prepared[T]) First(ctx context.Context, r table.Reader, bindings ...Binding) (row T,
	err error) {
	if p.query.wide() {
		return firstOf(p.All(ctx, r, bindings...))
	}
	f, err := p.in(r.DB())
	if err != nil {
		return row, err
	}
	x := p.query.table.run()
	defer p.query.table.release(x)
	if x.params, err = f.args.values(x.params, bindings, nil); err != nil {
		return row, err
	}
	x.request.Cut = true
	n, err := f.prepared.Read(ctx, r, &x.rows, x.intoRow(p.query.table, f))
	return x.row, found(n, err)
}

// found returns the error of a query of one row that has found n of them.
func found(n int64, err error) error {
	if err == nil && n == 0 {
		return table.ErrNotFound
	}
	return err
}

// Explain returns the plan for these values of the parameters.
func (p *Prepared[T]) Explain(ctx context.Context, r table.Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	rows, err := p.rows(ctx, r, bindings)
	if err != nil {
		return nil, err
	}
	return rows.Explain()
}
