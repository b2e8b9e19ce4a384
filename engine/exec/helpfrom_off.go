//go:build !invariants

package exec

const (
	// helpFrom is how many items the caller's worker reads before others may help: it has seen what
	// they cost.
	helpFrom = 256
	// helpWorth is from how much work on the others help, about 200 µs. Why: to start one and to
	// wait for it takes the processors 40 to 100 µs, and only half of what is left is saved.
	helpWorth = 6000
)
