// Package postgres is a store.Store over a PostgreSQL database, for programs that share a server.
//
//	import _ "github.com/kstonedb/kstone/engine/store/postgres"
//
//	s, err := store.Open(ctx, "postgres://user:password@host/database?table=kstone")
//
// # URLs
//
// A URL begins with postgres:// or postgresql://. Its parameters are
//
//	table=NAME, or SCHEMA.NAME    the table, kstone if it is not given; it is created
//	timeout=20s                   of calls whose context has no deadline
//
// and those of libpq and pgxpool, such as sslmode, sslrootcert, sslcert, sslkey, connect_timeout
// and pool_max_conns, which is 16 if it is not given: each open snapshot, scan and transaction has
// a connection.
//
// CockroachDB (port 26257) and YugabyteDB (YSQL, port 5433) speak the same protocol and take the
// same URLs. They are untested.
//
// # What is stored
//
// One table with an index has everything: keys are bytes (package remote, without stripes), whose
// order is that of the index, beside value, version and expiry. Versions are numbers of a
// sequence, one for each commit.
//
// # Reads
//
// The read of a key, or of many keys, is one statement. A scan is a transaction, REPEATABLE READ,
// that begins with the first page and ends after the last without being waited for. A snapshot is
// such a transaction that is held open, on a connection of its own: it keeps the server from
// removing old rows, so it should be short.
//
// # Commits
//
// A write set is one statement, which checks its conditions and writes if all hold, in a
// SERIALIZABLE transaction, sent in one round trip. The server refuses it if a concurrent one has
// written, or read, what makes the two depend on each other (SQLSTATE 40001, 40P01); nothing has
// been written then, so Commit tries again before it reports store.ErrConflict. If the connection
// breaks before the answer to COMMIT is there, the outcome is store.ErrUnknown, and nothing is
// tried again. All programs must write with this package: what others write at a lower isolation
// level is not seen by the server's check.
//
// Transactions of many calls are those of the server, SERIALIZABLE, with its savepoints.
package postgres
