package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestFirstRows: the first rows of an order are those of all rows in order, with few values of the
// first column, so that later ones decide, and with NULLs.
//
// Promise (sql): ORDER BY with a LIMIT has the first rows of the same order without one, whatever
// is equal or NULL.
func TestFirstRows(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	s, rnd := openSession(t), testutil.Rand(t)
	exec(t, s, "CREATE TABLE t (id INTEGER, a INTEGER NULL, b INTEGER, PRIMARY KEY (id))")
	var rows []string
	for i := range 8_000 {
		a := fmt.Sprint(rnd.IntN(40) - 20)
		if rnd.IntN(50) == 0 {
			a = "NULL"
		}
		rows = append(rows, fmt.Sprintf("(%d, %s, %d)", i, a, rnd.IntN(1000)))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	for _, order := range []string{"a, b, id", "a DESC, b, id", "a, b DESC, id",
		"a NULLS LAST, b, id", "a DESC NULLS FIRST, b DESC, id"} {
		for _, where := range []string{"", "WHERE b % 3 = 1 ", "WHERE a > 0 "} {
			text := "SELECT * FROM t " + where + "ORDER BY " + order
			all := listed(t, s, text)
			for _, n := range []int{1, 7, 200, 500} {
				first := listed(t, s, fmt.Sprintf("%s LIMIT %d", text, n))
				if strings.Join(first, "\n") != strings.Join(all[:n], "\n") {
					t.Errorf("%s LIMIT %d: %v, want %v", text, n, first, all[:n])
				}
			}
		}
	}
}

// listed returns the rows of a query.
func listed(t *testing.T, s *sql.Session, text string) (list []string) {
	t.Helper()
	rows, err := s.Query(context.Background(), text)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range rows.All() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(row))
	}
	return list
}
