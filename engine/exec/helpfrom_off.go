//go:build !invariants

package exec

import "time"

const (
	// helpFrom is how many items the caller's worker reads before others may help: it has seen what
	// they cost.
	helpFrom = 256
	// helpWorth is from how much work on the others help. Why: to start one, to wait for it and to
	// bring rows together takes the processors 40 to 160 µs, and only half of the work is saved.
	helpWorth = 500 * time.Microsecond
)
