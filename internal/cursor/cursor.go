// Package cursor states the contract of every ordered source of entries:
// memtables, SST files, runs and their merges.
package cursor

import "github.com/kstonedb/kstone/internal/base"

// Cursor moves over the entries of one source that are visible at a fixed
// sequence number, in key order, both ways.
//
// It shows at most one entry per key: the newest version whose sequence number is
// at most the cursor's. Tombstones and expired entries ARE shown (the merge above
// needs them to hide older sources); range tombstones are not applied.
//
// Every positioning method reports whether the cursor now stands on an entry;
// false means the end in that direction or an error, which Err tells apart. After
// false, only First, Last, SeekGE and SeekLT may be called.
//
// Entry is valid only while the cursor stands on an entry, until the next move. A
// cursor belongs to one goroutine at a time.
type Cursor interface {
	First() bool
	Last() bool
	// SeekGE moves to the first key >= key.
	SeekGE(key []byte) bool
	// SeekLT moves to the last key < key.
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
	Entry() *base.Entry
	// Err returns the error that ended the movement, nil at an ordinary end.
	Err() error
}

// Source delivers every version of every key, in (key ascending, sequence
// descending) order, once and forward. Flushes and compactions read it.
type Source interface {
	// Next moves to the next entry; false at the end or on an error.
	Next() bool
	// Entry is valid until the next call of Next, with its Key and Value.
	Entry() *base.Entry
	Err() error
}
