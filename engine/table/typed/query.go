package typed

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// Query is a query of rows T. It is an immutable value: its methods return another one, and
// it may be kept in a variable and used by any number of goroutines, with any database.
type Query[T any] struct {
	table    *Table[T]   // nil of a join
	join     *Join[T]    // nil of a table
	on       []expr.Expr // of a join
	only     []*field    // nil: all columns
	where    []expr.Expr
	order    []Term[T]
	limit    expr.Expr
	offset   expr.Expr
	after    []byte
	page     bool
	distinct bool
	hints    plan.Hints
	index    string
}

// Where returns the query of all rows for which the predicates are true.
func (t *Table[T]) Where(predicates ...Predicate[T]) Query[T] {
	return Query[T]{table: t, where: expressions(predicates)}
}

// Where adds predicates; all must be true.
func (q Query[T]) Where(predicates ...Predicate[T]) Query[T] {
	q.where = append(q.where[:len(q.where):len(q.where)], expressions(predicates)...)
	return q
}

// OrderBy orders the rows by some columns, the first one before the others. Without it they
// come in the order that is fastest.
func (q Query[T]) OrderBy(terms ...Term[T]) Query[T] {
	q.order = slices.Clone(terms)
	return q
}

// Limit ends the query after n rows.
func (q Query[T]) Limit(n int) Query[T] {
	q.limit = expr.Const{Value: expr.Int(int64(n))}
	return q
}

// LimitArg is Limit with a parameter.
func (q Query[T]) LimitArg(n Arg[int]) Query[T] {
	q.limit = expr.Param{Index: unnumbered, Name: n.Name}
	return q
}

// Offset leaves out the first n rows. Pages are read with Page instead: they cost the same
// however far along they are.
func (q Query[T]) Offset(n int) Query[T] {
	q.offset = expr.Const{Value: expr.Int(int64(n))}
	return q
}

// OffsetArg is Offset with a parameter.
func (q Query[T]) OffsetArg(n Arg[int]) Query[T] {
	q.offset = expr.Param{Index: unnumbered, Name: n.Name}
	return q
}

// After resumes after a page: see Page.
func (q Query[T]) After(cursor []byte) Query[T] {
	q.after, q.page = slices.Clone(cursor), true
	return q
}

// UseIndex makes the query use an index, plan.PrimaryIndex for the rows themselves. It fails
// if the index cannot answer it. Of a join it is the index of the first table.
func (q Query[T]) UseIndex(name string) Query[T] {
	q.index = name
	return q
}

// Hint sets hints for the planner. Those of UseIndex stay. The caller keeps h.Index.
func (q Query[T]) Hint(h plan.Hints) Query[T] {
	h.Index = maps.Clone(h.Index)
	q.hints = h
	return q
}

// title is the name of the table or join.
func (q *Query[T]) title() string {
	if q.join != nil {
		return q.join.title()
	}
	return q.table.name
}

// bind returns the bindings of the tables of the query.
func (q *Query[T]) bind(db *table.DB) (bound, error) {
	if q.join != nil {
		return q.join.bind(db)
	}
	b, err := q.table.bind(db)
	return bound{b}, err
}

