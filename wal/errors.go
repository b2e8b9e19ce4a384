package wal

import (
	"errors"
	"io/fs"

	"github.com/kstonedb/kstone/internal/vfs"
)

// ErrRecordTooLarge is matched by the error of an Append whose payload is larger
// than Options.MaxRecordBytes. Nothing was written; the log goes on.
var ErrRecordTooLarge = errors.New("log record too large")

// ErrClosed is matched by the errors of a closed log; it wraps fs.ErrClosed.
var ErrClosed error = closedError{}

// ErrFailed is matched by the error of a log that has failed for good: a sync failed,
// or a write did after bytes may have been placed. Only a new Recover and Open can
// tell what the disk has.
var ErrFailed = errors.New("log failed")

// failure is why the log has stopped. It matches ErrFailed and what the cause matches,
// except vfs.ErrNoSpace, which promises that a later attempt may succeed.
type failure struct{ cause error }

func (f *failure) Error() string { return "log failed: " + f.cause.Error() }

func (f *failure) Is(target error) bool {
	return target == ErrFailed || target != vfs.ErrNoSpace && errors.Is(f.cause, target)
}

func (f *failure) As(target any) bool { return errors.As(f.cause, target) }

type closedError struct{}

func (closedError) Error() string        { return "log is closed" }
func (closedError) Is(target error) bool { return target == fs.ErrClosed }
