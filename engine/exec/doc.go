// Package exec runs the plans of package plan over a store.
//
// # Model
//
// An operator hands its rows, one after the other, to the operator above it, and stops
// when that wants no more. So a row goes through filters, joins and groups without being
// copied, memory does not depend on the number of rows, and LIMIT ends the reading of
// every stream below it. What has to keep rows (sort, hash join, hash groups, the right
// side of joins) copies them and counts their memory, and writes what has no room to temporary
// files: see [Options.MemoryBytes].
//
// # Ownership
//
// A row, and the texts and bytes in its values, are valid until the next row. Clone
// keeps one.
//
// # Reading
//
// Ranges of one partition, of many partitions merged, and of the whole table are one
// call of the store each; the store merges streams that are compared as wholes. Streams
// that are compared from a prefix on (a IN (1, 2) ORDER BY b) are merged here. Rows
// of index entries are fetched in batches that keep the order, and so are the
// partners of a lookup join; batches are small at first and grow, so that a query that
// ends early has not read much.
//
// Everything of one execution reads one snapshot if the reader given is one.
package exec
