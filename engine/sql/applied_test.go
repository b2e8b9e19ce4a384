package sql_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/sql"
)

// appliedTables has 120 rows of t, with b from 0 to 9, and 60 of u.
func appliedTables(t *testing.T, memory int64) *sql.Session {
	t.Helper()
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { e.Close() })
	s := sessionOf(t, e, memory)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, b INT)")
	exec(t, s, "CREATE TABLE u (id INT PRIMARY KEY, x INT, s TEXT)")
	for i := range 120 {
		exec(t, s, fmt.Sprintf("INSERT INTO t VALUES (%d, %d)", i, i%10))
	}
	for i := range 60 {
		exec(t, s, fmt.Sprintf("INSERT INTO u VALUES (%d, %d, '%s')", i, i%12,
			strings.Repeat("text ", 40)))
	}
	exec(t, s, "ANALYZE")
	return s
}

// TestAppliedRuns runs subqueries that use columns of the rows around them.
//
// Promise (sql): A subquery for each row runs once for equal arguments, in the state and the
// memory of the query around it, and ends with its context. Also `TestAppliedState`,
// `TestAppliedStops`, `TestAppliedMemory`, `TestAppliedDepth` in `engine/sql`.
//
// A subquery is run once for equal values of its arguments, what is the same in
// all runs is read in two of them, and EXPLAIN ANALYZE counts both.
func TestAppliedRuns(t *testing.T) {
	s := appliedTables(t, 0)
	text := "SELECT id, (SELECT count(*) FROM u WHERE u.x < t.b) FROM t"
	plan := queried(t, s, "EXPLAIN ANALYZE "+text)
	for _, want := range []string{`for each: t\.b \| runs: 10 of 120`,
		`keep for all runs .* actual rows 600 .* loops 10(\n|$)`,
		`SCAN u .* keys 120 .* loops 2(\n|$)`} {
		if !regexp.MustCompile(want).MatchString(plan) {
			t.Errorf("EXPLAIN ANALYZE has no %s:\n%s", want, plan)
		}
	}
	plain := queried(t, s, "EXPLAIN "+text)
	once := costs(t, plain, "subquery scalar")
	if all, rows := costs(t, plain, "project"), costs(t, plain, "FULL SCAN t"); all < rows+9*once {
		t.Errorf("ten runs of %.0f ns are not in the price:\n%s", once, plain)
	}
}

// costs returns the cost of the first step of a plan that has a text.
func costs(t *testing.T, plan, step string) (ns float64) {
	t.Helper()
	unit := ""
	for line := range strings.Lines(plan) {
		if at := strings.Index(line, " cost "); at >= 0 && strings.Contains(line, step) {
			ok(t, second(fmt.Sscanf(line[at:], " cost ~%g%s", &ns, &unit)))
			return ns * map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
		}
	}
	t.Fatalf("there is no %s in\n%s", step, plan)
	return 0
}

// TestAppliedState: all runs read the state that the query began in.
func TestAppliedState(t *testing.T) {
	s := appliedTables(t, 0)
	for _, inner := range []string{"SELECT count(*) FROM u WHERE u.x >= t.b - 100",
		"SELECT sum(y.x) FROM u y WHERE y.id = t.id % 7", "SELECT max(x + t.b - t.b) FROM u"} {
		text := "SELECT id, (" + inner + ") FROM t"
		want := queried(t, s, text+" ORDER BY id")
		got := map[int64]string{}
		rows, err := s.Query(context.Background(), text)
		ok(t, err)
		for row, err := range rows.All() {
			ok(t, err)
			id, _ := row[0].AsInt()
			if got[id] = strings.Trim(fmt.Sprint(row), "[]"); len(got)%50 == 1 {
				exec(t, s, fmt.Sprintf("UPDATE u SET x = x + 1000 WHERE id < %d", len(got)))
			}
		}
		var all []string
		for id := range int64(120) {
			all = append(all, got[id])
		}
		if strings.Join(all, "\n") != want {
			t.Errorf("%s: rows are\n%v\nand not\n%s", text, all, want)
		}
	}
}

// TestJoinsStop: a context ends joins of rows that are in memory.
func TestJoinsStop(t *testing.T) {
	s := appliedTables(t, 0)
	for _, text := range []string{
		"SELECT 1 FROM t a, t b, t c",
		"SELECT 1 FROM t a LEFT JOIN t b ON b.id + a.id > 0 LEFT JOIN t c ON c.id + a.id > 0",
		"SELECT 1 FROM t a JOIN t b ON a.id * 0 = b.id * 0 JOIN t c ON c.id * 0 = b.id * 0",
	} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		rows, err := s.Query(ctx, text)
		ok(t, err)
		n := 0
		for _, err = range rows.All() {
			if n++; n == 1 {
				cancel()
			}
		}
		if !errors.Is(err, context.Canceled) || n > 10_000 {
			t.Errorf("%s: %d rows, %v", text, n, err)
		}
	}
}

// TestAppliedStops: a context ends a query in a subquery that is run for its rows.
func TestAppliedStops(t *testing.T) {
	s := appliedTables(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rows, err := s.Query(ctx, "SELECT id, (SELECT count(*) FROM u WHERE u.x < t.id) FROM t")
	ok(t, err)
	n := 0
	for _, err = range rows.All() {
		if n++; n == 3 {
			cancel()
		}
	}
	if !errors.Is(err, context.Canceled) || n > 5 {
		t.Errorf("%d rows came, and %v", n, err)
	}
}

// TestAppliedMemory: with little memory nothing is kept, and the result is the same.
func TestAppliedMemory(t *testing.T) {
	plenty, little := appliedTables(t, 0), appliedTables(t, 4000)
	for _, text := range []string{
		"SELECT id, (SELECT count(*) FROM u WHERE u.x < t.b) FROM t",
		"SELECT id, (SELECT s || b FROM u WHERE x < b ORDER BY id LIMIT 1) FROM t",
		"SELECT id FROM t WHERE b = 3 OR b IN (SELECT x FROM u WHERE x > t.b + 1)",
	} {
		want := strings.Split(queried(t, plenty, text), "\n")
		got := strings.Split(queried(t, little, text), "\n")
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: rows are\n%v\nand not\n%v", text, got, want)
		}
	}
	plan := queried(t, little, "EXPLAIN ANALYZE SELECT id, (SELECT count(*) FROM u WHERE "+
		"u.s || t.b > 'a') FROM t")
	if !regexp.MustCompile(`SCAN u .* loops [1-9]\d+(\n|$)`).MatchString(plan) {
		t.Errorf("12,000 bytes of texts are kept in 4000:\n%s", plan)
	}
}

// TestAppliedDepth: subqueries are nested 16 deep at most.
func TestAppliedDepth(t *testing.T) {
	s := appliedTables(t, 0)
	text := func(depth int) string {
		out := "t.b"
		for i := range depth {
			out = fmt.Sprintf("(SELECT u%d.id FROM u AS u%[1]d WHERE u%[1]d.id = %s)", i, out)
		}
		return "SELECT " + out + " AS v FROM t WHERE id = 7"
	}
	if got := queried(t, s, text(16)); got != "7" {
		t.Errorf("16 levels give %s", got)
	}
	_, err := s.Query(context.Background(), text(17))
	if err == nil || !strings.Contains(err.Error(), "nested more than 16 deep") {
		t.Errorf("17 levels: %v", err)
	}
}
