package expr

import (
	"errors"
	"fmt"
)

var (
	// ErrType is matched by errors about values of kinds that an operator does not take.
	ErrType = errors.New("expr: type mismatch")
	// ErrRange is matched by errors about results that have too many digits.
	ErrRange = errors.New("expr: result out of range")
)

// CallError is an error of a function or CAST for values of a row, with its place in a text.
type CallError struct {
	Pos int // from 1: see Func.Pos
	Err error
}

// Error implements error.
func (e *CallError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

// placed gives an error the place of a call, if it is known.
func placed(pos int, err error) error {
	if err == nil || pos == 0 {
		return err
	}
	return &CallError{pos, err}
}

func incomparable(a, b Value) error {
	return fmt.Errorf("%w: %s (%s) and %s (%s) cannot be compared", ErrType, a,
		a.kind.Phrase(), b, b.kind.Phrase())
}
