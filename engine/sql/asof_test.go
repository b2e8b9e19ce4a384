package sql_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
)

// pastSession returns a session over a table t that had the value "a" at a moment and has "b"
// since, and a table gone that had a row then; and the moment, which is VERSION and MOMENT in what
// then takes.
func pastSession(t *testing.T, retain time.Duration) (s *sql.Session, then func(string) string) {
	t.Helper()
	e, err := engine.Open("past", &engine.Options{InMemory: true, RetainVersions: retain})
	ok(t, err)
	db, err := local.Open(t.Context(), e, nil)
	ok(t, err)
	t.Cleanup(func() { ok(t, errors.Join(db.Close(), e.Close())) })
	s = sql.Open(db)
	answerOf(t, s, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'a');"+
		"CREATE TABLE gone (id INT PRIMARY KEY, old TEXT); INSERT INTO gone VALUES (7, 'x')")
	version := e.Metrics().LastVersion
	time.Sleep(10 * time.Second) // the index of times has the commit
	at := time.Now()
	time.Sleep(10 * time.Second)
	answerOf(t, s, "UPDATE t SET v = 'b'; DROP TABLE gone; CREATE VIEW w AS SELECT v FROM t")
	time.Sleep(10 * time.Second)
	words := strings.NewReplacer("VERSION", fmt.Sprint(version),
		"MOMENT", at.UTC().Format("'2006-01-02T15:04:05.000Z'"))
	return s, words.Replace
}

// A query with AS OF reads the tables and definitions of its moment, in all of its parts.
//
// Promise (history): SELECT … AS OF reads all its tables, subqueries included, as they were.
func TestAsOf(t *testing.T) { synctest.Test(t, testAsOf) }

