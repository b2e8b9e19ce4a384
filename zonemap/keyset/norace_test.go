//go:build !race

package keyset_test

const raceEnabled = false
