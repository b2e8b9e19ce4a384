// Package compaction decides which runs of a stripe to merge, and merges them.
//
// Pick is a pure function of a stripe's runs, the options, the time and the oldest
// snapshot: no I/O, no clock, no state. Merge is a stream of entries over the
// entries of its inputs that leaves out what no reader can see any more. Reading the
// inputs, writing the output and committing the result is the caller's business.
//
// # Shape of a stripe
//
// A stripe is a list of runs by age. The oldest is the bottom: one sorted run with
// most of the data. Flushes add young runs in front. Young runs of similar size are
// merged with each other (tiering: every byte is rewritten about once for each
// time the size doubles or triples), and once they amount to a share of the bottom,
// everything is merged into a new bottom (leveling: garbage is bounded by that
// share). A stripe is 1/256 of the database, so that the space a full merge needs
// meanwhile is small.
package compaction
