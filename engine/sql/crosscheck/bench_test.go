//go:build unix

package crosscheck

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	ksql "github.com/kstonedb/kstone/engine/sql"
)

// speedQueries read whole tables.
var speedQueries = []struct{ name, text string }{
	{"filter", "SELECT id, a FROM t WHERE a % 50 = 7"},
	{"count", "SELECT count(*) FROM t"},
	{"group", "SELECT g, count(*), sum(a) FROM t GROUP BY g"},
	{"top", "SELECT id, s FROM t ORDER BY a LIMIT 10"},
	{"join", "SELECT count(*), sum(u.v) FROM t JOIN u ON t.g = u.id WHERE u.v < 500"},
	{"sort", "SELECT id FROM t ORDER BY a, id"},
}

// peer is a database to compare with, in memory.
type peer struct {
	driver, dsn string
	set         string // what is executed first
	values      func() any
}

// raw is a place of a value that is not converted.
func raw() any { return new(sql.RawBytes) }

// peers are SQLite in Go, and where there is a C compiler SQLite in C and, with the build tag
// duckdb, DuckDB.
var peers = []peer{{driver: "sqlite", dsn: "file::memory:", set: "SELECT 1", values: raw}}

// BenchmarkSpeed is the time of queries of kstone and its peers, all in memory, by rows of t;
// written are rows that are still in memtables. Compare them with -cpu 1 and 2, interleaved:
// -count 5.
func BenchmarkSpeed(b *testing.B) {
	for _, c := range []struct {
		name string
		rows int
	}{{"2500-written", 2_500}, {"2500", 2_500}, {"100000", 100_000}, {"1000000", 1_000_000}} {
		b.Run(c.name, func(b *testing.B) {
			ours, theirs := openSpeed(b, c.rows,
				func(i int) int { return i * 7919 % 1_000_003 }, c.name == fmt.Sprint(c.rows))
			for _, q := range speedQueries {
				b.Run(q.name+"/kstone", func(b *testing.B) {
					b.ReportAllocs()
					defer processor(b, c.rows)()
					for b.Loop() {
						queryAll(b, ours, q.text)
					}
				})
				for i, p := range peers {
					b.Run(q.name+"/"+p.driver, func(b *testing.B) {
						b.ReportAllocs()
						defer processor(b, c.rows)()
						for b.Loop() {
							readAll(b, theirs[i], p.values, q.text)
						}
					})
				}
			}
		})
	}
}

// BenchmarkRising is the time of a query of a thousandth of the rows by a column that rises with
// the key and has no index: zones leave out blocks. KSTONE_SCALE=10000000
// has 10 million rows, after minutes of loading.
func BenchmarkRising(b *testing.B) {
	rows := 100_000
	if text := os.Getenv("KSTONE_SCALE"); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	ours, theirs := openSpeed(b, rows, func(i int) int { return i }, true)
	text := fmt.Sprintf("SELECT count(*), sum(g) FROM t WHERE a >= %d AND a < %d", rows/2,
		rows/2+rows/1000)
	b.Run("kstone", func(b *testing.B) {
		for b.Loop() {
			queryAll(b, ours, text)
		}
	})
	for i, p := range peers {
		b.Run(p.driver, func(b *testing.B) {
			for b.Loop() {
				readAll(b, theirs[i], p.values, text)
			}
		})
	}
}

