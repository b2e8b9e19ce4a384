// Package testutil has what tests of several packages need.
package testutil

import "testing"

// measurements bounds how often AllocsPerRun measures.
const measurements = 5

// AllocsPerRun is the least of several measurements by testing.AllocsPerRun. Why several: the
// figure is that of the whole process. A goroutine that flushes or merges may allocate
// meanwhile, and a garbage collection empties the pools that f lives on. What f allocates by
// itself is in all of them.
func AllocsPerRun(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for i := 1; i < measurements && least > 0; i++ {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
