// Package schema defines tables and indexes, and their form as bytes.
//
// A Table has columns, a primary key and indexes. Its methods turn rows, which are slices
// of one value for each column, into the keys and values that the database stores, and
// back: AppendRowKey and AppendRow for rows, Index.AppendEntries and Changes for the
// entries of indexes. An entry follows from the row and the schema alone.
//
// Tables are immutable. New and UnmarshalJSON check a definition and make it ready for
// use; AddColumn and the other methods of evolution return a changed copy, whose rows
// include those written before. Everything may be used concurrently.
//
// Bytes are described in docs/format/table.md. The package does no I/O.
package schema
