package engine

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine/internal/follow"
	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
)

// Errors to test with errors.Is. Each is a case in which a caller acts differently.
var (
	// ErrNotFound: the key has no value (never written, deleted or expired).
	ErrNotFound = kv.ErrNotFound
	// ErrConditionFailed: a conditional write found another state; nothing was
	// written. The error is a *ConditionError.
	ErrConditionFailed = kv.ErrConditionFailed
	// ErrConflict: a transaction read something that another commit has changed
	// since; nothing was written. Run it again, or use DB.UpdateRetry.
	ErrConflict = kv.ErrConflict
	// ErrClosed: the database, snapshot or transaction has been closed.
	ErrClosed = kv.ErrClosed
	// ErrTxAge: a transaction was rolled back before its Commit, as it was older than
	// TxOptions.MaxAge; nothing was written.
	ErrTxAge = kv.ErrTxAge
	// ErrReadOnly: the database was opened read-only or is that of a ship.Follower, or turned
	// read-only after a failed write or sync; then the cause is wrapped. Reads go on.
	ErrReadOnly = kv.ErrReadOnly
	// ErrRemoved: the database directory, or a file in it that is in use, has been removed
	// from outside. The database is read-only then: the error matches ErrReadOnly, too.
	ErrRemoved = vfs.ErrRemoved
	// ErrDiskFull: there was no space. Nothing is lost, reads go on, and writes
	// succeed again when there is space.
	ErrDiskFull = vfs.ErrNoSpace
	// ErrLocked: another process writes the database. The error is a
	// *LockedError that names it.
	ErrLocked = errors.New("engine: database is locked")
	// ErrCorrupt: stored bytes are damaged. The error is a *CorruptionError.
	ErrCorrupt = corrupt.ErrCorrupt
	// ErrVersion: the files have a format version this program does not know.
	ErrVersion = corrupt.ErrVersion
	// ErrNotDatabase: the directory holds something else. Nothing was changed.
	ErrNotDatabase = manifest.ErrNotDatabase
	// ErrNotExist: there is no database in the directory and the options forbid
	// creating one.
	ErrNotExist = errors.New("engine: database does not exist")
	// ErrEmptyPK: a key without partition key.
	ErrEmptyPK = keycodec.ErrEmptyPK
	// ErrEmptySK: a sort key that is empty but not nil.
	ErrEmptySK = keycodec.ErrEmptySK
	// ErrTooLarge: a key, value or batch beyond its limit.
	ErrTooLarge = kv.ErrTooLarge
	// ErrInvalid: an argument makes no sense (negative limit, segment out of
	// range, bad option).
	ErrInvalid = kv.ErrInvalid
	// ErrInvalidCursor: a resume cursor is damaged or belongs to another query.
	ErrInvalidCursor = errors.New("engine: invalid cursor")
	// ErrStale: the writing process has removed files that a read of a read-only database still
	// needed, see Options.ReaderBytes. A new read or snapshot finds the present.
	ErrStale = follow.ErrStale
	// ErrLeaked: Close found snapshots or iterations still open. The database is
	// closed nevertheless and nothing is lost.
	ErrLeaked = errors.New("engine: snapshots or iterations left open")
)

// CorruptionError says which file is damaged, where, what was expected and what
// was found. It matches ErrCorrupt. Its fields are
//
//	File    string // name of the file
//	Offset  int64  // byte offset of the damaged structure, -1 if not known
//	What    string // the structure: "data block", "footer", "log record"
//	Want    string // what was expected
//	Got     string // what was found
//	Version bool   // the damage is an unknown format version
type CorruptionError = corrupt.Error

// ConditionError says which key failed its condition. It matches
// ErrConditionFailed. Its fields are
//
//	Key     Key    // the caller's key, copied
//	Op      int    // the number of the operation in its batch, from 0; 0 of a write by itself
//	Exists  bool
//	Version uint64 // of the current item, if Exists
type ConditionError = kv.ConditionError

// conditionError returns the error of a condition on key that does not hold. Version counts
// if the key exists.
func conditionError(key Key, op int, exists bool, version base.SeqNum) error {
	e := &ConditionError{Key: key, Op: op, Exists: exists}
	if exists {
		e.Version = uint64(version)
	}
	return e
}

// ConflictError says what a transaction lost against. It matches ErrConflict.
type ConflictError struct {
	Key     Key    // the key, or the first changed key of a range that was read
	Version uint64 // the version that appeared since the transaction began
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("engine: transaction conflict: %s changed at version %d",
		kv.FormatKey(e.Key), e.Version)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// LockedError names the process that writes the database. It matches ErrLocked.
type LockedError struct {
	Dir   string
	Owner string // process id, program, host and time, as the owner stored them
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("engine: %s is locked by another process", e.Dir)
	}
	return fmt.Sprintf("engine: %s is locked by %s", e.Dir, e.Owner)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// readOnlyError is ErrReadOnly with the failure that caused it.
type readOnlyError struct{ cause error }

func (e *readOnlyError) Error() string {
	return fmt.Sprintf("engine: read-only after a failure: %v", e.cause)
}

// Is matches ErrReadOnly and what the cause matches, except ErrDiskFull: that would
// promise that writes succeed again.
func (e *readOnlyError) Is(target error) bool {
	return target == ErrReadOnly || target != ErrDiskFull && errors.Is(e.cause, target)
}

// As finds the errors that the cause wraps.
func (e *readOnlyError) As(target any) bool { return errors.As(e.cause, target) }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// during adds to an error what was being done. Those that are about the call itself stay as
// they are.
func during(what string, err error) error {
	if err == nil || errors.Is(err, ErrInvalid) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("engine: %s: %w", what, err)
}

func tooLarge(what string, got, limit int64) error {
	return fmt.Errorf("%w: %s of %d bytes, limit is %d", ErrTooLarge, what, got, limit)
}
