// Package zonemap holds the two summaries that let a reader leave data alone: the
// Map (key range, sequence range, counts and expiry range of a block or a file)
// and the Filter (a binary fuse filter over the hashes of the keys).
//
// Both are written into SST files; their formats are described in
// docs/format/sst.md and docs/format/filter.md.
//
// On top of them, and usable without a database, it finds out which keys of a batch are
// new. A SegmentBuilder makes a Segment of a set of keys; a Set of segments answers for
// one key or many, approximately or exactly. There are two designs. Segments with one
// filter each are held in memory, and where they overlap the Set interleaves their
// filters. Segments with BlockKeys have a zone map and a filter for every block and may
// stay on disk, where OpenSegmentAt reads the filters that are asked, within the budget
// of a Cache. Segment files are described in docs/format/segments.md.
package zonemap
