package crosscheck

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// TestInsertsAgainstSQLite compares INSERT … SELECT and ON CONFLICT: after each statement the
// tables are equal, and both fail or none.
//
// Promise (sql): INSERT … SELECT and ON CONFLICT leave the rows that SQLite leaves.
func TestInsertsAgainstSQLite(t *testing.T) {
	p := open(t)
	g := &generator{rng: rand.New(rand.NewPCG(testutil.Seed(t), 2))}
	p.both(`CREATE TABLE w (id INT PRIMARY KEY, u INT NULL, n INT DEFAULT 3, s TEXT NULL,
		v INT NULL, UNIQUE INDEX by_u (u), UNIQUE INDEX by_v (v), INDEX few (s, n) WHERE NOT n > 5,
		INDEX of_u (u) WHERE u IS NOT NULL)`,
		`CREATE TABLE w (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, n INTEGER NOT NULL DEFAULT 3,
		s TEXT, v INTEGER UNIQUE)`)
	failed := 0
	for i := range testutil.Effort(300, 3000) {
		text := g.insert()
		if i%4 == 1 {
			text = p.several(g)
		}
		if i%20 == 19 {
			text = fmt.Sprintf("DELETE FROM w WHERE id %% 3 = %d OR n > 1000", g.rng.IntN(3))
		}
		if i%5 == 4 {
			text = g.update()
		}
		_, ours := p.ours.Exec(context.Background(), text)
		_, theirs := p.theirs.Exec(text)
		if (ours == nil) != (theirs == nil) {
			t.Fatalf("%s: kstone: %v; sqlite: %v", text, ours, theirs)
		}
		if ours != nil {
			failed++
		}
		const all = "SELECT id, u, v, n, s FROM w ORDER BY id"
		got, err := p.kstone(all)
		ok(t, err)
		want, err := p.sqlite(all)
		ok(t, err)
		if !slices.Equal(got, want) {
			t.Fatalf("after %s: %s", text, difference(got, want))
		}
	}
	t.Logf("%d statements failed in both", failed)
}

// several returns an INSERT of a row whose key and unique values may be those of several rows, with
// ON CONFLICT for one of them. It is taken only if no other is: which is looked at first is not
// defined.
func (p *pair) several(g *generator) string {
	columns := []string{"id", "u", "v"}
	g.rng.Shuffle(3, func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	for {
		var values [3]int
		var taken [3]bool
		for i, c := range columns {
			if values[i] = g.rng.IntN(40); i == 2 && g.chance(50) { // of one row, if there is one
				p.theirs.QueryRow(fmt.Sprintf("SELECT %s FROM w WHERE %s = %d", c, columns[1],
					values[1])).Scan(&values[2])
			}
			ok(p.t, p.theirs.QueryRow(fmt.Sprintf("SELECT count(*) > 0 FROM w WHERE %s = %d", c,
				values[i])).Scan(&taken[i]))
		}
		if !taken[0] || !taken[1] && !taken[2] {
			return fmt.Sprintf("INSERT INTO w (%s) VALUES (%d, %d, %d) ON CONFLICT (%s) DO %s",
				strings.Join(columns, ", "), values[0], values[1], values[2], columns[0],
				g.oneOf("NOTHING", "UPDATE SET n = n + 1", "UPDATE SET u = excluded.v, n = 2"))
		}
	}
}

// update returns an UPDATE or a DELETE for the table w.
func (g *generator) update() string {
	n := fmt.Sprint(g.rng.IntN(20))
	where := " WHERE " + g.oneOf("n < "+n, "s IS NOT DISTINCT FROM 'v1'",
		"id IN (SELECT max(id) FROM w UNION SELECT "+n+")",
		"CASE WHEN u IS NULL THEN n ELSE u END > "+n,
		"s LIKE 'v_' AND id > "+n)
	if g.chance(15) {
		return "DELETE FROM w" + where
	}
	return "UPDATE w SET " + g.oneOf("n = CASE WHEN n > 5 THEN 1 ELSE n + id END", "u = NULL",
		"s = coalesce(s, 'x') || CAST(n % 7 AS TEXT), n = 3", "n = (SELECT count(*) FROM w) % 9",
		"s = nullif(s, 'v1')") + where
}

// insert returns an INSERT for the table w. Rows that may be in conflict with the primary key and
// with the unique index at once have no ON CONFLICT for one of them: which is looked at first is
// not defined.
func (g *generator) insert() string {
	n := func(m int) string { return fmt.Sprint(g.rng.IntN(m)) }
	values := "(" + n(40) + ", NULL, " + n(9) + ", 'v" + n(5) + "')"
	for g.chance(40) {
		values += ", (" + n(40) + ", NULL, " + n(9) + ", NULL)"
	}
	set := g.oneOf("n = n + excluded.n", "n = excluded.n, s = excluded.s || coalesce(s, '-')",
		"u = NULL, s = 'x' || n", "n = (SELECT count(*) FROM w WHERE id < 0)",
		"n = excluded.n WHERE w.n < excluded.n", "s = NULL WHERE excluded.s IS NOT NULL")
	switch g.rng.IntN(6) {
	case 0:
		return "INSERT INTO w (id, u, n) VALUES (" + n(40) + ", " + n(20) + ", " + n(9) +
			") ON CONFLICT DO NOTHING"
	case 1:
		return "INSERT INTO w (id, u) SELECT id + " + n(60) + ", " +
			g.oneOf("NULL", "u + 1", "id") + " FROM w WHERE n < " + n(9)
	case 2:
		return "INSERT OR IGNORE INTO w (id, n, s) SELECT id + " + n(9) +
			", sum(n) % 50, max(s) FROM w WHERE id < " + n(40) + " GROUP BY id"
	case 3:
		return "INSERT INTO w (id, n) SELECT id, n + 1 FROM w WHERE id < " + n(40) +
			" ON CONFLICT (id) DO UPDATE SET n = n + excluded.n % 7"
	}
	return "INSERT INTO w (id, u, n, s) VALUES " + values + " ON CONFLICT (id) DO " +
		g.oneOf("NOTHING", "UPDATE SET "+set, "UPDATE SET "+set)
}
