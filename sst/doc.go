// Package sst writes and reads sorted string tables, the immutable files of a
// stripe. docs/format/sst.md and docs/format/filter.md describe the bytes.
//
// A file holds versions of keys, (key ascending, sequence number descending), in
// data blocks of about 4 KiB; range tombstones; filters over the keys; an index, in parts,
// with a zone map per block; properties; and a footer. A Writer makes one in a
// single pass. A Reader opens it without I/O and loads footer, index, filters and
// blocks when they are needed, through a cache.Cache.
//
// Ownership: decoded blocks are ordinary garbage-collected memory that never
// changes. Values that readers hand out are views into them: valid for as long as
// they are referenced, whatever happens to cache, reader or file.
//
// Errors: damage is a *corrupt.Error with the file's name and the offset of the
// damaged block. Reading through a closed Reader gives an error that wraps
// fs.ErrClosed.
package sst
