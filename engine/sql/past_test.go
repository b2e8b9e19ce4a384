package sql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
)

// Tables of the past have the rows, the definitions and the indexes of then, whatever was changed,
// dropped or made since; nothing is written to them.
//
// Promise (history): Tables are read as they were, with the definitions and indexes of then.
func TestTablesOfThePast(t *testing.T) {
	e, err := engine.Open("past", &engine.Options{InMemory: true, RetainVersions: time.Hour})
	ok(t, err)
	defer e.Close()
	db, err := local.Open(t.Context(), e, nil)
	ok(t, err)
	defer db.Close()
	s := sql.Open(db)
	run := func(s *sql.Session, text string) string { return answerOf(t, s, text) }
	queries := []string{
		"SELECT * FROM t ORDER BY id", "SELECT id FROM t WHERE name = 'b' ORDER BY id",
		"SELECT name, count(*) FROM t GROUP BY name ORDER BY name", "SELECT * FROM w ORDER BY id",
		"SHOW TABLES", "SHOW COLUMNS FROM t",
	}
	type moment struct {
		version uint64
		answers []string
	}
	var moments []moment
	for _, change := range []string{
		"CREATE TABLE t (id INT PRIMARY KEY, name TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b')",
		"CREATE INDEX n ON t (name); INSERT INTO t VALUES (3, 'b')",
		"UPDATE t SET name = 'c' WHERE id = 2; CREATE VIEW w AS SELECT id FROM t WHERE id > 1",
		"DELETE FROM t WHERE id = 1; ALTER TABLE t ADD COLUMN age INT NULL",
		"DROP INDEX n ON t; UPDATE t SET age = 7", "DROP VIEW w", "ALTER TABLE t DROP COLUMN name",
		"DROP TABLE t",
	} {
		run(s, change)
		m := moment{version: e.Metrics().LastVersion}
		for _, q := range queries {
			m.answers = append(m.answers, run(s, q))
		}
		moments = append(moments, m)
		if len(moments)%2 == 0 {
			ok(t, e.Compact(t.Context()))
		}
	}
	for _, m := range moments {
		for i, q := range queries[:4] {
			want := m.answers[i]
			if got := run(s, asOfText(q, m.version)); got != want {
				t.Errorf("%s AS OF %d: got\n%swant\n%s", q, m.version, got, want)
			}
		}
		snap, err := e.SnapshotAt(m.version)
		ok(t, err)
		then, err := local.Past(t.Context(), e, snap, nil)
		ok(t, err)
		ps := sql.Open(then)
		for i, q := range queries {
			if got := run(ps, q); got != m.answers[i] {
				t.Errorf("%s at %d: got\n%swant\n%s", q, m.version, got, m.answers[i])
			}
		}
		wantNoWrites(t, ps, m.answers[0] == "error")
		ok(t, errors.Join(then.Close(), snap.Close()))
	}
}

// asOfText returns a query of one table with AS OF.
func asOfText(query string, version uint64) string {
	from := strings.Index(query, " FROM ") + len(" FROM t")
	return fmt.Sprintf("%s AS OF %d%s", query[:from], version, query[from:])
}

// answerOf runs statements and returns all rows of them, or "error" if a query is refused.
func answerOf(t *testing.T, s *sql.Session, text string) string {
	t.Helper()
	stmts, err := s.PrepareParts(text)
	if err != nil {
		return "error"
	}
	var lines []string
	for _, stmt := range stmts {
		if !stmt.Returns() {
			if _, err := stmt.Exec(t.Context()); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			continue
		}
		rows, err := read(stmt.Query(t.Context()))
		if err != nil {
			return "error"
		}
		lines = append(lines, rows...)
	}
	return strings.Join(lines, "\n")
}

// wantNoWrites checks that statements that write are refused.
func wantNoWrites(t *testing.T, s *sql.Session, gone bool) {
	t.Helper()
	for _, text := range []string{"DELETE FROM t", "CREATE TABLE u (id INT PRIMARY KEY)"} {
		stmts, err := s.PrepareParts(text)
		if err == nil {
			_, err = stmts[0].Exec(t.Context())
		}
		if !errors.Is(err, engine.ErrReadOnly) && !(gone && text == "DELETE FROM t") {
			t.Errorf("%s in the past: %v", text, err)
		}
	}
}
