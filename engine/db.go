package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// Lock order: stripe write locks in ascending order, then the log's mutex, then a
// memtable's mutex. manifestMu is taken with none of them held.

// DB is an open database. All methods are safe for concurrent use. It is a [Reader] of the
// present.
type DB struct {
	reader
	dir  string
	opts Options
	base vfs.FS   // what the directory is in
	fs   *vfs.Dir // the open directory
	lock io.Closer
	// flushGroup is the number of stripes to flush at a time, as the system lets open files.
	flushGroup int
	env        stripe.Env
	stripes    [base.NumStripes]stripe.Stripe

	log     *wal.Log // nil if read-only
	lastSeq base.SeqNum
	// logRecords is the number of records that Open has replayed.
	logRecords int64
	visible    visible
	snaps      snapshots
	memory     memory
	recycler   recycler
	reserve    reserve
	calls      calls
	sched      *scheduler // nil if read-only
	metrics    counters
	failure    atomic.Pointer[readOnlyError]
	closed     atomic.Bool
	closeErr   error
	closing    sync.Once

	nextFile atomic.Uint64
	nextRun  atomic.Uint64

	manifestMu sync.Mutex // serialises edits and what depends on their order
	manifest   *manifest.Log
	state      atomic.Pointer[manifest.State]
}

// Dir returns the directory the database was opened in.
func (db *DB) Dir() string { return db.dir }

// writable returns the error a write would get now.
func (db *DB) writable() error {
	if db.closed.Load() {
		return ErrClosed
	}
	if f := db.failure.Load(); f != nil {
		return f
	}
	if db.log == nil {
		return ErrReadOnly
	}
	return nil
}

// fail turns the database read-only because of err, once and for ever, and returns
// the error writers get. What passes does not: a full disk, and too many open files. Nor
// does what was refused before anything was committed.
func (db *DB) fail(err error) error {
	if errors.Is(err, vfs.ErrNoSpace) {
		db.reserve.enter()
		db.recycler.drop()
		return err
	}
	if err == nil || errors.Is(err, context.Canceled) || vfs.IsTooManyFiles(err) ||
		errors.Is(err, base.ErrLimit) {
		return err
	}
	return db.failForGood(err)
}

// failForGood is fail for an error of which it is known that it does not pass.
func (db *DB) failForGood(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, serr := db.fs.Stat(db.dir); errors.Is(serr, fs.ErrNotExist) {
			err = fmt.Errorf("the database directory %s was %w (%w)", db.dir, ErrRemoved, err)
		}
	}
	f := &readOnlyError{cause: err}
	if !db.failure.CompareAndSwap(nil, f) {
		return db.failure.Load()
	}
	db.opts.Logger.Error("database is read-only after a failure", "cause", err)
	if cb := db.opts.Events.ReadOnly; cb != nil {
		go cb(err) // Why: the caller may hold any lock
	}
	return f
}

// Sync returns when every commit acknowledged before the call is durable as if it
// had been written with Durability Sync. If ctx ends first, its error is returned
// and the sync goes on.
func (db *DB) Sync(ctx context.Context) error {
	if err := cmp.Or(usable(ctx), db.writable()); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- db.log.Sync(db.log.LastSeq()) }()
	select {
	case err := <-done:
		return db.fail(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends background work, makes every acknowledged write durable and releases
// the directory. Writes and reads in other goroutines end with ErrClosed. Later
// calls return what the first returned. If snapshots or iterations were left open,
// the error matches ErrLeaked; the database is closed all the same.
func (db *DB) Close() error {
	db.closing.Do(func() { db.closeErr = db.close() })
	return db.closeErr
}

func (db *DB) close() error {
	var errs []error
	db.closed.Store(true)
	for i := range db.stripes { // wait for commits under way
		db.stripes[i].Lock()
		//lint:ignore SA2001 a barrier: there is nothing to guard
		db.stripes[i].Unlock()
	}
	if n := db.snaps.open(); n > 0 {
		errs = append(errs, fmt.Errorf("%w: %d", ErrLeaked, n))
	}
	if db.sched != nil {
		db.sched.stop()
	}
	db.calls.close()
	if db.log != nil {
		if db.failure.Load() == nil {
			errs = append(errs, db.settle())
		}
		errs = append(errs, db.log.Close())
	}
	keep := db.reserve.closedGoal()
	for i := range db.stripes {
		db.stripes[i].Close()
	}
	db.recycler.close()
	db.reserve.close(keep)
	if db.manifest != nil {
		errs = append(errs, db.manifest.Close())
	}
	errs = append(errs, db.closeDir())
	err := errors.Join(errs...)
	db.opts.Logger.Info("database closed", "dir", db.dir, "err", err)
	return err
}

// closeReplayBytes is how much log Close leaves to the next Open rather than
// flushing. Why 2 MiB: replaying it takes about 10 ms, and a program that opens,
// writes a little and closes, like a command line, does not litter the directory
// with tiny files.
const closeReplayBytes = 2 << 20

// settle makes the content durable for Close: a long log is flushed, so that the
// next Open has little to replay.
func (db *DB) settle() error {
	if db.memory.bytes() > closeReplayBytes {
		err := db.flushAll(context.Background())
		if err == nil || !errors.Is(err, vfs.ErrNoSpace) {
			return err
		}
		// A full disk: the log has everything.
	}
	if err := db.log.Sync(db.log.LastSeq()); err != nil {
		return err
	}
	return db.noteEnd()
}

// noteEnd tells the manifest how far the log reaches. Why: a log that is cut off, or
// replaced by an older copy of itself, is noticed by the next Open.
func (db *DB) noteEnd() error {
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	last := db.log.LastSeq()
	if db.state.Load().LastSeq >= last {
		return nil
	}
	err := db.commitEdit(&manifest.Edit{LastSeq: last})
	if errors.Is(err, vfs.ErrNoSpace) {
		return nil // nothing is lost
	}
	return err
}
