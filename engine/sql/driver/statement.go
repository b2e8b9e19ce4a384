package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	engine "github.com/kstonedb/kstone/engine/sql"
)

// statements are a prepared text: mostly one statement.
type statements struct {
	conn  *conn
	parts []*engine.Stmt
}

var _ interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
} = (*statements)(nil)

// Close implements driver.Stmt.
func (s *statements) Close() error { return nil }

// NumInput implements driver.Stmt: the statements check the number themselves.
func (s *statements) NumInput() int { return -1 }

// CheckNamedValue implements driver.NamedValueChecker.
func (s *statements) CheckNamedValue(v *driver.NamedValue) error {
	return s.conn.CheckNamedValue(v)
}

// Exec implements driver.Stmt; package sql calls ExecContext.
func (s *statements) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }

// Query implements driver.Stmt; package sql calls QueryContext.
func (s *statements) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }

// ExecContext implements driver.StmtExecContext. If a statement returns rows, none is run.
func (s *statements) ExecContext(ctx context.Context, args []driver.NamedValue,
) (driver.Result, error) {
	if err := s.conn.usable(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.parts, (*engine.Stmt).Returns) {
		return nil, engine.ErrNoResult
	}
	given := arguments{list: args}
	if err := given.check(s.parts); err != nil {
		return nil, err
	}
	var total result
	for _, part := range s.parts {
		own, err := given.of(part, len(s.parts) == 1)
		if err != nil {
			return nil, err
		}
		done, err := part.Exec(ctx, own...)
		if err != nil {
			return nil, err
		}
		total.rows += done.Rows
		if done.HasLastID {
			total.id, total.hasID = done.LastID, true
		}
	}
	return total, nil
}

// QueryContext implements driver.StmtQueryContext.
func (s *statements) QueryContext(ctx context.Context, args []driver.NamedValue,
) (driver.Rows, error) {
	if err := s.conn.usable(ctx); err != nil {
		return nil, err
	}
	first := 0
	for first < len(s.parts) && !s.parts[first].Returns() {
		first++
	}
	for _, part := range s.parts[first:] {
		if !part.Returns() {
			return nil, fmt.Errorf("kstone: %s follows a statement that returns rows; run it by "+
				"itself", part.Text())
		}
	}
	if first == len(s.parts) {
		return nil, engine.ErrNoResult
	}
	r := &rows{ctx: ctx, given: arguments{list: args}, alone: len(s.parts) == 1}
	if err := r.given.check(s.parts); err != nil {
		return nil, err
	}
	for _, part := range s.parts[:first] {
		own, err := r.given.of(part, false)
		if err == nil {
			_, err = part.Exec(ctx, own...)
		}
		if err != nil {
			return nil, err
		}
	}
	r.parts = s.parts[first:]
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// arguments are those of several statements.
type arguments struct {
	list []driver.NamedValue
	used int // those before are taken, or have names
}

// check returns an error if statements take more arguments without names than there are, or fewer:
// the first of them would be done by the time that another one finds it. One alone does so itself.
func (a *arguments) check(parts []*engine.Stmt) error {
	if len(parts) == 1 {
		return nil
	}
	given, taken := 0, 0
	for _, v := range a.list {
		if v.Name == "" {
			given++
		}
	}
	for _, s := range parts {
		taken += s.Values()
	}
	if given != taken {
		return fmt.Errorf("%w: %d values for %d parameters", engine.ErrArguments, given, taken)
	}
	return nil
}

// of returns the arguments of the next statement: those with the names of its parameters, or the
// next ones in their order. If it is alone they are all its own.
func (a *arguments) of(s *engine.Stmt, alone bool) (own []any, err error) {
	if alone {
		for _, v := range a.list {
			own = append(own, value(v))
		}
		return own, nil
	}
	names, err := s.Params()
	if err != nil {
		return nil, err
	}
	if len(names) > 0 && names[0] == "" {
		for ; len(own) < len(names) && a.used < len(a.list); a.used++ {
			if v := a.list[a.used]; v.Name == "" {
				own = append(own, value(v))
			}
		}
		return own, nil
	}
	for _, v := range a.list {
		for _, name := range names {
			if v.Name == name {
				own = append(own, value(v))
			}
		}
	}
	return own, nil
}

func value(v driver.NamedValue) any {
	if v.Name != "" {
		return engine.Named(v.Name, v.Value)
	}
	return v.Value
}

// result is how many rows statements have written, changed or deleted, and the number of the last
// row of an INSERT, if its table has numbers.
type result struct {
	rows, id int64
	hasID    bool
}

// RowsAffected implements driver.Result.
func (r result) RowsAffected() (int64, error) { return r.rows, nil }

// LastInsertId implements driver.Result.
func (r result) LastInsertId() (int64, error) {
	if !r.hasID {
		return 0, errors.New("kstone: there is no LastInsertId: no row was inserted into a table " +
			"with an IDENTITY column")
	}
	return r.id, nil
}
