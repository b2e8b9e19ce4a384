package sql_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/sql"
)

// A hash join over rows that are read in blocks has the pairs of one whose key takes an expression,
// for which no rows are left out before: of keys that are NULL, of other kinds of numbers, in files
// and in memory, and when it is run again.
//
// Promise (sql): Joins that leave out rows without a partner early have the same result.
func TestJoinsOfBlocks(t *testing.T) {
	e, db := openBlocks(t, engine.Options{})
	s := sql.Open(db)
	exec(t, s, "CREATE TABLE t (p INT, id INT, g INT NULL, w INT, PARTITION KEY (p), "+
		"SORT KEY (id))")
	exec(t, s, "CREATE TABLE u (id INT, d DECIMAL, v INT, PRIMARY KEY (id))")
	var rows []string
	for i := range 10_200 { // too many to be kept for all runs of a subquery
		g := fmt.Sprint(i * 31 % 1000)
		if i%11 == 0 {
			g = "NULL"
		}
		rows = append(rows, fmt.Sprintf("(%d, %d, %s, %d)", i%3, i, g, i%7))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	rows = nil
	for i := range 400 {
		rows = append(rows, fmt.Sprintf("(%d, %d.0, %d)", i, i*3, i%50))
	}
	exec(t, s, "INSERT INTO u VALUES "+strings.Join(rows, ", "))
	for _, where := range []string{"memtables", "files", "both"} {
		for _, q := range []string{
			"SELECT count(*), sum(t.id), sum(u.v) FROM t JOIN u ON t.g%s = u.id WHERE u.v < 20",
			"SELECT count(*), sum(t.id) FROM t JOIN u ON t.g%s = u.d WHERE t.w <> 3 AND u.v < 45",
			"SELECT count(*), sum(t.id) FROM t WHERE t.g%s IN (SELECT id FROM u WHERE v > 10)",
			"SELECT u.id, (SELECT count(*) FROM t JOIN u x ON t.g%s = x.id WHERE x.v = u.v " +
				"AND t.w < u.v) FROM u WHERE u.id IN (2, 3)",
			"SELECT u.id, (SELECT count(*) FROM t JOIN u x ON t.g%s = x.id WHERE x.v = u.v) " +
				"FROM u WHERE u.id IN (1, 2)",
			"SELECT t.id, u.v FROM t LEFT JOIN u ON t.g%s = u.id AND u.v < 5 WHERE t.p = 1",
		} {
			got := strings.Split(queried(t, s, fmt.Sprintf(q, "")), "\n")
			want := strings.Split(queried(t, s, fmt.Sprintf(q, " + 0")), "\n")
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || got[0] == "" {
				t.Errorf("%s: %s\n%s\nwithout blocks\n%s", where, q, got, want)
			}
		}
		switch where {
		case "memtables":
			ok(t, e.Flush(context.Background()))
		case "files":
			exec(t, s, "UPDATE t SET g = g + 1 WHERE w = 2")
		}
	}
}
