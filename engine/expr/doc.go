// Package expr holds the values and expressions of queries.
//
// A Value is one value of a column, or NULL, in a small struct that is passed around by
// value and compared with ==. Compare knows the order of values: numbers of all kinds
// compare exactly, whatever they are stored as.
//
// An Expr is an immutable tree: constants, parameters, columns, comparisons, AND, OR, NOT
// and so on. Conditions have three truth values, as in SQL: what is compared with NULL is
// neither true nor false but Unknown. Compile turns a tree into a Program that tests a
// row without allocating; Eval and Test are the short way for single use.
//
// Expressions have a text form in SQL syntax, which EXPLAIN shows, and a JSON form, which
// the catalogue of tables stores.
//
// The package does no I/O and keeps no state; everything in it may be used concurrently.
package expr
