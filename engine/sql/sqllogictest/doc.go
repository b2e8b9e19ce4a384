// Command sqllogictest runs the query language on the corpus of sqllogictest, the test that
// SQLite and others share, and counts per folder what is equal, wrong and refused:
//
//	go run . [flags] FOLDER | FILE …
//
// It is a module of its own. The corpus is not part
// of it: https://www.sqlite.org/sqllogictest has it, and copies of it are in many repositories.
// A folder is read with the folders below it; the files in it that end in .test count.
//
// # What is changed
//
// Statements run as they stand, except for what kstone and SQLite define differently:
//
//   - Columns of CREATE TABLE get NULL, the default of SQL.
//   - A table without a primary key gets the column zz_key. INSERT numbers it, "SELECT *"
//     is written out without it, and results leave it out.
//   - UNIQUE after a column becomes a unique index.
//
// # What counts
//
// Records for other databases (onlyif, skipif) are left out; kstone is "kstone" there, unless the
// flag -as says otherwise. A query that fails is refused, with the kind of its message. If a
// statement that writes is refused, so is what reads its table afterwards. With -sqlite an answer
// that differs from the corpus and is that of SQLite counts apart: some records expect / of
// integers as in MySQL. The rates are by processor time.
package main
