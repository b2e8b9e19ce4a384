//go:build invariants

package exec

// They are small, so that tests with few rows are divided, too.
const (
	helpFrom  = 16
	helpWorth = 0
)
