package ship

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// Errors to test with errors.Is. Damage of objects matches engine.ErrCorrupt.
var (
	// ErrFenced: another shipper has begun to ship to the destination. This one has ended.
	ErrFenced = errors.New("ship: another shipper has taken over the destination")
	// ErrOther: the destination has commits that the database does not have: it belongs to another
	// database, or to a copy of this one that went on by itself. Nothing was changed there.
	ErrOther = errors.New("ship: the destination belongs to another history")
	// ErrGap: commits after the last that was shipped are not retained any more.
	// Options.BeginAgain ships nevertheless, with a new base; no moment in between is restorable.
	ErrGap = errors.New("ship: commits that were not shipped are not retained any more")
	// ErrEmpty: there is nothing at the destination that can be restored.
	ErrEmpty = errors.New("ship: no database at the destination")
	// ErrSilent is matched by a *SilentError.
	ErrSilent = errors.New("ship: no success for two intervals")
	// ErrMoment is matched by a *MomentError.
	ErrMoment = errors.New("ship: this moment is not restorable")
)

// SilentError reports that a shipper or a follower has had no success for two intervals. It
// continues to try.
type SilentError struct {
	Since time.Time // of the last success, or of the beginning
	Cause error     // of the last attempt; nil: it has not ended
}

// Error implements error.
func (e *SilentError) Error() string {
	why := "an operation has not ended"
	if e.Cause != nil {
		why = e.Cause.Error()
	}
	return fmt.Sprintf("%v, since %s: %s", ErrSilent, e.Since.Format(time.RFC3339), why)
}

// Unwrap returns the cause.
func (e *SilentError) Unwrap() error { return e.Cause }

// Is makes errors.Is(err, ErrSilent) true.
func (e *SilentError) Is(target error) bool { return target == ErrSilent }

// MomentError reports which moments can be restored.
type MomentError struct {
	Wanted string
	Ranges []Range // that are restorable
}

// Error implements error.
func (e *MomentError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s is not in", ErrMoment, e.Wanted)
	for i, r := range e.Ranges {
		if i > 0 {
			b.WriteString(" nor in")
		}
		fmt.Fprintf(&b, " %s", r)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrMoment) true.
func (e *MomentError) Is(target error) bool { return target == ErrMoment }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: ship: %s", engine.ErrInvalid, fmt.Sprintf(format, args...))
}
