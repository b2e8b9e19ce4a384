// Package dedup measures how package keyset finds out which keys are new, beside the
// obvious loop over segments with the filters of the library, on the tables of a study
// of primary-key deduplication with zone maps and binary fuse filters. All contestants of
// a case run in one process, in turns; figures are medians over the rounds, of the
// processor time of the thread (wall time where the system does not count it, and where two
// goroutines build).
//
// A contestant is a name and a function over the keys that are asked; to add one, such
// as a whole database, add it to the list in lookup.go.
package dedup
