//go:build race

package keyset_test

// raceEnabled: the race detector makes the filter library's buffers allocate.
const raceEnabled = true