func testAsOf(t *testing.T) {
	s, then := pastSession(t, time.Hour)
	for text, want := range map[string]string{
		"SELECT v FROM t": "'b'",
		"SELECT v FROM t AS OF VERSION WHERE id = 1":                              "'a'",
		"SELECT v FROM t AS OF '1s'":                                              "'b'",
		"SELECT v FROM t AS OF '15s'":                                             "'a'",
		"SELECT v FROM t AS OF MOMENT":                                            "'a'",
		"SELECT v FROM t AS OF TIMESTAMP MOMENT":                                  "'a'",
		"SELECT v, (SELECT max(v) FROM t) FROM t x AS OF VERSION":                 "'a' 'a'",
		"SELECT old FROM gone AS OF VERSION":                                      "'x'",
		"SELECT v FROM t AS OF VERSION UNION SELECT old FROM gone ORDER BY v":     "'a'\n'x'",
		"SELECT of.v FROM t AS of":                                                "'b'",
		"SELECT of.v FROM t AS of AS OF VERSION":                                  "'a'",
		"WITH q AS (SELECT v FROM t) SELECT v FROM q AS OF VERSION":               "'a'",
		"SELECT t.v, old FROM t JOIN gone ON gone.id > t.id AS OF VERSION":        "'a' 'x'",
		"SELECT q.v FROM (SELECT v FROM t) AS q AS OF VERSION ORDER BY 1 LIMIT 1": "'a'",
	} {
		if got := answerOf(t, s, then(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	at, err := time.Parse(time.RFC3339, strings.Trim(then("MOMENT"), "'"))
	ok(t, err)
	for _, arg := range []any{then("VERSION"), at, at.Format(time.RFC3339Nano)} {
		stmt, err := s.Prepare("SELECT old FROM gone AS OF ? WHERE id = ?")
		ok(t, err)
		for range 2 {
			got, err := read(stmt.Query(t.Context(), arg, 7))
			if err != nil || !slices.Equal(got, []string{"'x'"}) {
				t.Errorf("as of %v: %s, %v", arg, got, err)
			}
		}
	}
	list := []int{7}
	stmt, err := s.Prepare("SELECT old FROM gone AS OF ? WHERE id IN (?)")
	ok(t, err)
	rows, err := stmt.Query(t.Context(), at, list)
	list[0] = 8 // it is the caller's again, before the rows are read
	if got, err := read(rows, err); err != nil || !slices.Equal(got, []string{"'x'"}) {
		t.Errorf("with a list that is written to: %s, %v", got, err)
	}
	stmt, err = s.Prepare("SELECT v FROM t AS OF :when WHERE id = :id")
	ok(t, err)
	got, err := read(stmt.Query(t.Context(), sql.Named("id", 1), sql.Named("when", at)))
	if err != nil || !slices.Equal(got, []string{"'a'"}) {
		t.Errorf("with names: %s, %v", got, err)
	}
	plan, err := s.Query(t.Context(), then("EXPLAIN ANALYZE SELECT old FROM gone AS OF VERSION"))
	if err != nil || !strings.Contains(plan.Plan.String(), "gone") {
		t.Errorf("EXPLAIN: %v, %v", plan, err)
	}
	func() { // nothing stays open after a body that panics
		defer func() { _ = recover() }()
		rows, err := s.Query(t.Context(), then("SELECT v FROM t AS OF VERSION"))
		ok(t, err)
		for range rows.All() {
			panic("in the body")
		}
	}()
	// Not read: it keeps nothing.
	if _, err := s.Query(t.Context(), then("SELECT v FROM t AS OF MOMENT")); err != nil {
		t.Error(err)
	}
}

// What AS OF cannot be is an error at its place.
func TestAsOfIsRefused(t *testing.T) { synctest.Test(t, testAsOfIsRefused) }

func testAsOfIsRefused(t *testing.T) {
	s, then := pastSession(t, time.Hour)
	off, _ := pastSession(t, 0)
	for _, c := range []struct {
		s          *sql.Session
		text, want string
	}{
		{s, "SELECT v FROM t WHERE v = (SELECT v FROM t AS OF VERSION)", "in its first SELECT"},
		{s, "SELECT v FROM t UNION SELECT v FROM t AS OF VERSION", "in its first SELECT"},
		{s, "CREATE VIEW old AS SELECT v FROM t AS OF VERSION", "in its first SELECT"},
		{s, "INSERT INTO t VALUES (2, (SELECT v FROM t AS OF VERSION))", "in its first SELECT"},
		{s, "INSERT INTO t SELECT id, v FROM t AS OF VERSION", "row with the key (1)"},
		{s, "INSERT INTO t SELECT id + 1, v, v FROM t AS OF VERSION", "3 values for the 2"},
		{s, "INSERT INTO t SELECT id + 1, v FROM w AS OF VERSION", "no table w"},
		{s, "INSERT INTO w SELECT id, v FROM t AS OF VERSION", "w is a view"},
		{s, "INSERT INTO t SELECT id + 1, v FROM t AS OF '3h'", "is not kept"},
		{s, "SELECT * FROM t AS OF VERSION JOIN gone ON TRUE", "after the last table"},
		{s, "SELECT v FROM t AS OF '3h'", "is not kept"},
		{s, "SELECT v FROM t AS OF 999999", "is not kept"},
		{s, "SELECT v FROM t AS OF '2040-01-01'", "still to come"},
		{s, "SELECT v FROM t AS OF 'yesterday'", "not a moment"},
		{s, "SELECT v FROM t AS OF ?", "no value for the parameter"},
		{s, "SELECT v FROM w AS OF VERSION", "no table w"},
		{off, "SELECT v FROM t AS OF 1", "retain"},
	} {
		stmts, err := c.s.PrepareParts(then(c.text))
		if err == nil && stmts[0].Returns() {
			_, err = stmts[0].Query(t.Context())
		} else if err == nil {
			_, err = stmts[0].Exec(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	answerOf(t, s, "BEGIN")
	_, err := s.Query(t.Context(), then("SELECT v FROM t AS OF VERSION"))
	_, err2 := s.Exec(t.Context(), then("INSERT INTO t SELECT 2, v FROM t AS OF VERSION"))
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "COMMIT or ROLLBACK") {
			t.Errorf("in a transaction: %v", err)
		}
	}
	s.Rollback()
	if got := answerOf(t, s, "SELECT * FROM t"); got != "1 'b'" {
		t.Errorf("what was refused has written: %s", got)
	}
}

// INSERT of a query with AS OF reads tables and definitions of its moment, and writes those of now.
//
// Promise (history): INSERT … SELECT … AS OF brings rows of the past back into the tables of now.
func TestInsertAsOf(t *testing.T) { synctest.Test(t, testInsertAsOf) }

func testInsertAsOf(t *testing.T) {
	s, then := pastSession(t, time.Hour)
	var rows []string
	for i := range 10_001 {
		rows = append(rows, fmt.Sprintf("(%d)", i))
	}
	answerOf(t, s, "CREATE TABLE big (id INT PRIMARY KEY); INSERT INTO big VALUES "+
		strings.Join(rows, ","))
	time.Sleep(20 * time.Second)
	answerOf(t, s, "DELETE FROM big")
	time.Sleep(10 * time.Second)
	for _, c := range []struct{ text, want string }{
		{"INSERT INTO big SELECT id FROM big AS OF '15s'; SELECT count(*), max(id) FROM big",
			"10001 10000"},
		{"DELETE FROM t; INSERT INTO t SELECT * FROM t AS OF VERSION WHERE id = 1; " +
			"SELECT * FROM t", "1 'a'"},
		{"UPDATE t SET v = 'c'; INSERT OR IGNORE INTO t SELECT * FROM t AS OF VERSION; " +
			"INSERT INTO t SELECT id + 1, v FROM t AS OF VERSION RETURNING id, v, " +
			"(SELECT max(v) FROM t); SELECT * FROM t ORDER BY id",
			"2 'a' 'c'\n1 'c'\n2 'a'"},
		{"INSERT OR REPLACE INTO t SELECT * FROM t AS OF VERSION UNION SELECT * FROM gone; " +
			"SELECT * FROM t ORDER BY id", "1 'a'\n2 'a'\n7 'x'"},
		{"INSERT INTO t SELECT * FROM gone AS OF VERSION ON CONFLICT (id) DO UPDATE SET " +
			"v = excluded.v || (SELECT min(v) FROM w); SELECT v FROM t WHERE id = 7", "'xa'"},
		{"ALTER TABLE t ADD COLUMN n INT DEFAULT 5; DROP VIEW w; " +
			"ALTER TABLE t DROP COLUMN v; DELETE FROM t; " +
			"INSERT INTO t (id) SELECT id FROM t AS OF VERSION WHERE v = 'a'; " +
			"INSERT INTO t SELECT id + 1, length(v) FROM t AS OF MOMENT; " +
			"SELECT * FROM t ORDER BY id", "1 5\n2 1"},
	} {
		if got := answerOf(t, s, then(c.text)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
	stmt, err := s.Prepare("INSERT INTO t SELECT id, ? FROM gone AS OF ? WHERE id = ? " +
		"ON CONFLICT DO UPDATE SET n = excluded.n + ? RETURNING n")
	ok(t, err)
	for _, want := range []string{"4", "6"} {
		got, err := read(stmt.Query(t.Context(), 4, then("VERSION"), 7, 2))
		if err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("with parameters: %s, %v, want %s", got, err, want)
		}
	}
	stmt, err = s.Prepare(then("INSERT INTO big SELECT -id FROM gone AS OF VERSION"))
	ok(t, err)
	if reads, writes, err := stmt.Expected(t.Context()); err != nil || reads != 1 {
		t.Errorf("expected: %v, %v, %v", reads, writes, err)
	}
}
