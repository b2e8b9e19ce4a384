// Package typed has tables whose rows are structs: package table with columns that the compiler
// knows. A misspelt column, a column of another table or a value of another type does not
// compile.
//
// # Tables
//
// A [Table] and its columns are variables of a program, made by [NewTable] and [Col], [Ptr] or
// [List], or written by cmd/kstone-gen; they belong to no database. [Migrate] makes the definition
// that a database has the same, [Attach] checks that it is. A column makes predicates (Eq, Between,
// InQuery and so on), which [And], [Or] and [Not] combine, terms of an order and assignments.
//
// # Reads and writes
//
// What is read is a *table.DB, a *table.Snapshot or a *table.Tx; what is written, a *table.DB
// or a *table.Tx. Errors are those of package table: table.ErrNotFound, *table.UniqueError.
//
//	err = Orders.Insert(ctx, db, &Order{…})
//	for o, err := range Orders.Where(Status.Eq("paid")).OrderBy(Date.Desc()).All(ctx, db) { … }
//
// A [Query] is a value that may be kept; Query.Prepare plans it once. A query that is built
// again each time, with other values, finds its plan in the cache of the DB by its shape.
//
// A [Join] is of two or more tables, with a struct of their rows: its columns make queries as those
// of a Table do. Query.Columns reads some columns only, [Select] one, and [GroupBy] makes groups.
//
// # Structs and stored rows
//
// Get, Load and queries of whole rows move the bytes of a row to the fields of a struct by their
// offsets; so do Insert and Put the other way round. Columns whose Go type is not the stored
// form go over an expr.Value.
package typed
