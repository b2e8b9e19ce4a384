//go:build !invariants

package exec

// helpFrom is how many items the caller's worker reads before others help: about as long as it
// takes to start them.
const helpFrom = 512
