// Package sql is the query language of the command line: it reads a statement, binds its
// names to the tables of a database, and runs it through the planner.
//
// # The language
//
// It is a small SQL. SELECT has WHERE, JOIN, GROUP BY, HAVING, DISTINCT, ORDER BY, LIMIT
// and OFFSET, and subqueries after IN and EXISTS; INSERT, UPDATE and DELETE change rows;
// CREATE, ALTER and DROP define tables and indexes; EXPLAIN shows a plan, EXPLAIN ANALYZE
// runs it and counts. A table has a partition key and an optional sort key, an index may
// be sharded:
//
//	CREATE TABLE orders (
//	  user TEXT, at TIMESTAMP(ms), id UUID, amount DECIMAL(10, 2), status TEXT NULL,
//	  PARTITION KEY (user), SORT KEY (at DESC, id)
//	);
//	CREATE UNIQUE INDEX by_id ON orders (id) SHARD (16);
//	CREATE INDEX by_status ON orders (status, at DESC) INCLUDE (amount);
//
// Columns are NOT NULL unless NULL stands after the type. Parameters are ?, ?NNN, $NNN
// and :name. Keywords are case-insensitive; names are not, and stand in double quotes
// where they would be a keyword. Comments begin with -- or stand between /* and */.
package sql