// BenchmarkNewTexts is the time of queries of 2,500 rows that were not asked before: each has other
// values in its text. cpu-ns/row is that of a query.
func BenchmarkNewTexts(b *testing.B) {
	ours, theirs := openSpeed(b, 2_500, func(i int) int { return i }, true)
	for _, q := range []struct{ name, text string }{
		{"value", "SELECT %d"},
		{"point", "SELECT a, s FROM t WHERE id = %d"},
		{"join", "SELECT t.a, u.v FROM t JOIN u ON t.g = u.id WHERE t.id = %d"},
	} {
		n := 0
		next := func() string { n++; return fmt.Sprintf(q.text, n) }
		b.Run(q.name+"/kstone", func(b *testing.B) {
			b.ReportAllocs()
			defer processor(b, 1)()
			for b.Loop() {
				queryAll(b, ours, next())
			}
		})
		for i, p := range peers {
			b.Run(q.name+"/"+p.driver, func(b *testing.B) {
				b.ReportAllocs()
				defer processor(b, 1)()
				for b.Loop() {
					readAll(b, theirs[i], p.values, next())
				}
			})
		}
	}
}

// queryAll reads the result of a query of kstone.
func queryAll(b *testing.B, s *ksql.Session, text string) {
	result, err := s.Query(context.Background(), text)
	ok(b, err)
	for _, err := range result.All() {
		ok(b, err)
	}
}

// processor returns what reports the time of the processors, which a loaded machine hardly
// changes, for each row of t.
func processor(b *testing.B, rows int) func() {
	used := func() float64 {
		var u syscall.Rusage
		ok(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric((used()-before)/float64(b.N*rows), "cpu-ns/row") }
}

// readAll reads the result of a query of a peer.
func readAll(b *testing.B, db *sql.DB, value func() any, text string) {
	rows, err := db.Query(text)
	ok(b, err)
	defer rows.Close()
	columns, _ := rows.Columns()
	into := make([]any, len(columns))
	for i := range into {
		into[i] = value()
	}
	for rows.Next() {
		ok(b, rows.Scan(into...))
	}
	ok(b, rows.Err())
}

// openSpeed returns databases with t, of that many rows, and u, of a thousand: of kstone, and of
// each driver. a is a column of t.
func openSpeed(b *testing.B, rows int, a func(i int) int, flush bool) (*ksql.Session, []*sql.DB) {
	b.Helper()
	e, err := engine.Open(b.TempDir(), &engine.Options{InMemory: true})
	ok(b, err)
	b.Cleanup(func() { e.Close() })
	db, err := local.Open(context.Background(), e, nil)
	ok(b, err)
	b.Cleanup(func() { db.Close() })
	theirs := make([]*sql.DB, len(peers))
	for i, p := range peers {
		if theirs[i], err = sql.Open(p.driver, p.dsn); err != nil {
			b.Fatal(err)
		}
		theirs[i].SetMaxOpenConns(1)
		b.Cleanup(func() { theirs[i].Close() })
		if _, err = theirs[i].Exec(p.set); err != nil {
			b.Fatal(err)
		}
	}
	ours := ksql.Open(db)
	all := func(text string) {
		if _, err := ours.Exec(context.Background(), text); err != nil {
			b.Fatal(err)
		}
		for _, db := range theirs {
			if _, err := db.Exec(text); err != nil {
				b.Fatal(err)
			}
		}
	}
	all("CREATE TABLE t (id INTEGER, a INTEGER, g INTEGER, s TEXT, PRIMARY KEY (id))")
	all("CREATE TABLE u (id INTEGER, v INTEGER, PRIMARY KEY (id))")
	fill := func(name string, n int, row func(i int) string) {
		for i := 0; i < n; i += 500 {
			var list []string
			for j := i; j < min(n, i+500); j++ {
				list = append(list, row(j))
			}
			all("INSERT INTO " + name + " VALUES " + strings.Join(list, ", "))
		}
	}
	fill("t", rows, func(i int) string {
		return fmt.Sprintf("(%d, %d, %d, 'some text of row %d')", i, a(i), i*31%1000, i)
	})
	fill("u", 1000, func(i int) string { return fmt.Sprintf("(%d, %d)", i, i*37%1000) })
	if _, err := ours.Exec(context.Background(), "ANALYZE"); err != nil {
		b.Fatal(err)
	}
	if flush {
		ok(b, e.Flush(context.Background()))
	}
	return ours, theirs
}
