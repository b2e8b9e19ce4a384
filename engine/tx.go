package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
)

// Tx is a transaction: it reads a snapshot with its own writes on top, and commits
// all its writes at once if nothing it has read has changed since (serializable
// isolation, optimistic: no commit waits, the later commit loses). It belongs to the
// function it was given to, or to the caller of Begin, and to one goroutine. It is a
// [Reader].
type Tx struct {
	reader
	db       *DB
	moment   read.Moment
	own      read.Overlay // the writes, for reading them back, and what was read
	readOnly bool
	batch    Batch
	// given says that the transaction ends with the function it was given to.
	given bool
	marks []mark // the savepoints, the oldest first
	saved uint64 // how many there ever were
	// scans are the ranges that each DeleteScan has deleted.
	scans [][]read.StripeSpan

	end   atomic.Int32 // how it has ended: 0 not yet, txEnded, txExpired
	timer *time.Timer  // of MaxAge, or nil
}

// How a transaction of Begin ends.
const (
	txEnded   = 1 // by Commit or Rollback
	txExpired = 2 // by its age
)

// TxOptions are how a transaction begins. Its fields are
//
//	ReadOnly bool          // it cannot write (ErrReadOnly), and never conflicts
//	MaxAge   time.Duration // how long it may take; 0 is no limit
//
// After MaxAge the transaction is rolled back, so that one that is never ended does not keep old
// versions for ever. Its reads, writes and Commit then fail with ErrTxAge. View and Update, which
// end by themselves, ignore it.
type TxOptions = kv.TxOptions

// Begin begins a transaction for callers that cannot give it a function as View, Update and
// UpdateRetry take it. Commit or Rollback ends it. Nil options are the defaults.
//
// Until then the database keeps the versions that the transaction sees, as for a snapshot. It
// holds its writes, at most MaxBatchBytes, and what it has read in memory, and no locks. Nothing
// of it is stored before Commit: one that is abandoned, or open when the database is closed or
// the process ends, leaves nothing.
func (db *DB) Begin(ctx context.Context, o *TxOptions) (*Tx, error) {
	readOnly := o != nil && o.ReadOnly
	if !readOnly {
		if err := db.committable(); err != nil {
			return nil, err
		}
	}
	if err := usable(ctx); err != nil {
		return nil, err
	}
	if o != nil && o.MaxAge < 0 {
		return nil, invalid("MaxAge is %s", o.MaxAge)
	}
	tx := &Tx{db: db, readOnly: readOnly}
	if err := tx.moment.Take(db.reads); err != nil {
		return nil, err
	}
	tx.own.Init(db.reads, &tx.moment, readOnly)
	tx.from = db.reads.Reader(&tx.moment, &tx.own)
	if o != nil && o.MaxAge > 0 {
		tx.timer = time.AfterFunc(o.MaxAge, tx.expire)
	}
	return tx, nil
}

// expire rolls the transaction back unless Commit or Rollback is at it.
func (tx *Tx) expire() {
	if tx.end.CompareAndSwap(0, txExpired) {
		tx.moment.Expire()
	}
}

// Expired reports whether the transaction was rolled back because of TxOptions.MaxAge. It may be
// called at any time.
func (tx *Tx) Expired() bool { return tx.end.Load() == txExpired }

// stop ends the time that the transaction may take.
func (tx *Tx) stop() {
	if tx.end.CompareAndSwap(0, txEnded) && tx.timer != nil {
		tx.timer.Stop()
	}
}

// Commit writes what the transaction has written, as Update does, and ends it, whatever is
// returned.
func (tx *Tx) Commit(ctx context.Context, opts ...CommitOption) error {
	if tx.given {
		return invalid("the function of a transaction returns to commit it")
	}
	if tx.stop(); tx.Expired() {
		return ErrTxAge
	}
	defer tx.moment.Release()
	if ctx == nil {
		return errNoContext
	}
	t, err := tx.db.terms(opts)
	if err != nil {
		return err
	}
	if tx.readOnly { // as View; there may be no log to sync
		return tx.from.Check()
	}
	return tx.commit(ctx, t)
}

// Rollback ends the transaction; nothing is written. After Commit it does nothing.
func (tx *Tx) Rollback() {
	if !tx.given {
		tx.stop()
		tx.moment.Release()
	}
}

// View runs fn on a snapshot. The transaction cannot write (ErrReadOnly).
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error {
	tx, err := db.Begin(ctx, &TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	tx.given = true
	defer tx.moment.Release()
	return fn(tx)
}

// Update runs fn and, if it returns nil, commits what it has written. If something fn has
// read was changed by another commit, the error matches ErrConflict and nothing is
// written. An error of fn is returned as it is and nothing is written.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error, opts ...CommitOption) error {
	tx, err := db.Begin(ctx, nil)
	if err != nil {
		return err
	}
	tx.given = true
	defer tx.moment.Release()
	t, err := db.terms(opts)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.commit(ctx, t)
}

// UpdateRetry is Update that runs fn again after a conflict, with growing random
// pauses, until it commits, fails otherwise, or ctx ends. Fn must not have effects
// outside the transaction that cannot be repeated.
func (db *DB) UpdateRetry(
	ctx context.Context, fn func(*Tx) error, opts ...CommitOption,
) error {
	const first, most = 50 * time.Microsecond, 50 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		err := db.Update(ctx, fn, opts...)
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if ended := base.Sleep(ctx, rand.N(pause)); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

func (tx *Tx) checkWrite() error {
	if err := tx.from.Check(); err != nil {
		return err
	}
	if tx.readOnly {
		return ErrReadOnly
	}
	return nil
}

// Put stores value under key when the transaction commits. A TTL counts from then.
func (tx *Tx) Put(key Key, value []byte, opts ...ItemOption) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	if err := tx.batch.Put(key, value, opts...); err != nil {
		return err
	}
	tx.overlay()
	return nil
}

