package sql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/sql"
)

// TestOrderAfterLists: rows of several values of the first key columns, in the order of those
// after, are in that order wherever the partition key ends.
//
// Promise (sql): Rows of several values of the first key columns are ordered by the next ones.
func TestOrderAfterLists(t *testing.T) {
	for i, keys := range []string{
		"PARTITION KEY (k, a, b)", "PARTITION KEY (k, a), SORT KEY (b)",
		"PARTITION KEY (k), SORT KEY (a, b)",
	} {
		ctx, s := context.Background(), openSession(t)
		name := fmt.Sprint("t", i)
		run := func(text string, args ...any) {
			ok(t, second(s.Exec(ctx, text, args...)))
		}
		run("CREATE TABLE " + name + " (k TEXT, a INT, b INT, n INT, " + keys + ")")
		rnd := rand.New(rand.NewPCG(5, uint64(i)))
		for n := range 300 {
			k, a, b := strings.Repeat("x", n%5), rnd.IntN(6), n
			run("INSERT INTO "+name+" VALUES (?, ?, ?, ?)", k, a, b, n)
		}
		for _, where := range []string{
			"k IN ('', 'x', 'xxx')", "k IN ('', 'xxxx') AND a BETWEEN 1 AND 3",
			"k = 'x' AND a = 2 OR k = 'xx' OR k = 'xxx' AND a > 3",
			"k IN ('x', 'xx') AND a IN (1, 4, 5)", "k = 'x' AND a = 2 OR k = 'xx' AND a = 3",
		} {
			for _, order := range []string{"a, b", "a DESC, b DESC", "b", "b DESC"} {
				want := column(t, s, "SELECT b, a FROM "+name+" WHERE "+where)
				slices.SortFunc(want, func(x, y [2]int64) int {
					c := slices.Compare(x[:1], y[:1])
					if order[0] == 'a' {
						c = slices.Compare([]int64{x[1], x[0]}, []int64{y[1], y[0]})
					}
					if strings.Contains(order, "DESC") {
						return -c
					}
					return c
				})
				for _, limit := range []int{3, 1000} {
					got := column(t, s, fmt.Sprintf("SELECT b, a FROM %s WHERE %s "+
						"ORDER BY %s LIMIT %d", name, where, order, limit))
					if !slices.Equal(got, want[:min(limit, len(want))]) {
						t.Errorf("%s: %s, by %s, limit %d: %v, want %v", keys, where, order, limit,
							got, want)
					}
				}
			}
		}
	}
}

// column returns the first two columns of a query, which are integers.
func column(t *testing.T, s *sql.Session, query string) (out [][2]int64) {
	t.Helper()
	rows, err := s.Query(context.Background(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for row, err := range rows.All() {
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		x, _ := row[0].AsInt()
		y, _ := row[1].AsInt()
		out = append(out, [2]int64{x, y})
	}
	return out
}
