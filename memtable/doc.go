// Package memtable is the in-memory, ordered, multi-version table that takes a
// stripe's writes before they become an SST file.
//
// # Structure
//
// A table has three parts, all of them free of pointers inside, so that the garbage
// collector never scans a key, a value or a tree item:
//
//   - an arena of byte chunks with the key nodes and the version records;
//   - an open-addressed hash index from key to node: point reads and overwrites end
//     here and never touch the tree;
//   - a B-tree with one 16-byte item per key for ordered access, which holds the 12
//     bytes of the key that follow the prefix expected to be common to all keys. New
//     keys wait in a list and enter the tree, sorted, when a cursor needs it; a table
//     that is never read in order is sorted once, when it is flushed.
//
// A node heads the chain of its key's versions, newest first. An overwrite prepends a
// version; the chain below the newest version that every reader may see is cut off,
// and chunks without a live record are given back.
//
// # Concurrency
//
// One writer at a time (the stripe's write lock sees to it) and any number of
// readers. One plain mutex guards the table, held for memory work only: a point read of a
// key that is there, or one batch of a cursor; the first may have to sort up to 8,192 keys.
// A point read of an absent key takes no lock. After Freeze no entry changes any more and
// no reader locks.
//
// Ownership: keys and values handed out are views into the arena. They never change
// and stay valid for as long as they are referenced; code that keeps a small one for
// long should copy it, because it keeps a whole chunk of up to 64 KiB alive.
package memtable
