package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestListsBesideKeys runs queries that fix a primary or unique key and have a condition
// also with a parameter for a whole list.
func TestListsBesideKeys(t *testing.T) {
	ctx, s := context.Background(), openSession(t)
	for _, text := range []string{
		"CREATE TABLE t (id INT PRIMARY KEY, code TEXT, n INT NULL, UNIQUE INDEX by_code (code))",
		"INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', NULL)",
	} {
		ok(t, second(s.Exec(ctx, text)))
	}
	for _, c := range []struct {
		where string
		args  []any
		want  string
	}{
		{"id = 2 AND n IN (?)", []any{[]int{10, 20}}, "2"},
		{"id = 2 AND n IN (?)", []any{20}, "2"},
		{"id = 2 AND n IN (?)", []any{[]int{}}, ""},
		{"id = 2 AND n NOT IN (?)", []any{[]int{10, 20}}, ""},
		{"id = 2 AND n NOT IN (?)", []any{[]int{}}, "2"},
		{"id = 3 AND (n IN (?) OR code = 'c')", []any{[]int{10}}, "3"},
		{"id = ? AND n IN (5, ?)", []any{1, []int{10, 11}}, "1"},
		{"code = 'b' AND n IN (?)", []any{[]int{20}}, "2"},
		{"code = ? AND n IN (?, ?)", []any{"b", 1, []int{20}}, "2"},
	} {
		rows, err := s.Query(ctx, "SELECT id FROM t WHERE "+c.where, c.args...)
		if err != nil {
			t.Fatalf("%s %v: %v", c.where, c.args, err)
		}
		var got []string
		for row, err := range rows.All() {
			if err != nil {
				t.Fatalf("%s %v: %v", c.where, c.args, err)
			}
			got = append(got, fmt.Sprint(row[0]))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %v: %v, want %s", c.where, c.args, got, c.want)
		}
	}
}
