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
func TestMixedCollations(t *testing.T) {
	ctx, s := context.Background(), openSession(t)
	for _, text := range []string{
		"CREATE TABLE l (id INT PRIMARY KEY, n TEXT COLLATE NOCASE, INDEX ln (n))",
		"CREATE TABLE r (id INT PRIMARY KEY, u TEXT COLLATE UNICODE, INDEX ru (u))",
		"INSERT INTO l VALUES (1, 'a'), (2, 'Ä'), (3, 'ä'), (4, 'ß')",
		"INSERT INTO r VALUES (1, 'A'), (2, 'ä'), (3, 'b')",
	} {
		if _, err := s.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
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
