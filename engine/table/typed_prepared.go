package table

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/plan"
)

// PreparedQuery is a query that is planned once for each database and definition of its
// tables, and run with parameters. It may be used by any number of goroutines.
type PreparedQuery[T any] struct {
	query Query[T]
	last  atomic.Pointer[preparedFor]
}

// preparedFor is what a prepared query is for one database.
type preparedFor struct {
	b        *binding
	prepared *Prepared
	args     arguments
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
	if f.prepared, err = db.Prepare(sel); err != nil {
		return nil, err
	}
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
	rows, err := p.rows(ctx, r, bindings)
	if err != nil {
		return err
	}
	return readRows(rows, p.query.table.fields, keep, yield)
}

// First returns the first row. The error matches ErrNotFound if there is none.
func (p *PreparedQuery[T]) First(ctx context.Context, r Reader, bindings ...Binding) (row T,
	err error) {
	err = ErrNotFound
	runErr := p.run(ctx, r, bindings, true, func(found *T) bool {
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
