package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestValuesOfSemiJoins runs queries with IN and EXISTS over a table that is dear to read: with few
// values of the subquery, and with far more than the planner expects.
//
// Promise (plans): The values of a subquery that is cheap beside the query around are read before
// that is planned; if there are more than 4,096, the join that does without them is run.
func TestValuesOfSemiJoins(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
	ok(t, err)
	defer e.Close()
	db, err := local.Open(context.Background(), e, nil)
	ok(t, err)
	defer db.Close()
	s := sql.Open(db)
	exec(t, s, "CREATE TABLE big (id INT PRIMARY KEY, x INT)")
	exec(t, s, "CREATE TABLE v (a INT PRIMARY KEY)")
	insert := func(table string, rows int, row func(i int) string) {
		for from := 0; from < rows; from += 5000 {
			var values []string
			for i := from; i < min(rows, from+5000); i++ {
				values = append(values, row(i))
			}
			exec(t, s, "INSERT INTO "+table+" VALUES "+strings.Join(values, ", "))
		}
	}
	insert("big", 60_000, func(i int) string { return fmt.Sprintf("(%d, %d)", i, i/10) })
	insert("v", 5000, func(i int) string { return fmt.Sprintf("(%d)", i) })
	exec(t, s, "ANALYZE big")
	exec(t, s, "ANALYZE v")
	many := "a + 0 >= 0 AND a + 1 >= 0 AND a + 2 >= 0 AND a + 3 >= 0 AND a + 4 >= ?"
	for _, c := range []struct {
		where string
		arg   int
		want  string
		join  bool
	}{
		{"x IN (SELECT a FROM v WHERE a < ?)", 10, "100", false},
		{"EXISTS (SELECT 1 FROM v WHERE v.a = big.x AND v.a < ?)", 10, "100", false},
		{"x IN (SELECT a FROM v WHERE a < ?)", 0, "0", false},
		// What is said of x leaves out no values for another operand.
		{"x IN (SELECT a FROM v WHERE a < 10) AND x < 5 AND " +
			"(id < 0 OR x + 5 IN (SELECT a FROM v WHERE a < 10))", 0, "50", false},
		{"x IN (SELECT a FROM v WHERE " + many + ")", 0, "50000", true},
		{"EXISTS (SELECT 1 FROM v WHERE v.a = big.x AND " + many + ")", 0, "50000", true},
	} {
		text := "SELECT count(*) FROM big WHERE " + c.where
		for _, text := range []string{text, strings.Replace(text, "?", fmt.Sprint(c.arg), 1)} {
			var args []any
			if strings.Contains(text, "?") {
				args = []any{c.arg}
			}
			rows, err := s.Query(context.Background(), text, args...)
			ok(t, err)
			for row, err := range rows.All() {
				if err != nil || row[0].String() != c.want {
					t.Errorf("%s: %v, %v, not %s", text, row, err, c.want)
				}
			}
			rows, err = s.Query(context.Background(), "EXPLAIN ANALYZE "+text, args...)
			ok(t, err)
			plan := rows.Plan.String()
			if !strings.Contains(plan, "subquery list") ||
				strings.Contains(plan, " join |") != c.join {
				t.Errorf("%s: join %t is expected\n%s", text, c.join, plan)
			}
		}
	}
}