// overlay copies the last operation of the batch, which writes one key, into the overlay.
func (tx *Tx) overlay() {
	e, stripe := tx.batch.core.Last(tx.db.nowMs)
	tx.own.Put(stripe, &e)
}

// PutIf is Put if the key's item in the transaction satisfies cond; if not, the error is a
// *ConditionError. An item that the transaction itself has written has the version 0.
func (tx *Tx) PutIf(key Key, value []byte, cond Condition, opts ...ItemOption) error {
	if err := tx.checkCondition(key, cond); err != nil {
		return err
	}
	return tx.Put(key, value, opts...)
}

// DeleteIf is Delete if the key's item in the transaction satisfies cond; if not, the
// error is a *ConditionError.
func (tx *Tx) DeleteIf(key Key, cond Condition) error {
	if err := tx.checkCondition(key, cond); err != nil {
		return err
	}
	return tx.Delete(key)
}

func (tx *Tx) checkCondition(key Key, cond Condition) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	if cond.core.Kind == commit.CondNone {
		return nil
	}
	var e base.Entry
	err := tx.lookup(key, cond.core.Kind == commit.CondValue, &e)
	if err != nil && err != ErrNotFound {
		return err
	}
	exists := err == nil
	if cond.core.Holds(exists, e.Seq, e.Value) {
		return nil
	}
	return conditionError(Item{Key: key}.Clone().Key, 0, exists, e.Seq)
}

// Delete removes key's item when the transaction commits.
func (tx *Tx) Delete(key Key) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	if err := tx.batch.Delete(key); err != nil {
		return err
	}
	tx.overlay()
	return nil
}

// DeleteRange is DB.DeleteRange in the transaction.
func (tx *Tx) DeleteRange(pk []byte, sk SKCondition) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	n := tx.batch.core.Writes()
	if err := tx.batch.DeleteRange(pk, sk); err != nil || tx.batch.core.Writes() == n {
		return err
	}
	tx.own.DeleteSpans(tx.batch.core.LastSpan())
	return nil
}

// DeleteScan is DB.DeleteScan in the transaction.
func (tx *Tx) DeleteScan(from, to Key) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	before := tx.batch.core.Mark()
	if err := tx.batch.DeleteScan(from, to); err != nil ||
		tx.batch.core.Writes() == before.Writes() {
		return err
	}
	spans, err := tx.from.Extents(nil, tx.batch.core.LastSpan().Span)
	if err != nil {
		tx.batch.core.Truncate(&before)
		return err
	}
	tx.scans = append(tx.scans, spans)
	tx.own.DeleteSpans(spans...)
	return nil
}

// Savepoint is a state of the writes of a transaction: see Tx.Savepoint.
type Savepoint = kv.Savepoint

// mark is what a savepoint stands for.
type mark struct {
	number uint64
	batch  commit.Mark
	scans  int
}

// Savepoint returns the present state of the writes. The transaction keeps it until Release,
// or until RollbackTo an earlier one.
func (tx *Tx) Savepoint() Savepoint {
	tx.saved++
	tx.marks = append(tx.marks, mark{tx.saved, tx.batch.core.Mark(), len(tx.scans)})
	return Savepoint(tx.saved)
}

// find returns the position of a savepoint, or an error.
func (tx *Tx) find(s Savepoint) (int, error) {
	for i := len(tx.marks) - 1; i >= 0; i-- {
		if tx.marks[i].number == uint64(s) {
			return i, nil
		}
	}
	return 0, invalid("the transaction has no such savepoint any more")
}

// RollbackTo takes back what was written after a savepoint, which stays, and removes the
// savepoints after it. What was read since then still counts as read. The cost is that of the
// writes that remain. As writing, it must not be called while something is iterated over.
func (tx *Tx) RollbackTo(s Savepoint) error {
	i, err := tx.find(s)
	if err == nil {
		err = tx.from.Check()
	}
	if err != nil {
		return err
	}
	m := &tx.marks[i]
	tx.marks = tx.marks[:i+1]
	if tx.batch.core.Writes() == m.batch.Writes() {
		return nil
	}
	tx.scans = tx.scans[:m.scans]
	written := tx.batch.core.Truncate(&m.batch)
	tx.own.Forget(&written)
	tx.batch.core.Overlay(&tx.own, &written, tx.db.nowMs, tx.scans)
	return nil
}

// Release removes a savepoint and those after it; the writes stay.
func (tx *Tx) Release(s Savepoint) error {
	i, err := tx.find(s)
	if err == nil {
		tx.marks = tx.marks[:i]
	}
	return err
}

func (tx *Tx) commit(ctx context.Context, t commit.Terms) error {
	if err := tx.from.Check(); err != nil {
		return err
	}
	if tx.batch.Len() == 0 { // what was read is a snapshot, serializable by itself
		return tx.db.commits.Unchanged(t)
	}
	g := &commit.Guard{Stripes: tx.own.Stripes(), Check: tx.validate}
	err := tx.db.commit(ctx, &tx.batch, t, g)
	if errors.Is(err, ErrConflict) {
		tx.db.conflicts.Add(1)
	}
	return err
}

// validate checks that nothing the transaction has read has changed. Requires: the
// stripes of all reads are locked.
func (tx *Tx) validate() error {
	key, seq, err := tx.own.Changed()
	if err == nil && seq > 0 {
		err = &ConflictError{Key: keyOf(key), Version: uint64(seq)}
	}
	return err
}
