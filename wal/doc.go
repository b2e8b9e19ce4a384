// Package wal is the write-ahead log that all 256 stripes share.
//
// A commit is one record, and its place in the log is its sequence number. Append
// copies the record into the current segment under one short lock and never waits
// for the disk; Sync waits until everything up to a sequence number is durable, and
// all callers that wait at the same time share one fdatasync.
//
// A segment is a preallocated file. Where the system can map files for writing the
// record is stored straight into the mapping: it then survives the death of the
// process without a system call. Elsewhere each record is one write. Segments whose
// records are no longer needed are renamed and used again.
//
// Opening takes two steps. Recover reads the log, replays it and finds its end; it
// changes nothing. Open cuts off what lies beyond that end and goes on there, or in a new
// segment if the last one is large. The bytes are described in docs/format/wal.md, the
// rules of recovery in recover.go.
//
// What a crash leaves: after the death of the process, every record whose Append
// returned (mapped or written). After a power cut, every record that a Sync covered,
// and of the later ones a prefix. A torn tail is cut silently; damage below a point
// that was known synced is an error that names file and offset.
package wal
