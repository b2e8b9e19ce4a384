//go:build !invariants

package base

// Invariants reports a build with the invariants tag.
const Invariants = false

// Yield marks a moment at which what others do matters: between two looks at shared state,
// or between two steps of a change. It does nothing, except in builds with the invariants
// tag, where other goroutines often go on here.
func Yield() {}
