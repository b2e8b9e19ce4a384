package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine/store"
)

// Tx is a serialisable transaction over tables: what it has read, tables' definitions
// included, must be unchanged when it commits. It belongs to one goroutine. The definitions of
// tables are changed outside of transactions only.
type Tx struct {
	db    *DB
	store store.Tx
	seen  map[*tableCore]*tableState
	begun bool // by Begin
	// touched are the rows written so far, of tables that are watched.
	touched []touched
}

// TxOptions are how a transaction begins.
type TxOptions = store.TxOptions

// Savepoint is a state of what a transaction has written.
type Savepoint = store.Savepoint

// Begin begins a transaction that Commit or Rollback ends, for callers that cannot give it a
// function: see Update, and store.Transactor for what it holds until then. It is not run again
// after a conflict.
func (db *DB) Begin(ctx context.Context, o *TxOptions) (*Tx, error) {
	t, ok := db.store.(store.Transactor)
	if !ok {
		return nil, errNoTransactions
	}
	var own TxOptions
	if o != nil {
		own = *o
	}
	if own.MaxAge == 0 {
		own.MaxAge = db.opt.MaxTxAge
	}
	tx, err := t.Begin(ctx, &own)
	if err != nil {
		return nil, err
	}
	out := db.Join(tx)
	out.begun = true
	return out, nil
}

var errNoTransactions = fmt.Errorf("table: the store has no transactions that read and then "+
	"write: %w; read the rows first, and change them by their keys", errors.ErrUnsupported)

// Commit writes what the transaction has written, all of it or, with an error, nothing. The
// error matches ErrConflict if something that was read has changed. The transaction has ended
// then in any case. That of Update ends with its function.
func (tx *Tx) Commit(ctx context.Context) error {
	if tx.begun {
		defer tx.ended()
	}
	return tx.store.End(ctx)
}

// Rollback ends the transaction; nothing is written. After Commit it does nothing.
func (tx *Tx) Rollback() {
	tx.store.Rollback()
	if tx.begun {
		tx.ended()
	}
}

// Savepoint returns the present state of the writes, for RollbackTo. The transaction keeps it
// until Release, or RollbackTo an earlier one.
func (tx *Tx) Savepoint() Savepoint { return tx.store.Savepoint() }

// RollbackTo takes back what was written after a savepoint, which stays. What was read since
// then must be unchanged, too. Nothing may be iterated over meanwhile.
func (tx *Tx) RollbackTo(s Savepoint) error { return tx.store.RollbackTo(s) }

// Release removes a savepoint and those after it; the writes stay.
func (tx *Tx) Release(s Savepoint) error { return tx.store.Release(s) }

// Update runs fn in a transaction and commits what it has written if it returns nil. After
// a conflict with another commit fn runs again, until ctx ends; so it must have no other
// effects that cannot be repeated. An error of fn is returned and nothing is written.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	t, ok := db.store.(store.Transactor)
	if !ok {
		return errNoTransactions
	}
	var last *Tx // its predecessors have ended, too
	defer func() { last.ended() }()
	return t.Update(ctx, func(tx store.Tx) error {
		last.ended()
		last = db.Join(tx)
		return fn(last)
	})
}

// Join makes statements on tables part of a transaction of the store: what they write is
// committed with everything else it writes. For one of the engine, see local.NewTx.
func (db *DB) Join(tx store.Tx) *Tx {
	return &Tx{db: db, store: tx, seen: map[*tableCore]*tableState{}}
}

// Store returns the transaction of the store.
func (tx *Tx) Store() store.Tx { return tx.store }

// Expired reports whether the transaction was rolled back because of its age: see Options.MaxTxAge.
func (tx *Tx) Expired() bool { return tx.store.Expired() }

// DB returns the database.
func (tx *Tx) DB() *DB { return tx.db }

// Table returns the table with that name, in the transaction. The error matches
// ErrNoTable.
func (tx *Tx) Table(name string) (*Table, error) {
	t, err := tx.db.Table(name)
	if err != nil {
		return nil, err
	}
	return t.In(tx), nil
}

// state returns the definition of a table for the transaction. By reading it, the
// transaction cannot commit if it changes: so no writer misses an index that is new.
func (tx *Tx) state(ctx context.Context, core *tableCore) (*tableState, error) {
	if s := tx.seen[core]; s != nil {
		return s, nil
	}
	s, err := core.present()
	if err != nil {
		return nil, err
	}
	if err := tx.db.proven(ctx, tx.store, s); err != nil {
		return nil, err
	}
	tx.seen[core] = s
	return s, nil
}
