// Package tables measures tables, secondary indexes and queries: the table layer of kstone
// beside SQLite and two Go libraries that keep structs with indexes, bstore and badgerhold.
//
// All of them keep the same rows and answer the same questions, in one process, in turns: a
// round gives each engine a turn of the same length for a case, and the next round begins
// with another engine. Before anything is measured, every engine has to answer random
// questions as the data says, so all return equal rows.
//
// Three things are measured of kstone alone: what a prepared query takes beside a read of
// the store and the decoding of the row, how long spans of predicates take, and how
// ascending values are spread by sharded indexes.
package tables
