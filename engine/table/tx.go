package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/store"
)

// Tx is a serialisable transaction over tables: what it has read, tables' definitions
// included, must be unchanged when it commits. It belongs to one goroutine.
type Tx struct {
	db    *DB
	tx    *engine.Tx
	store *store.TxStore
	seen  map[*tableCore]*tableState
	// touched are the rows written so far, of tables that somebody watches.
	touched []touched
}

// Update runs fn in a transaction and commits what it has written if it returns nil. After
// a conflict with another commit fn runs again, until ctx ends; so it must have no other
// effects that cannot be repeated. An error of fn is returned and nothing is written.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if db.engine == nil {
		return fmt.Errorf("table: transactions of this store: %w", errors.ErrUnsupported)
	}
	var last *Tx // its predecessors have ended, too
	defer func() { last.ended() }()
	return db.engine.UpdateRetry(ctx, func(tx *engine.Tx) error {
		last.ended()
		last = db.Join(tx)
		return fn(last)
	})
}

// Join makes statements on tables part of a transaction of the engine, whoever runs it:
// what they write is committed with everything else it writes.
func (db *DB) Join(tx *engine.Tx) *Tx {
	return &Tx{db: db, tx: tx, store: store.Tx(tx), seen: map[*tableCore]*tableState{}}
}

// Engine returns the transaction itself.
func (tx *Tx) Engine() *engine.Tx { return tx.tx }

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
func (tx *Tx) state(core *tableCore) (*tableState, error) {
	if s := tx.seen[core]; s != nil {
		return s, nil
	}
	s := core.state.Load()
	if s.gone {
		return nil, &NameError{s.Schema.Name, ErrNoTable}
	}
	it, err := tx.tx.GetItem(catalogueKey(markTable, s.Schema.ID))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if err != nil || it.Version != s.version {
		return nil, fmt.Errorf("table: the definition of %s is changing: %w", s.Schema.Name,
			ErrConflict)
	}
	tx.seen[core] = s
	return s, nil
}
