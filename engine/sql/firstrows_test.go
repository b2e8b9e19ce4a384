package sql_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// TestFirstRows: the first rows of an order are those of all rows in order, with few values of the
// first column, so that later ones decide, and with NULLs.
//
// Promise (sql): ORDER BY with a LIMIT has the first rows of the same order without one, whatever
// is equal or NULL.
func TestFirstRows(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	s, rnd := openSession(t), testutil.Rand(t)
	exec(t, s, "CREATE TABLE t (id INTEGER, a INTEGER NULL, b INTEGER, PRIMARY KEY (id))")
	var rows []string
	for i := range 8_000 {
		a := fmt.Sprint(rnd.IntN(40) - 20)
		if rnd.IntN(50) == 0 {
			a = "NULL"
		}
		rows = append(rows, fmt.Sprintf("(%d, %s, %d)", i, a, rnd.IntN(1000)))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	for _, order := range []string{"a, b, id", "a DESC, b, id", "a, b DESC, id",
		"a NULLS LAST, b, id", "a DESC NULLS FIRST, b DESC, id"} {
		for _, where := range []string{"", "WHERE b % 3 = 1 ", "WHERE a > 0 "} {
			text := "SELECT * FROM t " + where + "ORDER BY " + order
			all := strings.Split(queried(t, s, text), "\n")
			for _, n := range []int{1, 7, 200, 500} {
				first := queried(t, s, fmt.Sprintf("%s LIMIT %d", text, n))
				if first != strings.Join(all[:n], "\n") {
					t.Errorf("%s LIMIT %d: %v, want %v", text, n, first, all[:n])
				}
			}
		}
	}
}

// The first rows of a small table in the order of its key, from a bound on that is not known, are
// not sorted: to search 256 stripes for them takes as long as to search these for all.
func TestFirstRowsOfSmallTable(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INTEGER, s TEXT, PRIMARY KEY (id))")
	var rows []string
	for i := range 2_500 {
		rows = append(rows, fmt.Sprintf("(%d, 'text of row %d')", i, i))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	exec(t, s, "ANALYZE")
	for _, order := range []string{"id", "id DESC"} {
		text := "SELECT s FROM t WHERE id >= ? ORDER BY " + order + " LIMIT 10"
		plan := queried(t, s, "EXPLAIN "+text, 7)
		if !strings.Contains(plan, "order: id") {
			t.Errorf("by %s:\n%s", order, plan)
		}
	}
}

// A query whose context ends when its first row comes hands on no more than a thousand others,
// though it has all of them in memory.
func TestQueryEnds(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE ends (id INT PRIMARY KEY, v INT NOT NULL)")
	values := make([]string, 4000)
	for i := range values {
		values[i] = fmt.Sprintf("(%d, %d)", i, i*7%4001)
	}
	exec(t, s, "INSERT INTO ends VALUES "+strings.Join(values, ", "))
	for _, text := range []string{
		"SELECT v FROM ends ORDER BY v",
		"SELECT v, count(*) FROM ends GROUP BY v",
		"SELECT DISTINCT v FROM ends",
		"SELECT a.v FROM ends a JOIN ends b ON a.v = b.v ORDER BY b.v + 1",
		"SELECT v FROM ends UNION SELECT id FROM ends",
		"SELECT a.v FROM ends a, ends b",
	} {
		ended, cancel := context.WithCancel(context.Background())
		defer cancel()
		rows, err := s.Query(ended, text)
		ok(t, err)
		n := 0
		for _, err = range rows.All() {
			if n++; n == 1 {
				cancel()
			}
		}
		if !errors.Is(err, context.Canceled) || n > 1200 {
			t.Errorf("%s: %d rows, %v", text, n, err)
		}
	}
}

// TestExpected: what a statement is expected to read and write follows from the tables, and from
// what it does with the rows.
func TestExpected(t *testing.T) {
	ctx, s := context.Background(), openSession(t)
	exec(t, s, "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a), INDEX by_b (b))")
	values := make([]string, 1000)
	for i := range values {
		values[i] = fmt.Sprintf("(%d, %d)", i, i%10)
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(values, ", "))
	exec(t, s, "ANALYZE t")
	for text, want := range map[string][2]float64{
		"SELECT * FROM t ORDER BY b + a":                 {1000, 0},
		"SELECT a FROM t WHERE b = 3":                    {100, 0},
		"SELECT count(*) FROM t x JOIN t y ON x.b = y.a": {2000, 0},
		"SELECT a FROM t LIMIT 10":                       {20, 0},
		"UPDATE t SET b = b + 1":                         {1000, 0},
		"DELETE FROM t WHERE a % 2 = 1":                  {1000, 0},
		"INSERT INTO t SELECT a + 1000, b FROM t":        {1000, 2000},
	} {
		stmt, err := s.Prepare(text)
		ok(t, err)
		if _, _, err := stmt.Expected(ctx, 1); err == nil {
			t.Errorf("%s: a value without a parameter is taken", text)
		}
		reads, writes, err := stmt.Expected(ctx)
		near := func(got, want float64) bool { return math.Abs(got-want) <= 1+want/5 }
		if err != nil || !near(reads, want[0]) || !near(writes, want[1]) {
			t.Errorf("%s reads %v and writes %v, want %v, %v", text, reads, writes, want, err)
		}
	}
}
