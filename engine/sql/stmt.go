package sql

import (
	"context"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// Stmt is a prepared statement. It may be used concurrently.
type Stmt struct {
	session    *Session
	text       string
	tree       Statement
	start, end int // of the statement in text; end 0 is all of it
	last       atomic.Pointer[binding]
}

// binding is a statement bound to the tables as they were.
type binding struct {
	binder *binder
	// One of these is set, none for what is bound when it is run: definitions.
	query  *scope
	insert *boundInsert
	change *boundUpdate

	prepared *table.Prepared // of query
}

// Text returns the statement as it was written.
func (s *Stmt) Text() string {
	if s.end == 0 {
		return s.text
	}
	return s.text[s.start:s.end]
}

// Tree returns the parsed statement.
func (s *Stmt) Tree() Statement { return s.tree }

// Returns reports whether the statement returns rows, so that it is for Query.
func (s *Stmt) Returns() bool {
	switch s.tree.(type) {
	case *Select, *Explain:
		return true
	}
	return false
}

// Writes reports whether the statement changes the database.
func (s *Stmt) Writes() bool { return !s.Returns() }

// Params returns the names of the parameters, in their order, empty for those without; and
// fails as Query and Exec do.
func (s *Stmt) Params() ([]string, error) {
	b, err := s.bound()
	if err != nil {
		return nil, err
	}
	names := make([]string, b.binder.params.count())
	copy(names, b.binder.params.names)
	return names, nil
}

// bound returns the statement bound to the present tables.
func (s *Stmt) bound() (*binding, error) {
	if last := s.last.Load(); last != nil && last.present() {
		return last, nil
	}
	b := &binding{binder: &binder{catalog: tables{s.session.db}, text: s.text}}
	tree := s.tree
	if e, ok := tree.(*Explain); ok {
		tree = e.Statement
	}
	err := b.binder.bound(func() {
		switch tree := tree.(type) {
		case *Select:
			b.query = b.binder.selectQuery(tree, nil)
		case *Insert:
			b.insert = b.binder.insert(tree)
		case *Update:
			b.change = b.binder.update(tree)
		case *Delete:
			b.change = b.binder.delete(tree)
		}
	})
	if err != nil {
		return nil, err
	}
	if b.query != nil {
		if b.prepared, err = s.session.db.Prepare(b.query.sel); err != nil {
			return nil, b.binder.planError(err, s.start)
		}
	}
	s.last.Store(b)
	return b, nil
}

// present reports whether the tables are still those that were bound.
func (b *binding) present() bool {
	for _, t := range b.binder.used {
		if b.binder.catalog.Schema(t.Name) != t {
			return false
		}
	}
	return true
}

// Query runs the statement: see Session.Query.
func (s *Stmt) Query(ctx context.Context, args ...any) (*Rows, error) {
	if !s.Returns() {
		return nil, ErrNoResult
	}
	b, err := s.bound()
	if err != nil {
		return nil, err
	}
	values, err := b.binder.params.values(args)
	if err != nil {
		return nil, err
	}
	prepared, columns := b.prepared, []ColumnInfo(nil)
	if b.change != nil {
		if prepared, err = s.session.db.Prepare(b.change.query); err != nil {
			return nil, b.binder.planError(err, s.start)
		}
	} else {
		columns = b.query.columns()
	}
	rows, err := prepared.Query(ctx, s.session.db, values...)
	if err != nil {
		return nil, b.binder.planError(err, s.start)
	}
	out := &Rows{Columns: columns, rows: rows, stmt: s, binder: b.binder}
	if e, ok := s.tree.(*Explain); ok {
		return out, out.explain(e.Run)
	}
	return out, nil
}

// columns describes the result of a query.
func (sc *scope) columns() []ColumnInfo {
	out := make([]ColumnInfo, len(sc.outputs))
	for i, o := range sc.outputs {
		out[i] = ColumnInfo{Name: o.name, Type: o.typ.String()}
	}
	return out
}

// Explain returns the plan of a SELECT, UPDATE or DELETE, without running it.
func (s *Stmt) Explain(ctx context.Context, args ...any) (*plan.Explanation, error) {
	e := &Stmt{session: s.session, text: s.text, start: s.start, end: s.end}
	e.tree = &Explain{Statement: s.tree}
	if already, ok := s.tree.(*Explain); ok {
		e.tree = &Explain{Statement: already.Statement}
	}
	rows, err := e.Query(ctx, args...)
	if err != nil {
		return nil, err
	}
	return rows.Plan, nil
}
