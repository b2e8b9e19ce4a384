// Package crosscheck compares the query language with SQLite: the same generated queries over
// the same rows must give the same results. It is a module of its own, for tests only, so
// that SQLite is no requirement of kstone. Run it with "make sql-check".
package crosscheck
