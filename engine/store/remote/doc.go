// Package remote is what stores on other machines share. Such a store keeps ordered pairs of bytes;
// this package makes keys and items of them.
//
//   - [Layout] turns a key into one ordered byte string, with or without a stripe in front, and
//     [AppendValue] an item into a value, which is never empty.
//   - [View] is what a store has to offer for reads: single keys, and pages of ranges, each many in
//     one wave of requests. [Reader] is a store.Reader over views: it divides ranges, reads in
//     pages, merges, and drops what has expired.
//   - [Batch] is a write set by encoded keys, each written once, with its conditions.
//   - [Tx] is a transaction over a [Base], a view with a commit that proves what was read.
//   - [Core] has what stores do alike with those: properties, snapshots, the end of them.
//   - [ParseURL] and [URL.Set] read their addresses and options.
//   - [Within] ends calls whose context has no deadline.
package remote
