// Package local is the engine of this process as a store of tables: [OpenDir] opens a directory
// with its tables, [Open] those of an engine.DB, [New] makes a store.Store of it.
package local
