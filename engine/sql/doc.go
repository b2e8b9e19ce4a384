// Package sql is the query language of tables, in programs and on the command line: it reads a
// statement, binds its names to the tables of a database, and runs it through the planner.
//
// # The language
//
// It is a small SQL; docs/sql.md is the reference. SELECT has joins, groups, subqueries, WITH and
// UNION; INSERT, UPDATE and DELETE change rows; BEGIN and COMMIT make transactions; CREATE, ALTER
// and DROP define tables, views and indexes; EXPLAIN shows a plan, EXPLAIN ANALYZE runs it and
// counts. A table has a partition key and an optional sort key, an index may be sharded:
//
//	CREATE TABLE orders (
//	  user TEXT, at TIMESTAMP(ms), id UUID, amount DECIMAL(10, 2), status TEXT NULL,
//	  PARTITION KEY (user), SORT KEY (at DESC, id)
//	);
//	CREATE UNIQUE INDEX by_id ON orders (id) SHARD (16);
//	CREATE INDEX by_status ON orders (status, at DESC) INCLUDE (amount);
//
// Columns are NOT NULL unless NULL stands after the type. Parameters are ?, ?NNN, $NNN
// and :name. Keywords are case-insensitive, and so are names of columns if only one fits; names of
// tables are not. Names stand in double quotes or backticks where they would be a keyword. Comments
// begin with -- or stand between /* and */.
package sql
