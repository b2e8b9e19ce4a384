package kv

import (
	"errors"
	"fmt"
)

// The errors of every store, see those of package engine.
var (
	ErrNotFound        = errors.New("engine: not found")
	ErrConditionFailed = errors.New("engine: condition failed")
	ErrConflict        = errors.New("engine: transaction conflict")
	ErrTxAge           = errors.New("engine: transaction rolled back: it was open for too long")
	ErrReadOnly        = errors.New("engine: read-only")
	ErrTooLarge        = errors.New("engine: too large")
	ErrInvalid         = errors.New("engine: invalid argument")
	ErrClosed          = errors.New("engine: closed")
)

// ConditionError says which key failed its condition. It matches
// ErrConditionFailed.
type ConditionError struct {
	Key Key // the caller's key, copied
	// Op is the number of the operation in its batch, counted from 0; it is 0 for a
	// write that is not in a batch.
	Op      int
	Exists  bool
	Version uint64 // of the current item, if Exists
}

// Error implements error.
func (e *ConditionError) Error() string {
	state := "does not exist"
	if e.Exists {
		state = fmt.Sprintf("exists at version %d", e.Version)
	}
	return fmt.Sprintf("engine: condition failed: %s %s", FormatKey(e.Key), state)
}

// Is makes errors.Is(err, ErrConditionFailed) true.
func (e *ConditionError) Is(target error) bool { return target == ErrConditionFailed }

// FormatKey prints a key for an error message.
func FormatKey(k Key) string {
	if k.SK == nil {
		return fmt.Sprintf("%q", k.PK)
	}
	return fmt.Sprintf("%q/%q", k.PK, k.SK)
}
