// Package merge is the k-way merge of ordered sources of entries. Cursors over stripes,
// scans and gathers over many partitions, compactions, and ordered unions of the executor
// are all this merge with other options.
//
// Algorithm: a tournament tree of losers (Knuth, The Art of Computer Programming, volume 3,
// 5.4.1). An entry costs log2(k) comparisons, against the losers on the path of the input
// that moved. What is compared is a number, the head: eight bytes of the key after the
// prefix that the keys of all inputs have in common at the moment. Whole keys are compared
// only if heads are equal. Inputs read ahead batches of rows, so that most moves are an
// addition, and the prefix is checked once a batch.
//
// Order: by key; then by part, so that several partitions with the same sort keys form one
// sequence; then the newer version. Only the newest version of a key is shown, unless
// Options.Versions asks for all of them. Versions of a key meet in the tree; the winner
// remembers that it has beaten one, so that hiding older versions costs nothing where there
// are none.
//
// Fences: where few rows are wanted, an input stands in the tree with a lower bound of its
// rows, a fence, until that bound is the next row of all. Most inputs of many are then
// never read. See Options.Lazy.
//
// Range tombstones: an input may have a set of them, which it shares with the other inputs
// of its view. A row that one of them hides is passed over; after some hidden rows in
// sequence an input seeks to the end of the tombstone instead of stepping there, unless it
// may hold newer versions.
//
// Invariants: the rows of an input are ascending (reversed: descending), with equal keys
// only under Options.Versions, the newest first. The keys of all rows read ahead begin with
// the prefix, so that heads order them. nodes[0] holds the first of all next rows, nodes[i]
// the loser of the match at node i. A damaged block may break the first of these: the merge
// then shows rows out of order, but never reads out of bounds and always ends.
package merge
