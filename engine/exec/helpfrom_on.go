//go:build invariants

package exec

// helpFrom is small, so that tests with few rows are divided, too.
const helpFrom = 16
