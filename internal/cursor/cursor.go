// Package cursor states the contract of every ordered source of entries:
// memtables, SST files, runs and their merges.
package cursor

import (
	"iter"

	"github.com/kstonedb/kstone/internal/base"
)

// Cursor moves over the entries of one source that are visible at a fixed
// sequence number, in key order, both ways.
//
// It shows at most one entry per key: the newest version whose sequence number is
// at most the cursor's. Tombstones and expired entries ARE shown (the merge above
// needs them to hide older sources); range tombstones are not applied.
//
// Every positioning method reports whether the cursor now stands on an entry;
// false means the end in that direction or an error, which Err returns. After
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

// Source delivers entries in order, once, in batches: to a merge, which says what it has
// to deliver. Flushes and compactions read every version of every key, in (key ascending,
// sequence descending) order.
type Source interface {
	// Rows returns the next entries, none at the end or on an error. They are valid, with
	// their keys and values, until the next call.
	Rows() []base.Entry
	// Err returns the error that ended the entries, nil at an ordinary end.
	Err() error
}

// All returns the entries that s still has to deliver, one by one. Err of s says how they
// have ended.
func All(s Source) iter.Seq[*base.Entry] {
	return func(yield func(*base.Entry) bool) {
		for rows := s.Rows(); len(rows) > 0; rows = s.Rows() {
			for i := range rows {
				if !yield(&rows[i]) {
					return
				}
			}
		}
	}
}