// sel returns the query for a database, without columns.
func (q *Query[T]) sel(db *table.DB, args *arguments) (*plan.Select, bound, error) {
	bs, err := q.bind(db)
	if err != nil {
		return nil, nil, err
	}
	sel := &plan.Select{After: q.after, Page: q.page, Hints: q.hints}
	if q.index != "" {
		sel.Hints.Index = map[int]string{}
		maps.Copy(sel.Hints.Index, q.hints.Index)
		sel.Hints.Index[0] = q.index
	}
	if q.join == nil {
		sel.From = []plan.Source{{Table: bs[0].schema}}
	} else if err := q.join.from(sel, bs, q.on, args); err != nil {
		return nil, nil, err
	}
	switch len(q.where) {
	case 0:
	case 1:
		sel.Where, err = bs.resolve(q.where[0], args)
	default:
		sel.Where, err = bs.resolve(expr.And{Terms: q.where}, args)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, t := range q.order {
		o := t.order()
		o.Expr = bs.ref(t.field)
		sel.OrderBy = append(sel.OrderBy, o)
	}
	offset, err := bs.resolve(q.offset, args)
	if err != nil {
		return nil, nil, err
	}
	if q.after == nil { // else the first page has left these rows out
		sel.Offset = offset
	}
	sel.Limit, err = bs.resolve(q.limit, args)
	return sel, bs, err
}

// outputs are the columns of all fields, in their order.
func (b *binding) outputs(dst []plan.Output, at int) []plan.Output {
	for _, o := range b.ordinals {
		dst = append(dst, plan.Output{Expr: b.schema.Ref(at, o), Name: b.schema.Columns[o].Name})
	}
	return dst
}

// rowsSelect is the query that returns rows.
func (q *Query[T]) rowsSelect(db *table.DB, args *arguments) (*plan.Select, error) {
	sel, bs, err := q.sel(db, args)
	switch {
	case err != nil:
	case q.wide():
		sel.Columns = q.wideOutputs(bs)
	default:
		sel.Columns = bs[0].outputs(nil, 0)
	}
	return sel, err
}

// All returns the rows that the query finds. The sequence yields at most one error, last. The
// reader is a *table.DB, whose state at the beginning is read, a *table.Snapshot or a *Tx.
func (q Query[T]) All(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[T, error] {
	return allOf(func(yield func(*T) bool) error {
		return q.run(ctx, r, bindings, true, yield)
	})
}

// Each is All without allocating for rows: it yields the same struct again and again, whose
// texts are valid in the loop body only.
func (q Query[T]) Each(ctx context.Context, r table.Reader,
	bindings ...Binding) iter.Seq2[*T, error] {
	return eachOf(func(yield func(*T) bool) error {
		return q.run(ctx, r, bindings, false, yield)
	})
}

// allOf makes a sequence of values of what run yields.
func allOf[T any](run func(yield func(*T) bool) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := run(func(row *T) bool {
			stopped = !yield(*row, nil)
			return !stopped
		})
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// eachOf makes a sequence of what run yields.
func eachOf[T any](run func(yield func(*T) bool) error) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		stopped := false
		err := run(func(row *T) bool {
			stopped = !yield(row, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// run runs the query once.
func (q *Query[T]) run(ctx context.Context, r table.Reader, bindings []Binding, keep bool,
	yield func(*T) bool) error {
	if q.wide() {
		return statement(q.rowsSelect).each(ctx, r, bindings, q.readWide(yield))
	}
	x := q.table.run()
	defer q.table.release(x)
	f, err := q.planned(x, r, bindings)
	if err != nil {
		return err
	}
	return q.each(x, ctx, r, f, keep, yield)
}

// First returns the first row. The error matches table.ErrNotFound if there is none. A query
// that has an Eq for each column of the primary key, and no other condition, is a single read.
func (q Query[T]) First(ctx context.Context, r table.Reader, bindings ...Binding) (T, error) {
	if q.limit == nil {
		q = q.Limit(1)
	}
	if q.wide() {
		return firstOf(q.All(ctx, r, bindings...))
	}
	x := q.table.run()
	defer q.table.release(x)
	f, err := q.planned(x, r, bindings)
	if err != nil {
		var none T
		return none, err
	}
	n, err := f.prepared.Read(ctx, r, &x.rows, x.intoRow(q.table, f))
	return x.row, found(n, err)
}

// Count returns how many rows the query finds.
func (q Query[T]) Count(ctx context.Context, r table.Reader, bindings ...Binding) (int64, error) {
	n := int64(0)
	if q.limit != nil || q.offset != nil || q.page {
		for _, err := range q.Each(ctx, r, bindings...) {
			if err != nil {
				return 0, err
			}
			n++
		}
		return n, nil
	}
	q.order = nil
	err := statement(q.countSelect).each(ctx, r, bindings, func(v []expr.Value) (bool, error) {
		n, _ = v[0].AsInt()
		return false, nil
	})
	return n, err
}

// countSelect is the query that returns the number of rows.
func (q *Query[T]) countSelect(db *table.DB, args *arguments) (*plan.Select, error) {
	sel, _, err := q.sel(db, args)
	if err == nil {
		sel.Aggregates = []plan.Aggregate{{Func: plan.Count}}
	}
	return sel, err
}

// Exists reports whether the query finds a row.
func (q Query[T]) Exists(ctx context.Context, r table.Reader, bindings ...Binding) (bool, error) {
	_, err := q.First(ctx, r, bindings...)
	if errors.Is(err, table.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func queryWith(ctx context.Context, p *table.Prepared, r table.Reader, args arguments,
	bindings []Binding) (*table.Rows, error) {
	params, err := args.values(nil, bindings, nil)
	if err != nil {
		return nil, err
	}
	return p.Query(ctx, r, params...)
}

// Page returns the next rows, as many as Limit says, and the cursor for After to read those
// after them: nil if these were the last. Pages of one query follow each other exactly,
// whatever is written between them. A query without OrderBy is ordered by what is cheapest.
func (q Query[T]) Page(ctx context.Context, r table.Reader, bindings ...Binding) (rows []T,
	next []byte, err error) {
	if q.limit == nil {
		return nil, nil, invalid("a page needs a Limit")
	}
	q.page = true
	f := new(preparedFor)
	if !q.wide() {
		if f.b, err = q.table.bind(r.DB()); err != nil {
			return nil, nil, err
		}
	}
	sel, err := q.rowsSelect(r.DB(), &f.args)
	if err != nil {
		return nil, nil, err
	}
	x := new(run[T]) // a join has no table that keeps some
	if x.params, err = f.args.values(x.params, bindings, nil); err != nil {
		return nil, nil, err
	}
	limit := int64(0)
	limit, sel.Limit = pageSize(sel.Limit, x.params)
	x.params = append(x.params, expr.Int(limit+1))
	if f.prepared, err = r.DB().Prepare(sel); err != nil {
		return nil, nil, err
	}
	found, more := &x.rows, false
	keep := func(row *T) bool {
		if more = int64(len(rows)) == limit; more {
			return false
		}
		if rows = append(rows, *row); int64(len(rows)) == limit {
			next = found.Cursor()
		}
		return true
	}
	if !q.wide() {
		err = q.each(x, ctx, r, f, true, keep)
	} else if found, err = f.prepared.Query(ctx, r, x.params...); err == nil {
		err = eachRow(found, q.readWide(keep))
	}
	if err != nil || !more {
		return rows, nil, err
	}
	return rows, next, nil
}

// pageSize returns the value of the limit, and a limit of one row more: a row after the
// page reports that it is not the last one. That of a parameter is the next parameter.
func pageSize(limit expr.Expr, params []expr.Value) (n int64, more expr.Expr) {
	switch limit := limit.(type) {
	case expr.Const:
		n, _ = limit.AsInt()
		more = expr.Const{Value: expr.Int(n + 1)}
	case expr.Param:
		n, _ = params[limit.Index].AsInt()
		more = expr.Param{Index: len(params)}
	}
	if n <= 0 || n == math.MaxInt64 {
		return n, limit
	}
	return n, more
}

// Explain returns the plan of the query: which indexes it uses and how many rows it expects.
// Its String is the text.
func (q Query[T]) Explain(ctx context.Context, r table.Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	return statement(q.rowsSelect).explain(ctx, r, bindings)
}

// ExplainAnalyze runs the query and returns its plan with what was counted.
func (q Query[T]) ExplainAnalyze(ctx context.Context, r table.Reader, bindings ...Binding) (
	*plan.Explanation, error) {
	rows, err := statement(q.rowsSelect).rows(ctx, r, bindings)
	if err != nil {
		return nil, err
	}
	return rows.ExplainAnalyze()
}
