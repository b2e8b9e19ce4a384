package sql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
)

// transaction is the open transaction of a session. It belongs to one goroutine.
type transaction struct {
	tx         *table.Tx
	readOnly   bool
	why        error       // of a database that takes no writes, or nil
	savepoints []savepoint // the oldest first
	reading    int         // sequences of rows that are being iterated over
}

// savepoint is one that has a name.
type savepoint struct {
	name  string
	point table.Savepoint
}

// ConflictError is returned by COMMIT, and by statements whose tables have been redefined
// since BEGIN, if another commit came in between: what the transaction has read has changed.
// Nothing of it is written. It matches table.ErrConflict.
type ConflictError struct{ Err error }

// Error implements error.
func (e *ConflictError) Error() string {
	return "sql: transaction conflicted, run it again: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *ConflictError) Unwrap() error { return e.Err }

// conflicted returns an error that is a *ConflictError if it is about a conflict, and says what to
// do if it is about the age of the transaction.
func conflicted(err error) error {
	if errors.Is(err, table.ErrTxAge) {
		return errExpired
	}
	var already *ConflictError
	if errors.Is(err, table.ErrConflict) && !errors.As(err, &already) {
		return &ConflictError{err}
	}
	return err
}

// expired returns the error of a transaction that was rolled back because of its age. It stays open
// for COMMIT or ROLLBACK: what follows in a script counts on it.
func (t *transaction) expired() error {
	if t != nil && t.tx.Expired() {
		return errExpired
	}
	return nil
}

var errExpired = fmt.Errorf("%w: nothing since BEGIN is kept; ROLLBACK ends it, and BEGIN begins "+
	"again", table.ErrTxAge)

// errReading: what is iterated over must not change.
var errReading = errors.New("sql: rows of the transaction are being read; " +
	"break off or read them to the end first")

// InTransaction reports whether BEGIN has begun a transaction that is open.
func (s *Session) InTransaction() bool { return s.open.Load() != nil }

// Rollback ends the open transaction, if there is one, and reports whether there was one.
// Nothing of it is written.
func (s *Session) Rollback() bool {
	t := s.open.Swap(nil)
	if t != nil {
		t.tx.Rollback()
	}
	return t != nil
}

// reader returns what statements read.
func (s *Session) reader() table.Reader {
	if t := s.open.Load(); t != nil {
		return t.tx
	}
	return s.db
}

// bound returns the table that a definition is of, as statements read and write it.
func (s *Session) bound(def *schema.Table) (*table.Table, error) {
	t, err := s.db.Bound(def)
	if err != nil {
		return nil, err
	}
	return t.In(s.reader()), nil
}

// update runs fn in the open transaction, or else in one of its own.
func (s *Session) update(ctx context.Context, fn func(*table.Tx) error) error {
	if t := s.open.Load(); t != nil {
		return fn(t.tx)
	}
	return s.db.Update(ctx, fn)
}

// exec runs a statement in the transaction. If it fails, what it has written is taken back,
// and the transaction goes on.
func (t *transaction) exec(ctx context.Context, s *Stmt, args []any) (Result, error) {
	if err := cmp.Or(t.expired(), t.allows(s)); err != nil {
		return Result{}, err
	}
	before := t.tx.Savepoint()
	result, err := s.execBound(ctx, args)
	if errors.Is(err, table.ErrTxAge) { // meanwhile: there is nothing to take back
		return Result{}, conflicted(err)
	}
	if err != nil {
		err = conflicted(err)
		if undo := errors.Join(t.tx.RollbackTo(before), t.tx.Release(before)); undo != nil {
			err = errors.Join(err, undo)
		}
		return Result{}, err
	}
	return result, conflicted(t.tx.Release(before))
}

// allows returns an error for a statement that is not possible now.
func (t *transaction) allows(s *Stmt) error {
	verb := syntax.Verb(s.tree)
	switch s.tree.(type) {
	case *syntax.Insert, *syntax.Update, *syntax.Delete:
	default:
		return s.fail("%s is not possible in a transaction; COMMIT or ROLLBACK ends it", verb)
	}
	switch {
	case t.readOnly:
		err := s.fail("%s is not possible in a READ ONLY transaction", verb)
		if t.why != nil {
			err = fmt.Errorf("%w: %w", err, t.why)
		}
		return err
	case t.reading > 0:
		return errReading
	}
	return nil
}

// fail returns an error at the start of the statement.
func (s *Stmt) fail(format string, args ...any) error {
	return syntax.NewError(s.text, s.start, false, format, args...)
}

// control runs a statement about the transaction of the session.
func (s *Stmt) control(ctx context.Context, tree *syntax.Transaction, args []any) (Result,
	error) {
	if _, err := (&asked{text: s.text}).values(args, nil, s.start); err != nil {
		return Result{}, err
	}
	t := s.session.open.Load()
	var err error
	switch {
	case tree.Verb == "BEGIN" && t == nil:
		err = s.session.begin(ctx, tree.ReadOnly)
	case tree.Verb == "BEGIN":
		err = s.fail("a transaction is open; COMMIT or ROLLBACK ends it, and SAVEPOINT marks a " +
			"part of it")
	case t == nil:
		err = s.fail("there is no open transaction; BEGIN begins one")
	case tree.Verb == "COMMIT":
		s.session.open.Store(nil)
		if err = t.tx.Commit(ctx); !errors.Is(err, table.ErrTxAge) {
			err = conflicted(err)
		}
	case tree.Verb == "ROLLBACK":
		s.session.Rollback()
	case t.expired() != nil:
		err = t.expired()
	case tree.Verb == "SAVEPOINT":
		t.savepoints = append(t.savepoints, savepoint{tree.Savepoint.Text, t.tx.Savepoint()})
	default:
		err = s.toSavepoint(t, tree)
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Statement: tree.Verb}, nil
}

// begin begins a transaction. That over a database that is read-only is, too.
func (s *Session) begin(ctx context.Context, readOnly bool) error {
	tx, err := s.db.Begin(ctx, &table.TxOptions{ReadOnly: readOnly})
	var why error
	if errors.Is(err, store.ErrReadOnly) {
		readOnly, why = true, err
		tx, err = s.db.Begin(ctx, &table.TxOptions{ReadOnly: true})
	}
	if err != nil {
		return err
	}
	if !s.open.CompareAndSwap(nil, &transaction{tx: tx, readOnly: readOnly, why: why}) {
		tx.Rollback()
		return errors.New("sql: another goroutine has begun a transaction in this session")
	}
	return nil
}

// toSavepoint runs RELEASE or ROLLBACK TO. Of savepoints with one name the latest counts.
func (s *Stmt) toSavepoint(t *transaction, tree *syntax.Transaction) error {
	i := len(t.savepoints) - 1
	for i >= 0 && !sameName(t.savepoints[i].name, tree.Savepoint.Text) {
		i--
	}
	if i < 0 {
		var names []string
		for _, p := range t.savepoints {
			names = append(names, p.name)
		}
		return syntax.NewError(s.text, tree.Savepoint.Pos, false, "there is no savepoint %s%s",
			syntax.QuoteName(tree.Savepoint.Text), hint(tree.Savepoint.Text, names))
	}
	point := t.savepoints[i].point
	if tree.Verb == "RELEASE" {
		t.savepoints = slices.Delete(t.savepoints, i, len(t.savepoints))
		return t.tx.Release(point)
	}
	if t.reading > 0 {
		return errReading
	}
	t.savepoints = slices.Delete(t.savepoints, i+1, len(t.savepoints))
	return t.tx.RollbackTo(point)
}
