package sql

import (
	"context"
	"errors"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/store"
)

// AS OF makes a statement one over the tables of the past: it is bound to the definitions of then,
// by a session of its own. So it stands once, in the outermost query, and holds for all of it.

// asOf returns the moment of a query, or nil.
func asOf(s syntax.Statement) syntax.Expr {
	if e, ok := s.(*syntax.Explain); ok {
		s = e.Statement
	}
	q, ok := s.(*syntax.Select)
	if !ok {
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
			"SELECT, and not in subqueries, views and statements that write")
	}
	if p, ok := m.(*syntax.Param); ok {
		b.param(p)
	}
}

// momentOf returns the moment of AS OF.
func (s *Stmt) momentOf(args []any) (m store.Moment, err error) {
	b := &binder{text: s.text}
	pos := s.past.Position()
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
func (s *Stmt) at(ctx context.Context, m store.Moment, f func(*Stmt, store.Moment) error) error {
	then, m, err := s.session.db.AsOf(ctx, m)
	if err != nil {
		b := &binder{text: s.text}
		return b.refused(s.past.Position(), err)
	}
	err = f(&Stmt{session: Open(then), text: s.text, tree: s.tree, start: s.start, end: s.end}, m)
	return errors.Join(err, then.Close())
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

// queryPast is Query of a statement with AS OF. Why the tables are opened again for the rows: a
// result that nobody reads holds nothing.
func (s *Stmt) queryPast(ctx context.Context, args []any) (out *Rows, err error) {
	if s.session.InTransaction() {
		return nil, syntax.NewError(s.text, s.past.Position(), false, "a transaction reads one "+
			"moment; COMMIT or ROLLBACK ends it, and AS OF is possible then")
	}
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
