package planregret_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/local"
)

// TestEstimatedRows compares estimates with what is found, in a table so small that only statistics
// say it, and in one whose indexes are counted. In both most of n is NULL, each row has ten tags,
// names begin with few letters, and b follows from a.
//
// Promise (plans): What texts begin with is estimated like a range, collated bounds in the order of
// their collation; NULLs are no part of ranges, of <> and of joins; a list has as many values as
// its index has entries for a row; and several columns that a join compares have together as many
// values as the key that begins with them.
func TestEstimatedRows(t *testing.T) {
	for _, rows := range []int{900, 3000} {
		w := newWorld(t, 0, false)
		exec := func(text string) {
			t.Helper()
			ok(t, second(w.session.Exec(t.Context(), text)))
		}
		exec(`CREATE TABLE e (id INT PRIMARY KEY, name TEXT, folded TEXT COLLATE NOCASE,
			tags TEXT[], n INT NULL, a INT, b INT, INDEX (name), INDEX (folded),
			INDEX (EACH tags), INDEX (n), INDEX (a, b))`)
		exec("CREATE TABLE p (a INT, b INT, v INT, PRIMARY KEY (a, b))")
		var values, pairs []string
		for i := range rows {
			n, name := "NULL", fmt.Sprintf("%c%03d", 'a'+i%3*i%2, i*7%1000)
			if i%20 == 0 {
				n = fmt.Sprint(i % 7)
			}
			var tags []string
			for j := range 10 {
				tags = append(tags, fmt.Sprintf("'t%d'", (i+j)%50))
			}
			values = append(values, fmt.Sprintf("(%d, '%s', '%s', [%s], %s, %d, %d)", i, name,
				strings.ToUpper(name), strings.Join(tags, ", "), n, i%100, i%100*7))
		}
		for i := range 100 {
			pairs = append(pairs, fmt.Sprintf("(%d, %d, %d)", i, i*7, i%7))
		}
		exec("INSERT INTO e VALUES " + strings.Join(values, ", "))
		exec("INSERT INTO p VALUES " + strings.Join(pairs, ", "))
		exec("ANALYZE e")
		exec("ANALYZE p")
		for _, where := range []string{
			"e WHERE name LIKE 'a%'",
			"e WHERE name LIKE 'b12%'",
			"e WHERE name LIKE 'q%'",
			"e WHERE folded LIKE 'B%'",
			"e WHERE folded >= 'a' AND folded < 'B'",
			"e WHERE tags CONTAINS 't5'",
			"e WHERE n <> 5",
			"e WHERE n NOT IN (1, 2)",
			"e WHERE n < 4",
			"e WHERE n > 4",
			"e JOIN p ON e.a = p.a AND e.b = p.b",
			"e JOIN p ON e.a = p.a AND e.b = p.b WHERE p.v = 1",
			"e JOIN p ON e.n = p.v",
			"e WHERE EXISTS (SELECT 1 FROM p WHERE p.a = e.a AND p.b = e.b)",
		} {
			x := w.explain("EXPLAIN ANALYZE ", "SELECT * FROM "+where, nil)
			found := float64(x.Actual.Rows)
			if x.Rows < found/3-2 || x.Rows > 3*found+rowsOfGuess {
				t.Errorf("%d rows, %s: %.0f are expected, %.0f found\n%s", rows, where, x.Rows,
					found, x)
			}
		}
	}
}

// TestRowsOfColumnsWithoutIndex compares estimates of columns that zones alone know.
//
// Promise (plans): A range of a column without an index is estimated by the least and the greatest
// value in files, and its NULLs by whether there are any.
func TestRowsOfColumnsWithoutIndex(t *testing.T) {
	const rows = 5000
	w := newWorld(t, 0, false)
	exec := func(text string) {
		t.Helper()
		ok(t, second(w.session.Exec(t.Context(), text)))
	}
	exec("CREATE TABLE e (id INT PRIMARY KEY, v INT, n INT NULL, never INT NULL, always INT NULL)")
	var values []string
	for i := range rows {
		values = append(values, fmt.Sprintf("(%d, %d, %d, %d, NULL)", i, 1000+i*7919%rows,
			i*7907%rows+100, i%7))
	}
	exec("INSERT INTO e VALUES " + strings.Join(values, ", "))
	ok(t, local.Engine(w.db).Flush(t.Context()))
	exec("ANALYZE e")
	for _, where := range []string{
		"v < 1100", "v >= 5900", "v BETWEEN 2000 AND 2500", "v < 1000", "v > 7000", "v <= 9000",
		"n < 350", "n >= 2600", "n > 9000", "never IS NULL", "never IS NOT NULL", "never <> 3",
		"always IS NULL", "always IS NOT NULL",
	} {
		x := w.explain("EXPLAIN ANALYZE ", "SELECT * FROM e WHERE "+where, nil)
		found := float64(x.Actual.Rows)
		if x.Rows < found/2-2 || x.Rows > 2*found+rowsOfGuess {
			t.Errorf("%s: %.0f are expected, %.0f found\n%s", where, x.Rows, found, x)
		}
	}
}

// TestTableThatShrank: five rows are left of those that statistics are of.
//
// Promise (plans): A table that has few rows left is known to be small, whatever its statistics
// say.
func TestTableThatShrank(t *testing.T) {
	w := newWorld(t, 5000, false)
	w.load(1, 0, 5000)
	w.analyze()
	if _, err := w.session.Exec(t.Context(), "DELETE FROM orders WHERE id >= 5"); err != nil {
		t.Fatal(err)
	}
	e := local.Engine(w.db)
	ok(t, e.Flush(t.Context()))
	ok(t, e.Compact(t.Context()))
	x := w.explain("EXPLAIN ", "SELECT o.note FROM orders o JOIN people p ON o.cust = p.cust", nil)
	if x.Rows > 50 {
		t.Errorf("five rows are left\n%s", x)
	}
}

// rowsOfGuess is how many rows may be expected of values that are not there.
const rowsOfGuess = 10
