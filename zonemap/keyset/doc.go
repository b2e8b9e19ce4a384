// Package keyset finds out which keys of a batch are new, without a database. A
// SegmentBuilder makes a Segment of a set of keys; a Set of segments answers for one key
// or many, approximately or exactly.
//
// There are two designs. Segments with one filter each are held in memory, and where they
// overlap the Set interleaves their filters. Segments with BlockKeys have a zone map and a
// filter for every block and may stay on disk, where OpenSegmentAt reads the filters that
// are asked, within the budget of a Cache. Segment files are described in
// docs/format/segments.md.
package keyset
