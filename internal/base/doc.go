// Package base holds the vocabulary that every layer of kstone shares: sequence
// numbers, kinds, entries, range tombstones, file descriptions. It imports nothing
// of this module and does no I/O.
package base
