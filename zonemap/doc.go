// Package zonemap holds the two summaries that let a reader leave data alone: the
// Map (key range, sequence range, counts and expiry range of a block or a file)
// and the Filter (a binary fuse filter over the hashes of the keys).
//
// Both are written into SST files; their formats are described in
// docs/format/sst.md and docs/format/filter.md.
package zonemap
