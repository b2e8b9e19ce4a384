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

func incomparable(a, b Value) error {
	return fmt.Errorf("%w: %s of type %s cannot be compared with %s of type %s",
		ErrType, a, a.kind, b, b.kind)
}
