//go:build invariants

package memtable

// checked turns on the checks for mistakes of the calling code.
const checked = true
