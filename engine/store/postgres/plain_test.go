//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// plainTables are those of the operations, as a program has them that uses PostgreSQL alone.
const plainTables = `
	CREATE TABLE customers (id bigint PRIMARY KEY, name text);
	CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, total bigint, at bigint,
		note text);
	CREATE INDEX ON orders (customer);
	CREATE INDEX ON orders (total) INCLUDE (note);
	CREATE INDEX ON orders (at);
	CREATE TABLE events (customer bigint, at bigint, note text, PRIMARY KEY (customer, at));
	INSERT INTO customers SELECT i, 'c' || i FROM generate_series(0, 599) i;
	INSERT INTO events SELECT i % 4, i, 'e' || i FROM generate_series(0, 599) i;
	INSERT INTO orders SELECT i, i, i, i * 31 % 5000, 'n' || i FROM generate_series(0, 1199) i;
	ANALYZE`

// The operations of docs/stores.md with SQL of the server wait for so many round trips.
func TestPlainClient(t *testing.T) {
	testutil.SkipUnderRace(t, "it measures")
	srv := need(t)
	admin, err := pgx.Connect(ctx, srv.At(srv.Address())+"?sslmode=disable")
	ok(t, err)
	defer admin.Close(ctx)
	_, err = admin.Exec(ctx, "CREATE DATABASE plain")
	ok(t, err)
	proxy := testutil.NewProxy(t, srv.Address())
	config, err := pgx.ParseConfig(srv.At(proxy.Addr()) + "?sslmode=disable")
	ok(t, err)
	config.Database = "plain"
	c, err := pgx.ConnectConfig(ctx, config)
	ok(t, err)
	defer c.Close(ctx)
	_, err = c.Exec(ctx, plainTables)
	ok(t, err)
	query := func(rows int, text string, args ...any) func(context.Context, int) error {
		return func(ctx context.Context, n int) error {
			if len(args) > 0 {
				args[0] = n
			}
			got, err := c.Query(ctx, text, args...)
			if err != nil {
				return err
			}
			defer got.Close()
			found := 0
			for got.Next() {
				found++
			}
			if found != rows && got.Err() == nil {
				return errors.New("rows are missing")
			}
			return got.Err()
		}
	}
	exec := func(text string) func(context.Context, int) error { return query(0, text, 0) }
	operations := []remotetest.Operation{
		remotetest.Op("point by primary key", 1,
			query(1, "SELECT * FROM orders WHERE id = $1", 0)),
		remotetest.Op("lookup by an index", 1,
			query(1, "SELECT * FROM orders WHERE customer = $1", 0)),
		remotetest.Op("lookup by a covering index", 1,
			query(1, "SELECT note FROM orders WHERE total = $1", 0)),
		remotetest.Op("page of a partition", 1,
			query(50, "SELECT * FROM events WHERE customer = $1 % 4 AND at > 5 "+
				"ORDER BY at LIMIT 50", 0)),
		remotetest.Op("page of all partitions", 1,
			query(50, "SELECT * FROM orders WHERE id > $1 ORDER BY id LIMIT 50", 0)),
		remotetest.Op("first 10 of an index", 1,
			query(10, "SELECT at FROM orders ORDER BY at LIMIT 10")),
		remotetest.Op("join of 512 rows", 1,
			query(512, "SELECT o.id, c.name FROM orders o JOIN customers c "+
				"ON c.id = o.customer WHERE o.id < 512")),
		remotetest.Op("insert with three indexes", 1,
			exec("INSERT INTO orders VALUES (10000 + $1, 1, 1, 1, 'n')")),
		remotetest.Op("update by primary key", 1,
			exec("UPDATE orders SET total = 5 WHERE id = $1")),
		remotetest.Op("delete by primary key", 1, exec("DELETE FROM orders WHERE id = $1")),
	}
	for i := range operations { // statements are prepared
		ok(t, operations[i].Do(ctx, 1100))
	}
	remotetest.RunOperations(t, proxy.SetLatency, operations)
}
