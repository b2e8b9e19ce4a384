// Package stripe is one LSM tree: an active memtable that takes writes, frozen
// memtables on their way to disk, and sorted runs of SST files, newest first. It
// knows no other stripe, starts no goroutine and decides nothing on its own: the
// engine serialises its writers, makes it freeze, flush and compact, and commits
// the manifest in between.
//
// # Reading
//
// All sources hang on an immutable [View], reached through one atomic pointer. A Get loads the
// view and walks the sources from newest to oldest; the first version it meets is
// the newest. Cursors hold a reference on their view, which keeps its files.
//
// Invariant: the sources of a view are ordered by age. Every version of a key in a
// source has a larger sequence number than every version of it in the sources
// after, and a range tombstone never covers anything in a source before its own.
//
// # Writing
//
// Requires: the engine holds Stripe.Lock over assigning a sequence number, Put or
// DeleteRange, and Freeze. Hence the versions in a memtable appear in sequence order
// and a frozen memtable is complete.
package stripe
