// Package table keeps tables with secondary indexes in an engine database and answers
// queries over them.
//
// # Tables
//
// A table is described by a schema.Table: columns, a primary key of partition key and sort
// key, indexes. Rows are []expr.Value with a place for every column of the schema, dropped
// ones included, in the order of schema.Table.Columns. The definitions live in the database,
// in a catalogue; changes of it are atomic and durable.
//
// # Writes
//
// A row and its index entries are one commit, with conditions that say what the writer has
// seen. So an index is never stale, a unique index is exact whatever runs at the same time,
// and a writer that lost a race reads again and decides again. DB.Update runs several
// statements as one serialisable transaction; Table.In gives a handle on it.
//
// # Indexes while writers write
//
// An index is built in the background of writes: from the moment it exists, in state
// Building, every writer maintains it; the rows from before are added in chunks, on the
// condition that the row is still what it was. Queries use it when it is Ready. Builds and
// drops that were interrupted go on with DB.Resume.
//
// # Queries
//
// A query is a plan.Select. It reads one snapshot, whatever is written meanwhile, and its
// rows are streamed. A query that fixes a unique key reads a point.
//
// # Rows as structs
//
// Package typed, on this one, has tables whose rows are structs. It writes and reads rows in
// the form in which they are stored by Table.Write, Table.Read and Prepared.Read.
//
// # Concurrency
//
// A DB, its Tables and Prepared queries may be used by any number of goroutines. A Tx and
// Rows belong to one. There is one DB for each engine.DB, however often it is opened.
package table
