package sql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

// keptSession returns a session with a table of 300 rows in files and an index.
func keptSession(t *testing.T) *sql.Session {
	t.Helper()
	e, db := openBlocks(t, engine.Options{})
	s := sql.Open(db)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
	exec(t, s, "CREATE INDEX by_a ON t (a)")
	var rows []string
	for i := range 300 {
		rows = append(rows, fmt.Sprintf("(%d, %d, %d)", i, i*7%100, i%50))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	exec(t, s, "ANALYZE")
	ok(t, e.Flush(context.Background()))
	return s
}

// A statement that is kept has what values make of its plan again: of those in its text that is
// what the first execution has made, of those of parameters it is not.
func TestKeptStatementsFollowTheirValues(t *testing.T) {
	s := keptSession(t)
	run := func(stmt *sql.Stmt, args ...any) string {
		t.Helper()
		out, err := read(stmt.Query(context.Background(), args...))
		if err != nil {
			t.Fatal(stmt.Text(), err)
		}
		if !strings.Contains(stmt.Text(), "ORDER BY") {
			slices.Sort(out)
		}
		return strings.Join(out, "\n")
	}
	for _, c := range []string{
		"SELECT DISTINCT b FROM t WHERE id > %s AND id < %s",
		"SELECT count(*), max(b) FROM t WHERE id >= %s AND id < %s OR a = 3",
		"SELECT a, count(*) FROM t WHERE a IN (%s, %s, 11) GROUP BY a ORDER BY a DESC",
		"SELECT count(*) FROM t WHERE %s < %s",
		"SELECT x.id, y.id FROM t x JOIN t y ON x.a = y.b WHERE x.id BETWEEN %s AND %s AND y.a < 9",
		"SELECT count(*) FROM t WHERE b %% 50 = %s AND %s > 3",
	} {
		with, err := s.Prepare(fmt.Sprintf(c, "?", "?"))
		if err != nil {
			t.Fatal(c, err)
		}
		for _, v := range [][2]int64{{3, 40}, {4, 41}, {40, 3}, {7, 70}, {6, 43}, {3, 40}} {
			literal := fmt.Sprintf(c, expr.Int(v[0]), expr.Int(v[1]))
			plain, err := s.Prepare(literal)
			if err != nil {
				t.Fatal(literal, err)
			}
			want := run(with, v[0], v[1])
			for range 3 {
				if got := run(plain); got != want {
					t.Errorf("%s:\n%s\nwith parameters:\n%s", literal, got, want)
				}
			}
		}
	}
}

// Goal: what an execution of a kept statement costs beside its rows is small.
func TestKeptStatementsAllocateLittle(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	s := keptSession(t)
	for _, c := range []struct {
		text string
		most float64
	}{
		{"SELECT a, b FROM t WHERE id = 7", 10},
		{"SELECT count(*) FROM t", 27},
		{"SELECT id, b FROM t WHERE b % 40 = 7", 64},
	} {
		got := testutil.AllocsPerRun(200, func() { readAll(t, s, c.text) })
		if got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.text, got, c.most)
		}
	}
}

// Goal: a text that comes once takes few pieces of memory, most of them for its expressions.
func TestNewTextsAllocateLittle(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	s := keptSession(t)
	n := 0
	for _, c := range []struct {
		text string
		most float64
	}{
		{"SELECT %d", 31},
		{"SELECT a, b FROM t WHERE id = %d", 23},
		{"SELECT a FROM t WHERE id = %d - 1", 48},
		{"SELECT a + %d FROM t WHERE b IS NULL", 75},
		{"SELECT b, count(*) FROM t WHERE b < 2 AND a <> %d GROUP BY b ORDER BY b", 140},
		{"SELECT count(*) + %d FROM t AS u, t AS v WHERE u.id < 2 AND v.id < 2", 222},
	} {
		got := testutil.AllocsPerRun(200, func() {
			n++
			readAll(t, s, fmt.Sprintf(c.text, n))
		})
		if got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.text, got, c.most)
		}
	}
}

// A text that is no query leaves the memory of trees to queries.
func TestQueriesAmongOtherTexts(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	s := keptSession(t)
	n := 0
	prepare := func(texts ...string) float64 {
		return testutil.AllocsPerRun(200, func() {
			for _, text := range texts {
				n++
				_, err := s.Prepare(fmt.Sprintf(text, n))
				ok(t, err)
			}
		})
	}
	const query, other = "SELECT a + b FROM t WHERE id = %d", "DELETE FROM t WHERE id = %d"
	if alone, both := prepare(query)+prepare(other), prepare(query, other); both > alone+4 {
		t.Errorf("%v allocations in turns, %v of each alone", both, alone)
	}
}

// A query is bound again when its tables have changed, after other texts have had the memory of its
// tree.
func TestQueriesAreReadAgain(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT NULL)")
	exec(t, s, "INSERT INTO t VALUES (1, 20, 3), (2, 10, 4)")
	const text = "SELECT a + 1, (SELECT max(b) FROM t) FROM t WHERE id > 0 AND b > 0 ORDER BY a"
	stmt, err := s.Prepare(text)
	ok(t, err)
	run := func() (string, error) {
		for i := range 3 {
			queried(t, s, fmt.Sprintf("SELECT 'x', id FROM t AS u WHERE a < %d AND a > %d", i, -i))
		}
		rows, err := read(stmt.Query(t.Context()))
		return strings.Join(rows, "; "), err
	}
	for _, change := range []string{"", "ADD COLUMN c INT NULL", "RENAME COLUMN c TO d"} {
		if change != "" {
			exec(t, s, "ALTER TABLE t "+change)
		}
		if got, err := run(); err != nil || got != "11 4; 21 4" {
			t.Errorf("after %q: %s, %v", change, got, err)
		}
	}
	exec(t, s, "ALTER TABLE t DROP COLUMN b")
	var at *sql.Error
	if _, err := run(); !errors.As(err, &at) || at.Pos != strings.Index(text, "b >") {
		t.Errorf("without column b: %v", err)
	}
}

// readAll runs a query to its end.
func readAll(t *testing.T, s *sql.Session, text string) {
	t.Helper()
	rows, err := s.Query(context.Background(), text)
	if err != nil {
		t.Fatal(text, err)
	}
	for _, err := range rows.All() {
		if err != nil {
			t.Fatal(text, err)
		}
	}
}
