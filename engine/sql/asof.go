package sql

import (
	"context"
	"errors"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
)

// AS OF makes a query one over the tables of the past: it is bound to the definitions of then, by a
// session of its own. So it stands once, in the outermost query, and holds for all of it. In INSERT
// that is the query whose rows are inserted: what was cannot change, so that the transaction that
// writes them need not read it.

// asOf returns the moment of a query, or of that of an INSERT; or nil.
func asOf(s syntax.Statement) syntax.Expr {
	if e, ok := s.(*syntax.Explain); ok {
		s = e.Statement
	}
	q, _ := s.(*syntax.Select)
	if in, ok := s.(*syntax.Insert); ok {
		q = in.Query
	}
	if q == nil {
		return nil
	}
	for q.Set != nil {
		q = q.Set.Queries[0]
	}
	return q.AsOf
}

// moment binds the AS OF of a query, which the statement has made sure of already.
func (b *binder) moment(m syntax.Expr) {
	if m == nil {
		return
	}
	if m != b.asOf {
		b.fail(m.Position(), "AS OF is the moment of a whole query: it stands in its first "+
			"SELECT, and not in subqueries and views")
	}
	if p, ok := m.(*syntax.Param); ok {
		b.param(p)
	}
}

// momentOf returns the moment of AS OF.
func (s *Stmt) momentOf(args []any) (m store.Moment, err error) {
	b := &binder{asked: asked{text: s.text}}
	pos := s.past.Position()
	if s.session.InTransaction() {
		return m, b.failed(pos, nil, "a transaction reads one moment; COMMIT or ROLLBACK ends it, "+
			"and AS OF is possible then")
	}
	var v expr.Value
	err = syntax.Caught(func() {
		switch e := s.past.(type) {
		case *syntax.Literal:
			v = b.literal(e)
		case *syntax.Param:
			var arg any
			if arg, err = argumentOf(e, args); err == nil {
				v, err = typ{}.argument(arg)
			}
			if err != nil {
				b.refuse(pos, err)
			}
		default:
			b.fail(pos, "AS OF wants a version, a time, how long ago as '15m', or a parameter")
		}
	})
	if err != nil {
		return m, err
	}
	if n, ok := v.AsInt(); ok && n >= 0 {
		return store.Moment{Version: uint64(n)}, nil
	}
	if t, ok := v.AsTime(); ok {
		return store.Moment{Time: t}, nil
	}
	text, ok := v.AsString()
	if !ok {
		text = v.String()
	}
	if m, err = store.ParseMoment(text, s.session.db.Now()); err != nil {
		err = b.refused(pos, err)
	}
	return m, err
}

// argumentOf returns the argument of a parameter.
func argumentOf(p *syntax.Param, args []any) (any, error) {
	if p.Index > 0 && p.Index <= len(args) {
		return args[p.Index-1], nil
	}
	for _, arg := range args {
		if named, ok := arg.(NamedValue); ok && named.Name == p.Name {
			return named.Value, nil
		}
	}
	return nil, errors.New("there is no value for the parameter")
}

// at calls f with the statement over the tables of a moment, and closes them after it.
func (s *Stmt) at(ctx context.Context, m store.Moment, f func(*Stmt, store.Moment) error,
) (err error) {
	then, m, err := s.session.db.AsOf(ctx, m)
	if err != nil {
		b := &asked{text: s.text}
		return b.refused(s.past.Position(), err)
	}
	defer func() { err = errors.Join(err, then.Close()) }() // also if the body of a loop panics
	past := &Stmt{session: Open(then), then: then, text: s.text, tree: s.tree, start: s.start,
		end: s.end}
	if _, ok := s.explained().(*syntax.Insert); ok {
		past.session = s.session // of the tables that are written
	}
	return f(past, m)
}

// held returns an argument that shares no memory with the caller's: that may be written to before
// the rows are read.
func held(arg any) any {
	switch a := arg.(type) {
	case NamedValue:
		a.Value = held(a.Value)
		return a
	case Untyped:
		return a
	}
	if v, err := expr.From(arg); err == nil {
		return v
	}
	return arg
}

// boundThen is bound to the tables of the moment, which is written in the statement.
func (s *Stmt) boundThen() (b *binding, err error) {
	m, err := s.momentOf(nil)
	if err != nil {
		return nil, err
	}
	err = s.at(context.Background(), m, func(then *Stmt, _ store.Moment) (err error) {
		b, err = then.bound()
		return err
	})
	return b, err
}

// execPast is execBound of an INSERT with AS OF.
func (s *Stmt) execPast(ctx context.Context, args []any) (result Result, err error) {
	m, err := s.momentOf(args)
	if err != nil {
		return Result{}, err
	}
	err = s.at(ctx, m, func(then *Stmt, _ store.Moment) (err error) {
		result, err = then.execBound(ctx, args)
		return err
	})
	return result, err
}

// source returns what the query of the statement is bound to and reads: the tables of AS OF, or
// those of the session and reader.
func (s *Stmt) source(reader table.Reader) (*table.DB, table.Reader) {
	if s.then != nil {
		return s.then, s.then
	}
	return s.session.db, reader
}

// queryPast is Query of a statement with AS OF. Why the tables are opened again for the rows: a
// result that nobody reads holds nothing.
func (s *Stmt) queryPast(ctx context.Context, args []any) (out *Rows, err error) {
	m, err := s.momentOf(args)
	if err != nil {
		return nil, err
	}
	err = s.at(ctx, m, func(then *Stmt, exact store.Moment) (err error) {
		m = exact
		out, err = then.Query(ctx, args...)
		return err
	})
	if err != nil || out.Plan != nil {
		return out, err
	}
	args = slices.Clone(args)
	for i := range args {
		args[i] = held(args[i])
	}
	return &Rows{Columns: out.Columns, past: func(yield func([]expr.Value, error) bool) {
		more := true
		err := s.at(ctx, m, func(then *Stmt, _ store.Moment) error {
			rows, err := then.Query(ctx, args...)
			if err != nil {
				return err
			}
			for row, err := range rows.All() {
				if more = yield(row, err) && err == nil; !more {
					break
				}
			}
			return nil
		})
		if err != nil && more {
			yield(nil, err)
		}
	}}, nil
}
