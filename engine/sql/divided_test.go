package sql_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// dividedStatements read a table or an index by several goroutines.
var dividedStatements = []string{
	"SELECT * FROM t WHERE a % 3 = 1",
	"SELECT id, s FROM t WHERE s LIKE '%7%' LIMIT 40 OFFSET 700",
	"SELECT count(*), count(a), sum(a), min(s), max(f), avg(a) FROM t WHERE a % 5 <> 2",
	"SELECT sum(f), avg(f * 3) FROM t",
	"SELECT any_value(a), min(c) FILTER (WHERE a > 5) FROM t WHERE a % 5 <> 2",
	"SELECT g, any_value(f), max(c) FILTER (WHERE a % 2 = 0) FROM t GROUP BY g",
	"SELECT g, count(*), sum(a), min(s) FROM t GROUP BY g",
	"SELECT s, f, sum(a) FROM t GROUP BY s, f",
	"SELECT g, group_concat(id), count(DISTINCT a) FROM t WHERE id % 9 = 4 GROUP BY g",
	"SELECT a, count(*) FROM t GROUP BY a",
	"SELECT DISTINCT g FROM t WHERE a > 10",
	"SELECT id FROM t ORDER BY g",
	"SELECT * FROM t ORDER BY f, s DESC",
	"SELECT g, a FROM t WHERE a % 2 = 0 ORDER BY g LIMIT 100",
	"SELECT id, s FROM t ORDER BY a % 7 LIMIT 50",
	"SELECT t.id, u.v FROM t JOIN u ON t.g = u.id WHERE u.v < 50",
	"SELECT t.id, u.v FROM t LEFT JOIN u ON t.g = u.id AND u.v < 10",
	"SELECT u.v, count(*), sum(t.a) FROM t JOIN u ON t.g = u.id GROUP BY u.v",
	"SELECT x.id, y.id FROM t x JOIN t y ON x.a = y.id WHERE x.g = 3",
	"SELECT id FROM t WHERE g NOT IN (SELECT id FROM u WHERE v < 20)",
	"SELECT a FROM t WHERE a BETWEEN 100 AND 900",
	"SELECT t.id, r.n FROM t LEFT JOIN (SELECT v, count(*) AS n FROM w INDEXED BY wv " +
		"WHERE v < 50 GROUP BY v) r ON t.g = r.v",
}

// openDivided returns what opens the tables of a database, with rows in files and in memory, until
// it is called again.
func openDivided(t *testing.T) func(workers int, memory int64) *sql.Session {
	t.Helper()
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	e, err := engine.Open(t.TempDir(), nil)
	ok(t, err)
	t.Cleanup(func() { e.Close() })
	var seconds atomic.Int64
	slow := func() time.Time { return time.Unix(seconds.Add(1), 0) } // all takes long
	var db *table.DB
	open := func(workers int, memory int64) *sql.Session {
		if db != nil {
			db.Close()
		}
		var err error
		db, err = local.Open(context.Background(), e, &table.Options{Workers: workers,
			MemoryBytes: memory, Clock: slow})
		ok(t, err)
		return sql.Open(db)
	}
	t.Cleanup(func() { db.Close() })
	s := open(1, 0)
	exec(t, s, "CREATE TABLE t (id INT, a INT, g INT, s TEXT, f FLOAT, c TEXT COLLATE NOCASE, "+
		"PRIMARY KEY (id), INDEX ka (a) SHARD (16, tidb))")
	exec(t, s, "CREATE TABLE u (id INT, v INT, PRIMARY KEY (id))")
	exec(t, s, "CREATE TABLE w (id INT, v INT, PRIMARY KEY (id), INDEX wv (v))")
	const rows = 4000
	for from := 0; from < rows; from += 500 {
		var list []string
		for i := from; i < from+500; i++ {
			list = append(list, fmt.Sprintf("(%d, %d, %d, 'text %d', %d.%d, '%c')", i,
				i*7919%1009, i%53, i*31%997, i*17%101, i%10, "aA"[i%2]))
		}
		exec(t, s, "INSERT INTO t VALUES "+strings.Join(list, ", "))
		if from == rows/2 {
			ok(t, e.Flush(context.Background()))
		}
	}
	for i := range 60 {
		exec(t, s, fmt.Sprintf("INSERT INTO u VALUES (%d, %d)", i, i*37%60))
	}
	exec(t, s, "INSERT INTO w SELECT id, v FROM u")
	exec(t, s, "DELETE FROM t WHERE id % 11 = 3")
	return open
}

// What several goroutines read together is what one reads alone, its order included, with much
// memory and with little.
//
// Promise (sql): A query has the same rows in the same order, and sums to the last digit, however
// many goroutines read for it. Also `TestDividedQueriesEnd`, `TestSpilledQueries` in `engine/exec`.
func TestDividedQueries(t *testing.T) {
	open := openDivided(t)
	one := open(1, 0)
	want := map[string]string{}
	for _, text := range dividedStatements {
		want[text] = queried(t, one, text)
	}
	for _, memory := range []int64{0, 60_000} {
		many := open(4, memory)
		divided := 0
		for _, text := range dividedStatements {
			for range testutil.Effort(1, 3) {
				if got := queried(t, many, text); got != want[text] {
					t.Fatalf("%s with %d bytes\n%s\n got %s\nwant %s", text, memory,
						queried(t, many, "EXPLAIN ANALYZE "+text), got, want[text])
				}
			}
			if strings.Contains(queried(t, many, "EXPLAIN ANALYZE "+text), " workers 4") {
				divided++
			}
		}
		if divided < 16 {
			t.Errorf("%d of %d statements were divided", divided, len(dividedStatements))
		}
	}
}

// A divided query ends early by LIMIT, by its reader, which may panic, its context, and the error
// of any of its goroutines.
func TestDividedQueriesEnd(t *testing.T) {
	open := openDivided(t)
	s := open(4, 0)
	for _, text := range []string{
		"SELECT * FROM t WHERE a % 3 = 1",
		"SELECT s, count(*) FROM t GROUP BY s",
		"SELECT id FROM t ORDER BY s",
		"SELECT t.id, u.v FROM t JOIN u ON t.g = u.id",
	} {
		rows, err := s.Query(context.Background(), text)
		ok(t, err)
		n := 0
		for _, err := range rows.All() {
			ok(t, err)
			if n++; n == 700 {
				break
			}
		}
		func() {
			defer func() {
				if got := recover(); got != text {
					t.Errorf("%s: %v instead of the reader's panic", text, got)
				}
			}()
			n := 0
			for range rows.All() {
				if n++; n == 300 { // helpers wait until there is room for their rows
					panic(text)
				}
			}
		}()
		ctx, cancel := context.WithCancelCause(context.Background())
		gone := errors.New("nobody waits")
		if rows, err = s.Query(ctx, text); err != nil {
			t.Fatal(err)
		}
		cancel(gone)
		for _, got := range rows.All() {
			err = got
		}
		if !errors.Is(err, gone) {
			t.Errorf("%s: %v after its context has ended", text, err)
		}
	}
	// The row with id 3999 is read late, by whoever comes to it.
	unit := "date_trunc(CASE WHEN id = 3999 THEN 'decade' ELSE 'day' END, now())"
	for _, text := range []string{
		"SELECT " + unit + " FROM t WHERE a > 0",
		"SELECT count(*) FROM t WHERE " + unit + " > now()",
	} {
		_, err := read(s.Query(context.Background(), text))
		if err == nil || !strings.Contains(err.Error(), "decade") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
