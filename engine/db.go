package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/engine/internal/follow"
	"github.com/kstonedb/kstone/engine/internal/history"
	"github.com/kstonedb/kstone/engine/internal/lease"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// DB is an open database. All methods are safe for concurrent use. It is a [Reader] of the
// present.
type DB struct {
	reader
	dir     string
	opts    Options
	base    vfs.FS   // what the directory is in
	fs      *vfs.Dir // the open directory
	lock    io.Closer
	env     stripe.Env
	stripes [base.NumStripes]stripe.Stripe

	log     *wal.Log // nil if read-only
	lastSeq base.SeqNum
	// logRecords is the number of records that Open has replayed.
	logRecords int64
	manifest   *manifest.Log // nil if read-only
	// The rooms are nil until Open knows the state of the manifest.
	reads     *read.State
	upkeep    *upkeep.Upkeep
	commits   *commit.Pipeline
	history   *history.History
	follow    *follow.Follower // not nil if read-only
	followed  atomic.Bool      // all commits are those of Source.Commit
	leases    *lease.Table     // of those that read; nil if nobody can
	calls     callGate
	temp      tempFiles
	conflicts atomic.Uint64 // of transactions
	failure   atomic.Pointer[readOnlyError]
	latestMs  atomic.Int64 // see nowMs
	closeErr  error
	closing   sync.Once
}

// maxBackMs is by how many milliseconds a clock may go back before the time goes back, too.
const maxBackMs = 60_000

// nowMs returns the time that expiries are compared with, in Unix milliseconds. It stands still
// where the clock is set back a little: a write over an expired item has left alone what refers to
// the item, such as entries of indexes, and these must not come back.
func (db *DB) nowMs() int64 {
	now := db.opts.Clock().UnixMilli()
	for {
		latest := db.latestMs.Load()
		if now < latest && latest-now <= maxBackMs {
			return latest
		}
		if now == latest || db.latestMs.CompareAndSwap(latest, now) {
			return now
		}
	}
}

// Dir returns the directory the database was opened in.
func (db *DB) Dir() string { return db.dir }

// Follows reports whether what the database reads is written elsewhere: it was opened read-only,
// beside another process, or is that of a ship.Follower.
func (db *DB) Follows() bool { return db.follow != nil || db.followed.Load() }

// QueryMemory returns how many bytes a query of tables may keep in memory by Options.Memory, 0
// if that is not set.
func (db *DB) QueryMemory() int64 {
	if db.opts.Memory == 0 {
		return 0
	}
	return db.opts.live() / 6
}

// committable returns the error that a commit of a caller would get now.
func (db *DB) committable() error {
	if db.followed.Load() && !db.reads.Closed() {
		return ErrReadOnly
	}
	return db.writable()
}

// writable returns the error a write of a file would get now.
func (db *DB) writable() error {
	if db.reads.Closed() {
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

// failForGood turns the database read-only because of err, once and for ever, and returns
// the error writers get. Errors that may pass are for Upkeep.Fail.
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

// Close ends background work, makes every acknowledged write durable and releases
// the directory. Writes and reads in other goroutines end with ErrClosed. Later
// calls return what the first returned. If snapshots or iterations were left open,
// the error matches ErrLeaked; the database is closed nevertheless.
func (db *DB) Close() error {
	db.closing.Do(func() { db.closeErr = db.close() })
	return db.closeErr
}

func (db *DB) close() error {
	var errs []error
	db.commits.Close()
	db.upkeep.Stop()
	db.calls.close()
	if n := db.reads.Registered(); n > 0 {
		errs = append(errs, fmt.Errorf("%w: %d", ErrLeaked, n))
	}
	db.temp.close()
	if db.follow != nil {
		errs = append(errs, db.follow.Close())
	}
	if db.history != nil {
		errs = append(errs, db.history.Close())
	}
	if db.log != nil {
		if db.failure.Load() == nil {
			errs = append(errs, db.settle())
		}
		errs = append(errs, db.log.Close())
	}
	db.upkeep.Close(db.failure.Load() != nil)
	if db.manifest != nil {
		errs = append(errs, db.manifest.Close())
	}
	if db.leases != nil {
		errs = append(errs, db.leases.Close())
	}
	errs = append(errs, db.closeDir())
	err := errors.Join(errs...)
	db.opts.Logger.Info("database closed", "dir", db.dir, "err", err)
	return err
}

// closeSegments is how many segments Close leaves where each Open begins one: then the log is
// flushed, so that they are released.
const closeSegments = 64

// settle makes the content durable for Close. What is not flushed is in the log. Why a part of
// large memtables is flushed: programs that open, write little and close do not replay the same log
// each time.
func (db *DB) settle() error {
	var err error
	switch {
	case db.opts.RetainBytes > 0 && len(db.log.Segments()) > closeSegments:
		err = db.upkeep.Flush(context.Background())
	case db.upkeep.MemtableBytes().Load() > upkeep.KeptBytes:
		err = db.upkeep.FlushLargest(context.Background(), upkeep.KeptBytes)
	}
	if err != nil && !errors.Is(err, vfs.ErrNoSpace) { // the log has everything
		return err
	}
	if err := db.log.Sync(db.log.LastSeq()); err != nil {
		return err
	}
	return db.noteEnd()
}

// noteEnd records in the manifest how far the log reaches. Why: a log that is cut off, or
// replaced by an older copy of itself, is noticed by the next Open.
func (db *DB) noteEnd() error {
	err := db.upkeep.Edit(func(s *manifest.State) *manifest.Edit {
		if last := db.log.LastSeq(); s.LastSeq < last {
			return &manifest.Edit{LastSeq: last}
		}
		return nil
	})
	if errors.Is(err, vfs.ErrNoSpace) {
		return nil // nothing is lost
	}
	return err
}
