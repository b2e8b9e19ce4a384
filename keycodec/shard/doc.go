// Package shard spreads keys over a fixed number of buckets.
//
// A bucket in front of an ascending key (a time, a counter) keeps its writes from
// going to one place. Which bucket a value has is part of the data: with another
// function, seed or number of buckets every key would lie elsewhere. A [Spec] pins the
// three, and its stored form proves on reading that this program computes what the
// writer computed.
//
// Functions for data of other systems: [Tidb] for 256-bucket integer indexes, [MD5],
// [XXHash] and [Murmur3] for composite keys of version 1, [CRC32] for stripes. [Mix64]
// is the choice for everything new: it is the cheapest and takes a seed.
//
// Everything in this package may be used concurrently. The stored form is described in
// docs/format/composite.md.
package shard
