package sql

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// Stmt is a prepared statement. It may be used concurrently.
type Stmt struct {
	session    *Session
	text       string
	tree       syntax.Statement // or dropped
	start, end int              // of the statement in text; end 0 is all of it
	// past is the moment that the tables of the session are not yet those of: AS OF. Nil without.
	past   syntax.Expr
	then   *table.DB // that the query reads; nil: that of the session
	values int       // that parameters without names take, of PrepareParts
	last   atomic.Pointer[binding]
}

// binding is a statement bound to the tables as they were.
type binding struct {
	asked  *asked
	binder *binder           // nil of a query
	tables table.Definitions // that it was bound to
	// One of these is set, none for what is bound when it is run: definitions.
	sel    *plan.Select
	insert *boundInsert
	change *boundUpdate

	returning *scope // of RETURNING, beside insert or change; or nil

	prepared *table.Prepared // of sel
	columns  []ColumnInfo    // of the result of sel
}

// boundQuery is the binding of a query, with the memory of its parts.
type boundQuery struct {
	binding
	stmt *Stmt
	said asked
	sel  plan.Select
}

// Text returns the statement as it was written.
func (s *Stmt) Text() string {
	if s.end == 0 {
		return s.text
	}
	return s.text[s.start:s.end]
}

// Pos returns where the statement begins in the text that it was prepared with, in bytes.
func (s *Stmt) Pos() int { return s.start }

// Returns reports whether the statement returns rows, so that it is for Query.
func (s *Stmt) Returns() bool {
	switch s.tree.(type) {
	case *syntax.Select, *syntax.Explain, *syntax.Show:
		return true
	}
	_, outputs := returning(s.tree)
	return outputs != nil
}

// Values returns how many values the parameters without names of a statement of PrepareParts take:
// it does not look at tables, which may not be there yet.
func (s *Stmt) Values() int { return s.values }

// Params returns the names of the parameters, in their order, empty for those without; and
// fails as Query and Exec do.
func (s *Stmt) Params() ([]string, error) {
	bound := s.bound
	if _, given := s.past.(*syntax.Literal); given {
		bound = s.boundThen
	}
	b, err := bound()
	if err != nil {
		return nil, err
	}
	names := make([]string, b.asked.params.count())
	copy(names, b.asked.params.names)
	return names, nil
}

// bound returns the statement bound to the present tables.
func (s *Stmt) bound() (*binding, error) {
	if last := s.last.Load(); last != nil && s.present(last) {
		return last, nil
	}
	for {
		tables := s.session.db.Definitions()
		b, err := s.bind(params{})
		if err == nil && b.asked.params.again {
			b, err = s.bind(params{base: b.asked.params.count(), final: true})
		}
		if err == nil && b.sel != nil {
			b.prepared, err = s.prepare(b)
		}
		switch {
		case err == nil:
			s.last.Store(b)
			return b, nil
		case b == nil && tables == s.session.db.Definitions(): // or it has seen some of each
			return nil, err
		case b == nil:
		case !s.outdated(b, err):
			return nil, b.asked.planError(err, s.start)
		}
	}
}

// prepare plans a query. EXPLAIN shows values as they are written.
func (s *Stmt) prepare(b *binding) (*table.Prepared, error) {
	if _, ok := s.tree.(*syntax.Select); !ok || b.asked.params.any() {
		return s.session.db.Prepare(b.sel)
	}
	return s.session.db.PrepareLiterals(b.sel)
}

