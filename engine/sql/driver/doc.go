// Package driver makes the query language a driver of database/sql, with the name kstone:
//
//	import _ "github.com/kstonedb/kstone/engine/sql/driver"
//
//	db, err := sql.Open("kstone", "shop.db?durability=process")
//
// # Data source names
//
// A name is the directory of the database, or :memory:, and options after a question mark, in
// the form of URL queries:
//
//	mode=create      create the database if there is none (the default), rw: it must exist, ro:
//	                 only read it
//	durability=sync  when COMMIT returns: sync (the default) or process
//	cache_bytes=N    as engine.Options.CacheBytes
//	memtable_bytes=N as engine.Options.MemtableBytes
//	query_bytes=N    as table.Options.MemoryBytes
//	retain_versions=24h
//	                 as engine.Options.RetainVersions: how far AS OF reaches
//	tx_age=10m       as table.Options.MaxTxAge: an older transaction is rolled back
//	workers=N        as table.Options.Workers
//	full_scan=refuse as table.Options.RefuseFullScan; the default is allow
//
// All sql.DBs of one directory in a process share the open database, which is closed with the
// last of them; their options must be the same. Each sql.DB of :memory: is a database of its
// own, for all its connections. NewConnector takes a database that the program has open.
//
// # Transactions
//
// Transactions are serializable, so they satisfy every level that sql.TxOptions may ask for. One
// that loses against another commit fails at Commit, or before, with an error that is a
// *sql.ConflictError of package engine/sql and matches table.ErrConflict: run it again.
// A connection that returns to the pool with a transaction of a BEGIN statement is rolled back.
// In a transaction nothing can be written before the rows of a query are closed.
//
// # Values
//
// Arguments are what expr.From takes, and driver.Valuer. Each is converted to its column exactly,
// or refused; only times that are written are cut to the unit of their column. In comparisons they
// are not: a row written with time.Now() is found by that time cut to the unit. Results are int64,
// uint64, float64, bool, string, []byte and time.Time (in UTC); numbers of type DECIMAL, UUIDs,
// addresses and prefixes are texts, and a list is an []any: see List. LastInsertId is the number of
// the last row inserted into a table with an IDENTITY column.
//
// A text may hold several statements with semicolons between them. Arguments without names are
// divided among them in their order. Of a query, those that return rows come last, and each is
// a set of results.
package driver
