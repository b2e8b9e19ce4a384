package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// Tx is a transaction of the server.
type Tx struct {
	remote.Reader
	view     *view
	readOnly bool
	saved    uint64
	marks    []uint64 // the savepoints, the oldest first
	wrote    bool     // since it began, and so End has something to lose
	expired  atomic.Bool
	timer    *time.Timer // of TxOptions.MaxAge, or nil
}

var _ interface {
	store.Tx
	store.Counter
} = (*Tx)(nil)

const beginTx = "BEGIN ISOLATION LEVEL SERIALIZABLE"

// Begin implements store.Transactor. The transaction begins with its first read or write, and sees
// what had been committed then. It has a connection until it ends.
func (s *Store) Begin(ctx context.Context, o *store.TxOptions) (store.Tx, error) {
	if err := s.CheckCall(ctx); err != nil {
		return nil, err
	}
	tx := &Tx{view: &view{s: s, begin: beginTx}}
	if o != nil && o.ReadOnly {
		tx.view.begin, tx.readOnly = tx.view.begin+" READ ONLY", true
	}
	tx.Reader = tx.view.reader()
	tx.Reader.Ahead = remote.NoAhead
	switch {
	case o == nil || o.MaxAge == 0:
	case o.MaxAge < 0:
		return nil, invalid("MaxAge is %s", o.MaxAge)
	default:
		tx.timer = time.AfterFunc(o.MaxAge, func() {
			tx.expired.Store(true)
			tx.view.end()
		})
	}
	return tx, nil
}

// Update implements store.Transactor.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	return remote.Update(ctx, s.Begin, fn)
}

// Commit implements store.Writer: it checks the conditions and adds the writes.
func (tx *Tx) Commit(ctx context.Context, w *store.WriteSet) error {
	s := tx.view.s
	if err := cmp.Or(store.CheckContext(ctx), s.validate(w)); err != nil {
		return err
	}
	b := s.Layout.NewBatch(w)
	switch {
	case tx.readOnly && len(b.Writes) > 0:
		return fmt.Errorf("postgres: %w: so the transaction has begun", store.ErrReadOnly)
	case w.Len() == 0:
		return nil
	}
	args, err := s.args(b)
	if err != nil {
		return err
	}
	if tx.readOnly {
		return tx.require(ctx, w, b)
	}
	var failed *store.ConditionError
	err = tx.send(ctx, "commit", func(b *pgx.Batch) { b.Queue(s.sql.commit, args...) },
		func(r pgx.BatchResults) (err error) {
			failed, err = failedCondition(w, r)
			return err
		})
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	}
	tx.wrote = tx.wrote || len(b.Writes) > 0
	return nil
}

// send sends a statement of the transaction.
func (tx *Tx) send(ctx context.Context, doing string, queue func(*pgx.Batch),
	read func(pgx.BatchResults) error) error {
	ctx, cancel := tx.view.s.Within(ctx)
	defer cancel()
	b := &pgx.Batch{}
	queue(b)
	return tx.view.failure(ctx, doing, tx.view.send(ctx, b, read))
}

// require checks conditions by reading.
func (tx *Tx) require(ctx context.Context, w *store.WriteSet, b *remote.Batch) error {
	pairs, err := tx.view.Get(ctx, b.CondKeys())
	if err != nil {
		return err
	}
	return b.Check(w, pairs, tx.Now())
}

// Savepoint implements store.Tx. The server makes it with the next request.
func (tx *Tx) Savepoint() store.Savepoint {
	tx.saved++
	tx.marks = append(tx.marks, tx.saved)
	tx.view.first("SAVEPOINT k%d", tx.saved)
	return store.Savepoint(tx.saved)
}

// RollbackTo implements store.Tx.
func (tx *Tx) RollbackTo(s store.Savepoint) error {
	i := slices.Index(tx.marks, uint64(s))
	if i < 0 {
		return invalid("the transaction has no such savepoint any more")
	}
	tx.marks = tx.marks[:i+1]
	tx.view.first("ROLLBACK TO SAVEPOINT k%d", uint64(s))
	return nil
}

// Release implements store.Tx.
func (tx *Tx) Release(s store.Savepoint) error {
	i := slices.Index(tx.marks, uint64(s))
	if i < 0 {
		return invalid("the transaction has no such savepoint any more")
	}
	tx.marks = tx.marks[:i]
	tx.view.first("RELEASE SAVEPOINT k%d", uint64(s))
	return nil
}

// Count implements store.Counter.
func (tx *Tx) Count(ctx context.Context, rg store.Range) (int64, error) {
	return count(ctx, &tx.Reader, rg)
}

// End implements store.Tx.
func (tx *Tx) End(ctx context.Context) error {
	if tx.timer != nil {
		tx.timer.Stop()
	}
	if tx.Expired() {
		return fmt.Errorf("postgres: %w", store.ErrTxAge)
	}
	defer tx.view.end()
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	ctx, cancel := tx.view.s.Within(ctx)
	defer cancel()
	c, b, err := tx.view.ending(ctx)
	if c == nil || err != nil {
		return err
	}
	defer release(c)
	return commitTx(ctx, c, b, tx.wrote)
}

// ending takes the connection from the view, nil if nothing was read or written, and returns what
// commits.
func (v *view) ending(ctx context.Context) (*pgxpool.Conn, *pgx.Batch, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended != nil || v.conn == nil {
		return nil, nil, v.ended
	}
	if err := v.revive(ctx); err != nil {
		return nil, nil, failure(ctx, "commit", err)
	}
	c := v.conn
	v.conn = nil
	return c, v.prefixed("COMMIT"), nil
}

// commitTx sends a batch whose last statement is COMMIT. Wrote says that the transaction has
// something to lose.
func commitTx(ctx context.Context, c *pgxpool.Conn, b *pgx.Batch, wrote bool) error {
	defer store.BeginRequest(ctx)()
	results := c.SendBatch(ctx, b)
	var tag pgconn.CommandTag
	var err error
	for range b.Len() {
		if err == nil {
			tag, err = results.Exec()
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err == nil && tag.String() == "ROLLBACK" { // a statement before has failed
		return fmt.Errorf("postgres: commit: %w: a statement of the transaction has failed",
			store.ErrConflict)
	}
	return outcome(ctx, "commit", err, wrote)
}

// Rollback implements store.Tx.
func (tx *Tx) Rollback() {
	if tx.timer != nil {
		tx.timer.Stop()
	}
	tx.view.end()
}

// Expired implements store.Tx.
func (tx *Tx) Expired() bool { return tx.expired.Load() }