// bind resolves the names of the statement, with what is known of its parameters.
func (s *Stmt) bind(p params) (*binding, error) {
	tree := s.explained()
	if sel, ok := tree.(*syntax.Select); ok {
		return s.bindQuery(sel, p)
	}
	own := &struct {
		binding
		made binder
	}{made: s.binder(p)}
	b := &own.binding
	b.asked, b.binder, b.tables = &own.made.asked, &own.made, s.session.db.Definitions()
	err := syntax.Caught(func() {
		switch tree := tree.(type) {
		case *syntax.Show:
			b.result(b.binder.selectQuery(b.binder.show(tree), nil))
		case *syntax.Insert:
			b.insert = b.binder.insert(tree)
		case *syntax.Update:
			b.change = b.binder.update(tree)
		case *syntax.Delete:
			b.change = &boundUpdate{table: b.binder.table(tree.Table),
				query: b.binder.rowQuery(tree.Table, tree.Alias, tree.Where)}
		}
		if t, outputs := returning(tree); outputs != nil {
			b.returning = b.binder.returning(t, outputs)
		}
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// bindQuery is bind of a query.
func (s *Stmt) bindQuery(tree *syntax.Select, p params) (*binding, error) {
	b, in := &boundQuery{stmt: s}, scratches.Get().(*scratch)
	b.tables, b.asked = s.session.db.Definitions(), &b.said
	in.binder = s.binder(p)
	in.binder.query, in.binder.scratch = b, in
	in.binder.scopes, in.binder.reaches = in.scopes[:0], in.reaches[:0]
	in.binder.used = in.used[:0]
	if err := syntax.Caught(func() { b.result(in.binder.selectQuery(tree, nil)) }); err != nil {
		return nil, err
	}
	b.said = in.binder.asked
	*in = scratch{}
	scratches.Put(in)
	return &b.binding, nil
}

// result takes a query that is bound.
func (b *binding) result(query *scope) { b.sel, b.columns = query.sel, query.columns() }

// explained returns the statement, that of EXPLAIN without that word.
func (s *Stmt) explained() syntax.Statement {
	switch tree := s.tree.(type) {
	case *syntax.Explain:
		return tree.Statement
	case *syntax.Select:
		if tree == dropped {
			again, err := syntax.Parse(s.text)
			if err != nil {
				panic(err) // it was a query before
			}
			return again
		}
	}
	return s.tree
}

// selects returns the SELECT that explained is, or nil.
func (s *Stmt) selects() *syntax.Select {
	sel, _ := s.explained().(*syntax.Select)
	return sel
}

func (s *Stmt) binder(p params) binder {
	then, _ := s.source(nil)
	return binder{catalog: tables{s.session.db}, then: tables{then},
		asked: asked{text: s.text, params: p}, asOf: asOf(s.tree)}
}

// present reports whether the tables are still those that were bound. Why all tables: a name may
// be that of another one now, and definitions change seldom.
func (s *Stmt) present(b *binding) bool { return b.tables == s.session.db.Definitions() }

// Query runs the statement: see Session.Query.
func (s *Stmt) Query(ctx context.Context, args ...any) (*Rows, error) {
	if !s.Returns() {
		return nil, ErrNoResult
	}
	if _, outputs := returning(s.tree); outputs != nil {
		return s.queryReturning(ctx, args)
	}
	if s.past != nil {
		return s.queryPast(ctx, args)
	}
	for {
		rows, b, err := s.query(ctx, args)
		if b == nil || !s.outdated(b, err) {
			return rows, err
		}
	}
}

// query binds the statement and begins it.
func (s *Stmt) query(ctx context.Context, args []any) (*Rows, *binding, error) {
	if err := s.session.open.Load().expired(); err != nil {
		return nil, nil, err
	}
	b, err := s.bound()
	if err != nil {
		return nil, nil, err
	}
	values, err := b.asked.values(args, s.session.db.Now, s.start)
	if err != nil {
		return nil, nil, err
	}
	prepared := b.prepared
	db, reader := s.source(s.session.reader())
	if sel := b.finds(); sel != nil {
		if prepared, err = db.Prepare(sel); err != nil {
			return nil, b, b.asked.planError(err, s.start)
		}
	}
	if prepared == nil { // EXPLAIN of what finds nothing
		return nil, b, ErrNoResult
	}
	rows, err := prepared.Query(ctx, reader, values...)
	if err != nil {
		return nil, b, conflicted(b.asked.planError(err, s.start))
	}
	out := &Rows{Columns: b.columns, rows: rows, stmt: s, asked: b.asked,
		in: s.session.open.Load()}
	if e, ok := s.tree.(*syntax.Explain); ok {
		err = out.explain(e.Run)
	}
	return out, b, err
}

// finds returns the query of a statement that changes what it finds, or inserts it; or nil.
func (b *binding) finds() *plan.Select {
	switch {
	case b.change != nil:
		return b.change.query
	case b.insert != nil:
		return b.insert.query
	}
	return nil
}

// columns describes the result of a query.
func (sc *scope) columns() []ColumnInfo {
	out := make([]ColumnInfo, len(sc.outputs))
	for i, o := range sc.outputs {
		out[i] = ColumnInfo{Name: o.name, Type: o.typ.String(), NotNull: sc.notNull(o.expr),
			Table: sc.tableOf(o.expr)}
	}
	return out
}

// tableOf returns the name of the table whose column an output is, or nothing.
func (sc *scope) tableOf(e expr.Expr) string {
	c, ok := e.(expr.Column)
	if !ok || c.Source < 0 || c.Source >= len(sc.sel.From) {
		return ""
	}
	if s := &sc.sel.From[c.Source]; s.Table != nil {
		return s.Table.Name
	}
	return ""
}

// notNull reports whether an output is a column of a table that is never NULL.
func (sc *scope) notNull(e expr.Expr) bool {
	c, ok := e.(expr.Column)
	if !ok || c.Source < 0 || c.Source >= len(sc.sel.From) {
		return false
	}
	t := sc.sel.From[c.Source].Table
	full := func(j plan.Join) bool { return j.Kind == plan.Full }
	outer := c.Source > 0 && sc.sel.Joins[c.Source-1].Kind == plan.Left ||
		slices.ContainsFunc(sc.sel.Joins, full)
	return t != nil && !outer && !t.Columns[c.Ordinal].Nullable
}

// Expected returns how many items of the store, rows and index entries, a SELECT, UPDATE, DELETE or
// INSERT of a query is expected to read, and how many an INSERT is to write after that.
func (s *Stmt) Expected(ctx context.Context, args ...any) (reads, writes float64, err error) {
	e, err := s.Explain(ctx, args...)
	if err != nil {
		return 0, 0, err
	}
	if b, err := s.bound(); err == nil && b.insert != nil {
		writes = e.Rows * float64(1+len(b.insert.table.Indexes))
	}
	return e.Reads, writes, nil
}

// Explain returns the plan of a SELECT, UPDATE, DELETE or INSERT of a query, without running it.
func (s *Stmt) Explain(ctx context.Context, args ...any) (*plan.Explanation, error) {
	return s.explain(ctx, false, args)
}

// ExplainAnalyze is Explain with what is counted when the query is run; nothing is changed.
func (s *Stmt) ExplainAnalyze(ctx context.Context, args ...any) (*plan.Explanation, error) {
	return s.explain(ctx, true, args)
}

func (s *Stmt) explain(ctx context.Context, run bool, args []any) (*plan.Explanation, error) {
	e := &Stmt{session: s.session, text: s.text, start: s.start, end: s.end, past: s.past}
	e.tree = &syntax.Explain{Statement: s.explained(), Run: run}
	rows, err := e.Query(ctx, args...)
	if err != nil {
		return nil, err
	}
	return rows.Plan, nil
}
