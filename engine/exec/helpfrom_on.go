//go:build invariants

package exec

import "time"

// They are small, so that tests with few rows are divided, too.
const (
	helpFrom  = 16
	helpWorth = time.Duration(0)
)
