package sql_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

func exec(t testing.TB, s *sql.Session, text string, args ...any) sql.Result {
	t.Helper()
	r, err := s.Exec(context.Background(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// queried returns the rows of a query, or its plan, as text.
func queried(t testing.TB, s *sql.Session, text string, args ...any) string {
	t.Helper()
	lines, err := read(s.Query(context.Background(), text, args...))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Join(lines, "\n")
}

// read returns the rows of a result, or its plan, as lines of text.
func read(rows *sql.Rows, err error) (lines []string, _ error) {
	if err != nil {
		return nil, err
	}
	for row, err := range rows.All() {
		if err != nil {
			return nil, err
		}
		line := fmt.Sprint(row) // in brackets
		line = line[1 : len(line)-1]
		if rows.Plan != nil {
			line, _ = row[0].AsString()
		}
		lines = append(lines, line)
	}
	return lines, nil
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
		{"b + 9007199254740988.0 = ?", "9007199254740993E0", "'5'"},
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

// TestComplete: complete statements are distinguished from incomplete ones.
func TestComplete(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT 1;": true, "SELECT 1": false, "SELECT ';": false, "SELECT ';';": true,
		"SELECT 1; -- end;": true, "SELECT 1 -- ;": false, "SELECT 1 /* ;": false, "": false,
		";": true, "SELECT 1; SELECT": false, "SELECT \x01;": true, "SELECT 1; '": false,
		"SELECT '\n;\n';\n": true, `SELECT ";`: false, "SELECT $;": true,
	} {
		if got := syntax.Complete(text); got != want {
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
	ok(t, err)
	exec(t, s, "ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
	if got := queried(t, s, all); got != "1 'x' 7" {
		t.Fatal(got)
	}
	ok(t, second(stmt.Exec(context.Background(), 2)))
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

// TestBindingBesideDefinitions: no statement is bound to a mixture of former and present tables.
func TestBindingBesideDefinitions(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (a INT PRIMARY KEY)")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range testutil.Effort(2000, 20000) {
			for _, text := range []string{"CREATE VIEW v AS SELECT a FROM t", "DROP VIEW v",
				"ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t"} {
				if _, err := s.Exec(context.Background(), text); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		name := []string{"t", "v"}[i%2]
		_, err := s.Query(context.Background(), fmt.Sprintf("SELECT %d FROM %s", i, name))
		if err != nil && (strings.Contains(err.Error(), "did you mean "+name) ||
			strings.Contains(err.Error(), "is a view")) {
			t.Errorf("statement %d: %v", i, err)
		}
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
		"INSERT INTO u VALUES (1, 2)":              table.ErrNoTable,
		"CREATE TABLE t (a INT PRIMARY KEY)":       table.ErrExists,
		"DROP INDEX j ON t":                        table.ErrNoIndex,
		"INSERT INTO t VALUES (1":                  syntax.ErrSyntax,
		"INSERT INTO t VALUES (?, ?)":              sql.ErrArguments,
		"SELECT a FROM t":                          sql.ErrNoResult,
		"CREATE TABLE IF NOT EXISTS t (a INT":      syntax.ErrSyntax,
		"UPDATE t SET b = 1 WHERE a = 1 AND c = 2": nil,
	} {
		_, err := s.Exec(ctx, text)
		var e *syntax.Error
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

// TestParametersOfSeveralTypes: a parameter takes the form that each of its places asks for,
// in conditions that spans see to and in those that are left to filters.
//
// Promise (sql): A parameter fits each of its places, lists beside keys included; OR REPLACE
// removes what is in the way. Also `TestListsBesideKeys`,
// `TestInsertOrReplaceRemovesWhatIsInTheWay`, `TestInsertOrReplaceOfElements` in `engine/sql`.
func TestParametersOfSeveralTypes(t *testing.T) {
	s := openSession(t)
	exec(t, s, `CREATE TABLE t (a TEXT PRIMARY KEY, at TIMESTAMP(ms) NULL, id UUID NULL, ip IP NULL,
		f FLOAT NULL, n INT NULL)`)
	const id = "00000000-0000-0000-0000-000000000007"
	put := "INSERT INTO t VALUES (?1, ?1, ?2, ?3, ?4, ?4)"
	exec(t, s, put, sql.Untyped("2026-01-02"), id, "10.0.0.1", sql.Untyped("4"))
	exec(t, s, put, "2026-03-04", id, "::1", 5)
	exec(t, s, "INSERT INTO t (a) VALUES ('empty')")
	const first, second = "'2026-01-02'", "'2026-03-04'"
	for _, c := range []struct {
		where string
		arg   any
		want  string
	}{
		{"a = ?1 AND at = ?1", "2026-01-02", first},
		{"at = ?1 AND a = ?1", "2026-01-02", first},
		{"a = :x OR NOT at > :x", "2026-01-02", first},
		{"NOT (at < ?1 OR a < ?1)", "2026-03-04", second},
		{"a <> 'x' AND at NOT IN (?1)", []string{"2026-01-02"}, second},
		{"coalesce(at, ?) = TIMESTAMP '2026-01-01T00:00:00Z'", "2026-01-01", "'empty'"},
		{"coalesce(at, '2026-01-01') <= ?", "2026-01-01", "'empty'"},
		{"at > coalesce(?, '2026-01-01')", "2026-02-01", second},
		{"nullif(at, ?1) IS NULL AND id IS NOT NULL", "2026-01-02", first},
		{"nullif(id, ?1) IS NULL AND f < 5", id, first},
		{"id = ?1 AND f > 4", id, second},
		{"NOT ip = ?", "::1", first},
		{"ip = ?1 OR a = ?1", "10.0.0.1", first},
		{"f = ?1 AND n = ?1", 4.0, first},
		{"n = ?1 OR a = ?1", sql.Untyped("5"), second},
		{"EXISTS (SELECT a FROM t AS u WHERE u.at = ?1 AND u.a = ?1) AND n = 4", "2026-01-02",
			first},
	} {
		if got := queried(t, s, "SELECT a FROM t WHERE "+c.where, c.arg); got != c.want {
			t.Errorf("%s with %v: %s, want %s", c.where, c.arg, got, c.want)
		}
	}
	for where, arg := range map[string]any{"a = ?1 OR at = ?1": "soon", "a = ?1 OR n = ?1": "x",
		"coalesce(at, ?) IS NULL": "soon"} {
		_, err := s.Query(context.Background(), "SELECT a FROM t WHERE "+where, arg)
		if !errors.Is(err, sql.ErrArguments) || !strings.Contains(err.Error(), "?1") {
			t.Errorf("%s with %v: %v", where, arg, err)
		}
	}
	r := exec(t, s, "UPDATE t SET at = ?1 WHERE a = ?1", "2026-01-02")
	if n := exec(t, s, "DELETE FROM t WHERE at = ?1 AND a = ?1", "2026-01-02").Rows; n != 1 ||
		r.Rows != 1 {
		t.Errorf("%d rows updated, %d deleted", r.Rows, n)
	}
}

// TestInsertOrReplaceRemovesWhatIsInTheWay: rows with one of the unique values go, whichever
// index it is of, and of the rows of one statement the later ones stay.
func TestInsertOrReplaceRemovesWhatIsInTheWay(t *testing.T) {
	s := openSession(t)
	exec(t, s, `CREATE TABLE t (a INT PRIMARY KEY, b INT NULL, c TEXT NULL COLLATE NOCASE, d INT,
		UNIQUE INDEX by_b (b), UNIQUE INDEX by_c (c, d), INDEX by_d (d))`)
	exec(t, s, "INSERT INTO t VALUES (1, 10, 'x', 0), (2, 20, 'y', 0), (3, NULL, NULL, 0)")
	for _, c := range []struct {
		values        string
		rows, removed int64
		want          string
	}{
		{"(4, 10, 'Y', 0)", 1, 2, "3 NULL NULL 0\n4 10 'Y' 0"},
		{"(3, 10, 'z', 1)", 1, 1, "3 10 'z' 1"},
		{"(3, NULL, NULL, 2), (5, NULL, NULL, 2)", 2, 0, "3 NULL NULL 2\n5 NULL NULL 2"},
		{"(6, 1, 'q', 3), (7, 1, 'r', 3), (8, 2, 'R', 3)", 3, 2,
			"3 NULL NULL 2\n5 NULL NULL 2\n8 2 'R' 3"},
		{"(3, 2, 'm', 4), (3, 9, 'n', 4)", 2, 1, "3 9 'n' 4\n5 NULL NULL 2"},
	} {
		r := exec(t, s, "INSERT OR REPLACE INTO t VALUES "+c.values)
		if r.Rows != c.rows || r.Removed != c.removed {
			t.Errorf("%s: %+v", c.values, r)
		}
		if got := queried(t, s, "SELECT * FROM t ORDER BY a"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.values, got, c.want)
		}
	}
	_, err := s.Exec(context.Background(), "INSERT OR REPLACE INTO t VALUES (9, 9, 'n', 4), "+
		"(10, 1, 'w', NULL)")
	if err == nil {
		t.Error("NULL was taken")
	}
	want := "3 9 'n' 4\n5 NULL NULL 2"
	if got := queried(t, s, "SELECT * FROM t ORDER BY a"); got != want {
		t.Errorf("after a statement that failed:\n%s", got)
	}
}

// TestInsertOrReplaceOfElements: a row with a list may be in the way of several rows in one
// unique index of elements.
func TestInsertOrReplaceOfElements(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT[], UNIQUE INDEX by_b (EACH b))")
	exec(t, s, "INSERT INTO t VALUES (1, ['x']), (2, ['y', 'z']), (3, ['w']), (4, ['v', 'u'])")
	r := exec(t, s, "INSERT OR REPLACE INTO t VALUES (5, ['u', 'x', 'y', 'v'])")
	if r.Rows != 1 || r.Removed != 3 {
		t.Errorf("%+v", r)
	}
	want := "3 ARRAY['w']\n5 ARRAY['u', 'x', 'y', 'v']"
	if got := queried(t, s, "SELECT * FROM t ORDER BY a"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestStatementsAreCached: a text is parsed once for a session, of a query and of a change, in
// the database's cache of plans, or twice if it has no parameters; long texts are not kept.
func TestStatementsAreCached(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY)")
	for _, text := range []string{"INSERT INTO t VALUES (1)", "SELECT * FROM t",
		"SELECT * FROM t WHERE id = ?"} {
		first, err := s.Prepare(text)
		if !strings.Contains(text, "?") && err == nil {
			once := first
			if first, err = s.Prepare(text); first == once {
				t.Errorf("%s: kept when it was asked once", text)
			}
		}
		ok(t, err)
		before := s.CachedPlans()
		again, err := s.Prepare(text)
		if err != nil || again != first || s.CachedPlans() != before || before == 0 {
			t.Errorf("%s: kept %v, %v", text, again == first, err)
		}
	}
	long := "SELECT * FROM t" + strings.Repeat(" ", 4<<10)
	first, err := s.Prepare(long)
	ok(t, err)
	if again, err := s.Prepare(long); err != nil || again == first {
		t.Errorf("a text of %d bytes is kept: %v", len(long), err)
	}
}

func TestPreparedShowFollowsTables(t *testing.T) {
	ctx, s := context.Background(), openSession(t)
	show, err := s.Prepare("SHOW TABLES")
	ok(t, err)
	for want, define := range []string{"", "CREATE TABLE a (n INT PRIMARY KEY)",
		"CREATE TABLE b (n INT PRIMARY KEY)"} {
		if define != "" {
			ok(t, second(s.Exec(ctx, define)))
		}
		rows, err := show.Query(ctx)
		ok(t, err)
		got := 0
		for _, err := range rows.All() {
			ok(t, err)
			got++
		}
		if got != want {
			t.Errorf("%d tables are shown, not %d", got, want)
		}
	}
}

// TestMostTables joins a chain of as many tables as a query may have, the last of them by a
// subquery of WHERE, and refuses one more.
func TestMostTables(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	exec(t, s, "INSERT INTO t VALUES (1, 2), (2, 3), (3, 1)")
	chain := func(n int) string {
		from, where := "t AS t1", "t1.a = 1"
		for i := 2; i <= n; i++ {
			from += fmt.Sprintf(", t AS t%d", i)
			where += fmt.Sprintf(" AND t%d.a = t%d.b", i, i-1)
		}
		return fmt.Sprintf("SELECT t1.a, t%d.a, t%[1]d.b FROM %s WHERE %s", n, from, where)
	}
	last := " AND t63.b IN (SELECT x.a FROM t AS x WHERE x.b = t63.a + t1.a - 2 OR x.b < 9)"
	for text, want := range map[string]string{
		chain(64):        "1 1 2",
		chain(63) + last: "1 3 1",
	} {
		if got := strings.TrimSpace(queried(t, s, text)); got != want {
			t.Errorf("%s returns %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{chain(65), strings.ReplaceAll(chain(64), "1 AND", "1"+
		strings.ReplaceAll(last, "63", "64")+" AND")} {
		_, err := s.Query(context.Background(), text)
		if err == nil || !strings.Contains(err.Error(), "more than 64 tables") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestStatementOfSeveralCommits: a statement that is too large for one commit and fails later says
// how many rows are changed, which they are.
func TestStatementOfSeveralCommits(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
	const rows = 12_000 // 10,000 a commit
	for from := 0; from < rows; from += 1000 {
		var values []string
		for i := range 1000 {
			values = append(values, fmt.Sprintf("(%d, 0)", from+i))
		}
		exec(t, s, "INSERT INTO t VALUES "+strings.Join(values, ", "))
	}
	ids := strings.Split(queried(t, s, "SELECT id FROM t"), "\n") // as UPDATE finds them
	exec(t, s, fmt.Sprintf("UPDATE t SET n = %d WHERE id = %s", int64(math.MaxInt64), ids[rows-1]))
	_, err := s.Exec(t.Context(), "UPDATE t SET n = n + 1")
	if !errors.Is(err, schema.ErrRange) {
		t.Fatalf("%v is not about the range", err)
	}
	done := queried(t, s, "SELECT count(*) FROM t WHERE n = 1")
	want := "the statement is several commits, and " + done + " rows were changed before"
	if done == "0" || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
	exec(t, s, "BEGIN")
	if _, err := s.Exec(t.Context(), "UPDATE t SET n = n + 1"); err == nil ||
		strings.Contains(err.Error(), "several commits") {
		t.Errorf("in a transaction: %v", err)
	}
	if _, err := s.Exec(t.Context(), "INSERT INTO t VALUES "+strings.Repeat("(1, 0), ", 10_000)+
		"("+ids[rows-1]+", 0) ON CONFLICT DO UPDATE SET n = t.n + 1"); err == nil ||
		strings.Contains(err.Error(), "several commits") {
		t.Errorf("INSERT in a transaction: %v", err)
	}
	exec(t, s, "ROLLBACK")
	for verb, done := range map[string]string{"INSERT": "10000", "INSERT OR REPLACE": "10000",
		"INSERT OR IGNORE": "10000"} {
		exec(t, s, "CREATE TABLE u (id BIGINT PRIMARY KEY, n BIGINT CHECK (n = 0))")
		_, err = s.Exec(t.Context(), fmt.Sprintf("%s INTO u SELECT id, CASE id WHEN %s "+
			"THEN 1 ELSE 0 END FROM t", verb, ids[rows-1]))
		said := strings.Contains(fmt.Sprint(err), "commits, and 10000 rows were written before")
		if n := queried(t, s, "SELECT count(*) FROM u"); n != done || said != (n != "0") {
			t.Errorf("%s: %s rows, %v", verb, n, err)
		}
		exec(t, s, "DROP TABLE u")
	}
}

// So is one whose rows are large.
func TestStatementOfLargeRows(t *testing.T) {
	s := sql.Open(openDB(t))
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, s TEXT)")
	for i := range 3 {
		exec(t, s, "INSERT INTO t VALUES (?, ?)", i, strings.Repeat("x", 9<<20))
	}
	for _, c := range []struct{ verb, rest string }{{"INSERT", ""}, {"INSERT OR REPLACE", ""},
		{"INSERT OR IGNORE", ""}, {"INSERT", " ON CONFLICT DO NOTHING"}} {
		exec(t, s, "CREATE TABLE u (id INT PRIMARY KEY CHECK (id < 2), s TEXT)")
		_, err := s.Exec(t.Context(), c.verb+" INTO u SELECT id, s FROM t ORDER BY id"+c.rest)
		if !errors.Is(err, table.ErrCheck) ||
			!strings.Contains(err.Error(), "commits, and 2 rows were written before") {
			t.Errorf("%s%s: %v", c.verb, c.rest, err)
		}
		exec(t, s, "DROP TABLE u")
	}
}
