//go:build invariants

package base

import (
	"math/rand/v2"
	"runtime"
)

// Invariants reports a build with the invariants tag.
const Invariants = true

// Yield marks a moment at which what others do matters: between two looks at shared state,
// or between two steps of a change. Here other goroutines go on, one time in sixteen. Why: on
// few processors, or busy ones, such moments are else so short that tests hardly ever see
// what can happen in them.
func Yield() {
	if rand.Uint32()%16 == 0 {
		runtime.Gosched()
	}
}
