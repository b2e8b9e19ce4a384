package sql_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestTextsThatDifferByValues asks the same queries with other values in their texts, while the
// table is small, has a partial index, and is large.
//
// Promise (plans): Texts that differ only by integers and texts that WHERE compares columns with
// share a plan where values make no difference to it, and return what each of them says.
func TestTextsThatDifferByValues(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, a SMALLINT NULL, b INT, c TEXT, "+
		"INDEX by_a (a), UNIQUE INDEX by_c (c))")
	exec(t, s, "CREATE TABLE u (id INT PRIMARY KEY, t INT)")
	insert := func(from, to int) {
		var rows, others []string
		for i := from; i < to; i++ {
			a := fmt.Sprint(i % 50)
			if i%9 == 0 {
				a = "NULL"
			}
			rows = append(rows, fmt.Sprintf("(%d, %s, %d, 'c%d')", i, a, i%7, i))
			others = append(others, fmt.Sprintf("(%d, %d)", i, i/2))
		}
		exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
		exec(t, s, "INSERT INTO u VALUES "+strings.Join(others, ", "))
	}
	conditions := []string{
		"t.id = %d", "t.c = 'c%d'", "t.a = %d", "t.a > %d AND t.b = 3", "NOT t.a > %d",
		"t.a < %d AND t.a > 40", "(t.a = %d OR t.b = 2) AND t.id < 99", "t.b = 2 AND t.b = %d",
		"t.id BETWEEN 30 AND %d", "t.id IN (3, %d) AND t.b <> 1", "t.a <> %d OR t.c >= 'c7'",
	}
	values := []int64{-1, 0, 3, 17, 45, 70, 99_999, 1 << 40}
	compare := func() {
		t.Helper()
		for _, c := range conditions {
			for _, v := range values {
				c := fmt.Sprintf(c, v)
				for _, form := range []string{
					"SELECT id, c FROM t WHERE %s ORDER BY id LIMIT 40",
					"SELECT count(*), sum(b) FROM t WHERE %s",
					"SELECT b, count(*) FROM t WHERE %s GROUP BY b ORDER BY 1",
					"SELECT u.id FROM u LEFT JOIN t ON t.id = u.t AND t.b < 5 WHERE %s " +
						"ORDER BY u.id",
				} {
					got := queried(t, s, fmt.Sprintf(form, c))
					want := queried(t, s, fmt.Sprintf(form,
						"CASE WHEN "+c+" THEN 1 ELSE 0 END = 1"))
					if got != want {
						t.Fatalf(form+": %s, not %s", c, got, want)
					}
				}
			}
		}
	}
	insert(0, 200)
	compare()
	exec(t, s, "CREATE INDEX some ON t (b) WHERE a > 17")
	compare()
	exec(t, s, "DROP INDEX some ON t")
	insert(200, 1500)
	exec(t, s, "ANALYZE t")
	compare()
}

// TestAllocationsOfNewTexts counts what a text takes that differs by its values from others.
func TestAllocationsOfNewTexts(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, INDEX by_a (a))")
	n := 0
	allocations := func(verb string) float64 {
		return testing.AllocsPerRun(100, func() {
			n++
			ok(t, second(s.Prepare(fmt.Sprintf("%s b FROM t WHERE a > %d", verb, n))))
		})
	}
	planned, shared := allocations("EXPLAIN SELECT"), allocations("SELECT")
	if shared > planned*2/3 {
		t.Errorf("%.0f allocations for another value, %.0f for a plan", shared, planned)
	}
}

// Promise (sql): Bytes that are not UTF-8 are kept in a TEXT as they are, in rows and indexes.
func TestTextOfAnyBytes(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id TEXT PRIMARY KEY, a TEXT, INDEX by_a (a))")
	const some, others = "a\xffb", "\xc3("
	exec(t, s, "INSERT INTO t VALUES ('"+some+"', '"+others+"'), ('x', '\uFFFD(')")
	for _, q := range []string{"SELECT id, a FROM t WHERE id = '" + some + "'",
		"SELECT id, a FROM t WHERE a = '" + others + "'",
		"SELECT id, a FROM t NOT INDEXED WHERE a LIKE '" + others + "'"} {
		rows, err := s.Query(t.Context(), q)
		ok(t, err)
		n := 0
		for row, err := range rows.All() {
			ok(t, err)
			id, _ := row[0].AsString()
			a, _ := row[1].AsString()
			if n++; id != some || a != others {
				t.Errorf("%q: got %q, %q", q, id, a)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d rows", q, n)
		}
	}
}

// TestEqualInEveryPlace: values that are equal by = are so in IN, BETWEEN and lists, whichever of
// them is the constant, and in joins and sets of rows.
//
// Promise (sql): Constants and parameters take the type of what they are compared with, on every
// side of IN and BETWEEN, and in lists.
func TestEqualInEveryPlace(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, f FLOAT, f32 FLOAT32, day DATE, days DATE[], "+
		"fs FLOAT[], us UINT64[], ds DECIMAL[])")
	exec(t, s, "INSERT INTO t VALUES (1, 0.1, 0.1, '2026-01-17', ['2026-01-17'], [0.1], [1], "+
		"[1.0])")
	for _, where := range []string{
		"0.1 BETWEEN f AND f", "0.1 IN (f)", "0.1 IN (SELECT f FROM t)",
		"'2026-01-17' BETWEEN day AND day", "'2026-01-17' BETWEEN '2026-01-17' AND day",
		"'2026-01-17' IN (day)", "'2026-01-17' IN (SELECT day FROM t)",
		"(day, id) BETWEEN ('2026-01-17', 1) AND ('2026-01-17', 1)",
		"days = ['2026-01-17']", "fs = [0.1]", "[0.1] = fs", "us = ds", "us IN (SELECT ds FROM t)",
		"EXISTS (SELECT id FROM t AS u WHERE u.us = t.ds)",
		"(SELECT count(*) FROM (SELECT us FROM t UNION SELECT ds FROM t) AS u) = 1",
		"(SELECT count(DISTINCT us) FROM (SELECT us FROM t UNION ALL SELECT ds FROM t) AS u) = 1",
		"(SELECT count(*) FROM (SELECT f32 AS x FROM t WHERE id = 7 UNION ALL SELECT f FROM t) " +
			"AS u WHERE x = 0.1) = 1",
	} {
		if got := queried(t, s, "SELECT id FROM t WHERE "+where); got != "1" {
			t.Errorf("%s: %q", where, got)
		}
	}
	for where, arg := range map[string]any{"? BETWEEN day AND day": "2026-01-17",
		"? IN (day)": "2026-01-17", "? IN (SELECT day FROM t)": "2026-01-17",
		"days = ?": []string{"2026-01-17"}, "fs = ?": []float64{0.1}} {
		if got := queried(t, s, "SELECT id FROM t WHERE "+where, arg); got != "1" {
			t.Errorf("%s: %q", where, got)
		}
	}
}
