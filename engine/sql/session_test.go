package sql_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

func exec(t testing.TB, s *sql.Session, text string, args ...any) sql.Result {
	t.Helper()
	r, err := s.Exec(context.Background(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// queried returns the rows of a query as text.
func queried(t testing.TB, s *sql.Session, text string, args ...any) string {
	t.Helper()
	rows, err := s.Query(context.Background(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var lines []string
	for row, err := range rows.All() {
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var cells []string
		for _, v := range row {
			cells = append(cells, v.String())
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return strings.Join(lines, "\n")
}

// TestUntypedArguments: a text takes the type that its place asks for.
func TestUntypedArguments(t *testing.T) {
	s := openSession(t)
	exec(t, s, `CREATE TABLE t (a TEXT, b INT NULL, c FLOAT NULL, d TIMESTAMP(s) NULL, e BOOL NULL,
		PRIMARY KEY (a))`)
	put := "INSERT INTO t VALUES (?, ?, ?, ?, ?)"
	exec(t, s, put, sql.Untyped("5"), sql.Untyped("5"), sql.Untyped("4.1"),
		sql.Untyped("2026-01-02"), sql.Untyped("true"))
	exec(t, s, put, sql.Untyped("true"), sql.Untyped("null"), sql.Untyped("NULL"), nil, nil)
	for _, c := range []struct{ where, arg, want string }{
		{"a = ?", "5", "'5'"}, {"b = ?", "5", "'5'"}, {"b + 1 = ?", "6", "'5'"},
		{"c = ?", "4.1", "'5'"}, {"d = ?", "2026-01-02T00:00:00Z", "'5'"}, {"e = ?", "true", "'5'"},
		{"a LIKE ?", "5", "'5'"}, {"a BEGINS WITH ?", "t", "'true'"},
		{"b IS NULL AND TRUE = ?", "true", "'true'"},
		{"coalesce(b, 7) IN (?)", "7", "'true'"},
	} {
		got := queried(t, s, "SELECT a FROM t WHERE "+c.where, sql.Untyped(c.arg))
		if got != c.want {
			t.Errorf("%s with %s: %s", c.where, c.arg, got)
		}
	}
	for where, arg := range map[string]string{"b = ?": "x", "e = ?": "5", "d < ?": "soon"} {
		_, err := s.Query(context.Background(), "SELECT a FROM t WHERE "+where, sql.Untyped(arg))
		if !errors.Is(err, sql.ErrArguments) {
			t.Errorf("%s with %s: %v", where, arg, err)
		}
	}
}

// TestComplete tells statements that are done from those that go on.
func TestComplete(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT 1;": true, "SELECT 1": false, "SELECT ';": false, "SELECT ';';": true,
		"SELECT 1; -- end;": true, "SELECT 1 -- ;": false, "SELECT 1 /* ;": false, "": false,
		";": true, "SELECT 1; SELECT": false, "SELECT \x01;": true, "SELECT 1; '": false,
		"SELECT '\n;\n';\n": true, `SELECT ";`: false, "SELECT $;": true,
	} {
		if got := sql.Complete(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestPreparedFollowsTables: a statement that was prepared before a change of its table
// sees the table as it is.
func TestPreparedFollowsTables(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT DEFAULT 'b')")
	exec(t, s, "INSERT INTO t VALUES (1, 'x')")
	const all = "SELECT * FROM t"
	if got := queried(t, s, all); got != "1 'x'" {
		t.Fatal(got)
	}
	stmt, err := s.Prepare("INSERT INTO t (a) VALUES (?)")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, s, "ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
	if got := queried(t, s, all); got != "1 'x' 7" {
		t.Fatal(got)
	}
	if _, err := stmt.Exec(context.Background(), 2); err != nil {
		t.Fatal(err)
	}
	if got := queried(t, s, all+" WHERE a = 2"); got != "2 'b' 7" {
		t.Fatal(got)
	}
	exec(t, s, "ALTER TABLE t RENAME COLUMN b TO z")
	if got := queried(t, s, "SELECT z FROM t WHERE a = 1"); got != "'x'" {
		t.Fatal(got)
	}
	if _, err := s.Query(context.Background(), "SELECT b FROM t"); err == nil {
		t.Fatal("a column that was renamed is found")
	}
}

// TestErrorsOfTables: what a caller acts upon is inside the error.
func TestErrorsOfTables(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (a INT PRIMARY KEY, b INT, UNIQUE INDEX i (b))")
	exec(t, s, "INSERT INTO t VALUES (1, 1)")
	ctx := context.Background()
	for text, want := range map[string]error{
		"INSERT INTO t VALUES (1, 2)":              table.ErrUnique,
		"INSERT INTO t VALUES (2, 1)":              table.ErrUnique,
		"INSERT OR REPLACE INTO t VALUES (2, 1)":   table.ErrUnique,
		"INSERT INTO u VALUES (1, 2)":              table.ErrNoTable,
		"CREATE TABLE t (a INT PRIMARY KEY)":       table.ErrExists,
		"DROP INDEX j ON t":                        table.ErrNoIndex,
		"INSERT INTO t VALUES (1":                  sql.ErrSyntax,
		"INSERT INTO t VALUES (?, ?)":              sql.ErrArguments,
		"SELECT a FROM t":                          sql.ErrNoResult,
		"CREATE TABLE IF NOT EXISTS t (a INT":      sql.ErrSyntax,
		"UPDATE t SET b = 1 WHERE a = 1 AND c = 2": nil,
	} {
		_, err := s.Exec(ctx, text)
		var e *sql.Error
		is := want != nil && errors.Is(err, want) || want == nil && errors.As(err, &e)
		if !is {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := s.Query(ctx, "DELETE FROM t"); !errors.Is(err, sql.ErrNoResult) {
		t.Error(err)
	}
	if got := queried(t, s, "SELECT * FROM t"); got != "1 1" {
		t.Error(got)
	}
}
