package sql_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestMixedCollations: which of two columns is named first, and what plan compares them,
// does not change whether they are equal.
//
// Promise (sql): Columns of different collations compare the same in every plan. Also
// `TestSubqueriesUnderCollations` in `engine/sql`.
func TestMixedCollations(t *testing.T) {
	ctx, s := context.Background(), openSession(t)
	for _, text := range []string{
		"CREATE TABLE l (id INT PRIMARY KEY, n TEXT COLLATE NOCASE, INDEX ln (n))",
		"CREATE TABLE r (id INT PRIMARY KEY, u TEXT COLLATE UNICODE, INDEX ru (u))",
		"INSERT INTO l VALUES (1, 'a'), (2, 'Ä'), (3, 'ä'), (4, 'ß')",
		"INSERT INTO r VALUES (1, 'A'), (2, 'ä'), (3, 'b')",
	} {
		ok(t, second(s.Exec(ctx, text)))
	}
	for _, query := range []string{
		"SELECT l.id, r.id FROM l JOIN r ON l.n = r.u",
		"SELECT l.id, r.id FROM l JOIN r ON r.u = l.n",
		"SELECT l.id, r.id FROM r JOIN l ON l.n = r.u",
		"SELECT l.id, r.id FROM l, r WHERE l.n >= r.u AND r.u >= l.n",
		"SELECT l.id, r.id FROM l JOIN r ON l.n = r.u AND (l.id, r.id) <> (7, 7)",
		"SELECT l.id, r.id FROM l JOIN r ON l.n IN (r.u)",
		"SELECT l.id, r.id FROM l JOIN r ON r.u IN (l.n)",
	} {
		rows, err := s.Query(ctx, query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		var got []string
		for row, err := range rows.All() {
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			got = append(got, fmt.Sprint(row[0], "=", row[1]))
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != "1=1 2=2 3=2" {
			t.Errorf("%s: %s", query, text)
		}
	}
}

// TestSubqueriesUnderCollations: the values after IN that a collation takes for equal are one,
// also where the plan begins with them and looks the rows up.
func TestSubqueriesUnderCollations(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE l (id INT PRIMARY KEY, n TEXT COLLATE NOCASE, INDEX ln (n))")
	exec(t, s, "CREATE TABLE r (t TEXT PRIMARY KEY)")
	for i := range 300 {
		exec(t, s, "INSERT INTO l VALUES (?, ?)", i, fmt.Sprintf("%c%d", "aB"[i%2], i/2))
	}
	exec(t, s, "INSERT INTO r VALUES ('a7'), ('A7'), ('b7'), ('x')")
	exec(t, s, "ANALYZE")
	query := "SELECT id FROM l WHERE n IN (SELECT t FROM r) ORDER BY id"
	if got := queried(t, s, query); got != "14\n15" {
		t.Errorf("%q\n%s", got, queried(t, s, "EXPLAIN "+query))
	}
	if plan := queried(t, s, "EXPLAIN "+query); !strings.Contains(plan, "lookup join") {
		t.Errorf("another plan than was meant:\n%s", plan)
	}
}

// TestQueriesUnderCollations: set operations, IN and groups take texts for equal that are under the
// collation of a column, wherever they stand.
//
// Promise (sql): Texts that are equal under the collation of a column are one in every clause.
func TestQueriesUnderCollations(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE n (id INT PRIMARY KEY, s TEXT COLLATE NOCASE, b TEXT)")
	exec(t, s, "INSERT INTO n VALUES (1, 'abc', 'x'), (2, 'aBC', 'x'), (3, 'd', 'D')")
	for text, want := range map[string]string{
		"count(*) FROM (SELECT s FROM n UNION SELECT s FROM n) z":       "2",
		"count(*) FROM (SELECT b FROM n UNION SELECT s FROM n) z":       "3",
		"count(*) FROM (SELECT 'ABC' AS s INTERSECT SELECT s FROM n) z": "1",
		"count(*) FROM (SELECT s FROM n EXCEPT SELECT 'ABC') z":         "1",
		"count(*) FROM (SELECT s FROM n EXCEPT SELECT b FROM n) z":      "1",
		"count(*) FROM (SELECT s FROM n UNION ALL SELECT b FROM n) z " +
			"WHERE s = 'ABC' OR s = 'X'": "4",
		"'ABC' IN (SELECT s FROM n)":                                   "TRUE",
		"'ABC' NOT IN (SELECT s FROM n)":                               "FALSE",
		"(2, 'ABC') IN (SELECT id, s FROM n)":                          "TRUE",
		"length(group_concat(DISTINCT s)) FROM n WHERE s = 'ABC'":      "3",
		"min(id) FROM n WHERE upper(b) IN (SELECT s FROM n)":           "3",
		"min(id) FROM n WHERE upper(b) IN (SELECT s FROM n) OR id = 7": "3",
		"upper(max(b)) IN (SELECT s FROM n) FROM n WHERE id = 3":       "TRUE",
		"count(*) FROM (SELECT s, count(*) AS c FROM n GROUP BY s) z " +
			"WHERE s || '' = 'abc' AND c = 1": "0",
		"count(*) FROM (SELECT s, count(*) AS c FROM n GROUP BY s) z " +
			"WHERE s = 'ABC' AND c = 2": "1",
		"(SELECT count(*) FROM (SELECT DISTINCT s FROM n) z WHERE s || '' = 'abc') + " +
			"(SELECT count(*) FROM (SELECT DISTINCT s FROM n) z WHERE s || '' = 'aBC')": "1",
	} {
		if got := queried(t, s, "SELECT "+text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"INSERT INTO n VALUES (4, '', CAST('ABC' IN (SELECT s FROM n) AS TEXT))":          "'true'",
		"INSERT INTO n VALUES (5, '', CAST((1, 'ABC') IN (SELECT id, s FROM n) AS TEXT))": "'true'",
		"UPDATE n SET b = CAST('ABC' IN (SELECT s FROM n) AS TEXT) WHERE id = 1":          "'true'",
		"UPDATE n SET b = CAST(upper(s) IN (SELECT s FROM n) AS TEXT) WHERE id = 1":       "'true'",
		"INSERT INTO n VALUES (1, '', '') ON CONFLICT DO UPDATE " +
			"SET b = CAST(upper(n.s) NOT IN (SELECT s FROM n) AS TEXT)": "'false'",
	} {
		if got := queried(t, s, text+" RETURNING b"); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
