package table

import (
	"context"
	"iter"
	"sync/atomic"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
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
}

// isPoint reports whether the plan is a point, whatever the values are.
func (f *preparedFor) isPoint() bool {
	p := f.prepared.last.Load().plan.Physical()
	return p != nil && p.Point
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
	f, err := p.in(r.DB())
	if err != nil {
		return err
	}
	x := structRuns.Get().(*structRun)
	defer x.release()
	if x.params, err = f.args.values(x.params, bindings); err != nil {
		return err
	}
	row := new(T)
	return p.runInto(x, ctx, r, f, row, keep, func() bool { return yield(row) })
}

// runInto runs the query with the values of its parameters that x has, into row.
func (p *PreparedQuery[T]) runInto(x *structRun, ctx context.Context, r Reader, f *preparedFor,
	row *T, keep bool, yield func() bool) error {
	c, err := f.prepared.compile(r)
	if err != nil {
		return err
	}
	x.Rows.ctx, x.from, x.prepared, x.compiled = ctx, r, f.prepared, c
	x.Rows.params, x.after, x.into = x.params, f.prepared.sel.After, &x.structSink
	x.structSink = structSink{table: p.query.table, b: f.b, row: unsafe.Pointer(row), keep: keep,
		next: yield}
	return x.Rows.run()
}

// First returns the first row. The error matches ErrNotFound if there is none. A query that has
// an Eq for each column of the primary key, and no other condition, is a single read; as with
// Get, the times of its parameters are then cut to the unit of their column, as when they were
// written.
func (p *PreparedQuery[T]) First(ctx context.Context, r Reader, bindings ...Binding) (row T,
	err error) {
	f, err := p.in(r.DB())
	if err != nil {
		return row, err
	}
	x := structRuns.Get().(*structRun)
	defer x.release()
	if x.params, err = f.args.values(x.params, bindings); err != nil {
		return row, err
	}
	x.cut = true
	return p.first(x, ctx, r, f)
}

// first is First with the values of the parameters that x has.
func (p *PreparedQuery[T]) first(x *structRun, ctx context.Context, r Reader,
	f *preparedFor) (row T, err error) {
	x.most = 1
	if err = p.runInto(x, ctx, r, f, &row, true, nil); err == nil && x.returned == 0 {
		err = ErrNotFound
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
