package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
)

// tripsTables are those of TestRoundTrips.
const tripsTables = `CREATE TABLE customers (id INT PRIMARY KEY, name TEXT);
	CREATE TABLE orders (id INT PRIMARY KEY, customer INT, total INT, at INT, note TEXT,
		INDEX by_customer (customer), INDEX by_total (total) INCLUDE (note),
		INDEX by_at (at) SHARD (16));
	CREATE TABLE events (customer INT, at INT, note TEXT, PRIMARY KEY (customer, at))`

const (
	tripsOrders    = 1200
	tripsCustomers = 600
	joinedRows     = 512
)

// fillOrders fills the tables, with few rows a statement, as stores have limits.
func fillOrders(t *testing.T, s *sql.Session) {
	t.Helper()
	fill := func(into string, n, each int, row func(i int) string) {
		for from := 0; from < n; from += each {
			var rows []string
			for i := from; i < min(from+each, n); i++ {
				rows = append(rows, row(i))
			}
			_, err := s.Exec(context.Background(), "INSERT INTO "+into+" VALUES "+
				strings.Join(rows, ", "))
			ok(t, err)
		}
	}
	fill("customers", tripsCustomers, 40, func(i int) string {
		return fmt.Sprintf("(%d, 'c%d')", i, i)
	})
	fill("events", 400, 40, func(i int) string {
		return fmt.Sprintf("(%d, %d, 'e%d')", i%4, i, i)
	})
	fill("orders", tripsOrders, 15, func(i int) string {
		return fmt.Sprintf("(%d, %d, %d, %d, 'n%d')", i, i*7%tripsCustomers, i, i*31%5000, i)
	})
}

// Statements wait for a store on other machines as often as they must. Here each request to it
// takes a millisecond.
//
// A store that cannot fix the moment of a read in several places with the read itself, as TiKV, has
// a timestamp before: later.
//
// Promise (sql): Over a store on other machines a point is one round trip, a lookup by an index
// two, one if it covers, a page one, an insert with three indexes two at most, a join of n rows
// n/256+2, and the first rows of 16 buckets one.
func TestRoundTrips(t *testing.T) {
	session, later := slowOrders(t)
	for _, c := range []tripCase{
		{"point", "SELECT * FROM orders WHERE id = ?", 1, 1, [2][]any{{1}, {2}}},
		{"index", "SELECT * FROM orders WHERE customer = ?", 2, 2, [2][]any{{7}, {14}}},
		{"covering index", "SELECT note FROM orders WHERE total = ?", 1, 1, [2][]any{{7}, {8}}},
		{"page of a partition", "SELECT * FROM events WHERE customer = ? AND at > 5 " +
			"ORDER BY at LIMIT 50", 50, 1, [2][]any{{0}, {1}}},
		{"page of all rows", "SELECT * FROM orders WHERE id > ? ORDER BY id LIMIT 50", 50,
			1 + later, [2][]any{{7}, {8}}},
		{"16 buckets", "SELECT at FROM orders ORDER BY at LIMIT 10", 10, 1 + later, [2][]any{}},
		{"join", fmt.Sprintf("SELECT o.id, c.name FROM orders o JOIN customers c "+
			"ON c.id = o.customer WHERE o.id < %d", joinedRows), joinedRows,
			joinedRows/256 + 2, [2][]any{}},
		{"insert", "INSERT INTO orders VALUES (?, 1, 1, 1, 'n')", 0, 2,
			[2][]any{{10_001}, {10_002}}},
		{"update", "UPDATE orders SET total = 5 WHERE id = ?", 0, 3 + 2*later,
			[2][]any{{1}, {2}}},
		{"delete", "DELETE FROM orders WHERE id = ?", 0, 3 + 2*later,
			[2][]any{{10_001}, {10_002}}},
	} {
		c.run(t, session)
	}
}

// tripCase is a statement with its rows and most round trips.
type tripCase struct {
	name, text string
	rows, most int
	args       [2][]any // of the first execution, which prepares, and of the one that counts
}

func (c *tripCase) run(t *testing.T, session *sql.Session) {
	t.Helper()
	stmt, err := session.Prepare(c.text)
	ok(t, err)
	for i, args := range c.args {
		counted, trips := store.CountTrips(context.Background())
		begun := time.Now()
		var rows []string
		if stmt.Returns() {
			rows, err = read(stmt.Query(counted, args...))
		} else {
			_, err = stmt.Exec(counted, args...)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if i == 0 {
			continue
		}
		t.Logf("| %s | %d | %d | %.1f ms |", c.name, trips.Waves(), trips.Requests(),
			time.Since(begun).Seconds()*1000)
		if trips.Waves() > c.most || len(rows) != c.rows {
			t.Errorf("%s: %d rows in %v, want %d in %d\n%s", c.name, len(rows), trips, c.rows,
				c.most, queried(t, session, "EXPLAIN ANALYZE "+c.text, args...))
		}
	}
}

// slowOrders returns a session over filled tables whose storage takes its time; later is 1 if a
// snapshot is a round trip of its own.
func slowOrders(t *testing.T) (session *sql.Session, later int) {
	t.Helper()
	own := remotetest.New(true, 1<<20)
	s, slow := store.Store(own), own.SetLatency
	if slowStorage != nil {
		s, slow = slowStorage(t)
		t.Cleanup(func() { s.Close() })
	}
	ctx := context.Background()
	later = momentTrips(t, s)
	db, err := table.OpenStore(ctx, s, &table.Options{Lease: time.Hour})
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	session = sql.Open(db)
	for _, text := range strings.Split(tripsTables, ";") {
		ok(t, second(session.Exec(ctx, text)))
	}
	fillOrders(t, session)
	ok(t, second(session.Exec(ctx, "ANALYZE")))
	slow(time.Millisecond)
	t.Cleanup(func() { slow(0) })
	return session, later
}

// momentTrips returns how many trips it takes to fix the moment of a read in several places.
func momentTrips(t *testing.T, s store.Store) int {
	t.Helper()
	counted, trips := store.CountTrips(context.Background())
	snap, err := s.(store.LateSnapshots).SnapshotLater(counted, true, func() error { return nil })
	ok(t, err)
	defer snap.Close()
	two := store.Partitions([][]byte{[]byte("a"), []byte("b")})
	for _, err := range snap.Scan(counted, two) {
		ok(t, err)
	}
	return trips.Waves() - 1
}
