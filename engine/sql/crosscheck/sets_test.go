package crosscheck

import (
	"fmt"
	"strings"
)

// operand returns a SELECT of two columns, for a set operation or FROM; the names are a and b.
func (g *generator) operand() string {
	if g.chance(15) {
		return fmt.Sprintf("SELECT v.a, v.b FROM (WITH w (a, b) AS (VALUES (%d, %d), (3, NULL), "+
			"(NULL, %d)) SELECT a, b FROM w) v", g.rng.IntN(9), g.rng.IntN(9), g.rng.IntN(9))
	}
	s := source{&g.tables[g.rng.IntN(len(g.tables))], "x"}
	from := []source{s}
	where := " WHERE " + g.condition(from, 1)
	if g.chance(25) {
		return "SELECT x.grade AS a, " + g.oneOf("count(*)", "min(x.id)", "sum(x.id)") +
			" AS b FROM " + s.name + " x" + where + " GROUP BY x.grade"
	}
	return "SELECT " + g.scalar(from, false, 1) + " AS a, " + g.oneOf("x.grade", "x.id % 7", "3") +
		" AS b FROM " + s.name + " x" + where
}

// sets returns a query with set operations.
func (g *generator) sets() query {
	op := g.oneOf(" UNION ", " UNION ALL ", " INTERSECT ", " EXCEPT ")
	text := g.operand() + op + g.operand()
	for op != " INTERSECT " && g.chance(30) { // SQLite has no precedence
		text += g.oneOf(" UNION ", " UNION ALL ", " EXCEPT ") + g.operand()
	}
	if g.chance(40) {
		text += " ORDER BY 1" + g.direction() + ", 2 LIMIT 30"
		return query{ours: text, theirs: text, ordered: true}
	}
	return query{ours: text, theirs: text}
}

// derived returns a query of subqueries in FROM, or of queries with names.
func (g *generator) derived() query {
	one, two := g.operand(), g.operand()
	if g.chance(30) {
		one = strings.TrimSuffix(one+g.oneOf(" UNION ", " UNION ALL ")+g.operand(), " ")
	}
	from := "(" + one + ") p"
	head := ""
	if g.chance(40) {
		head, from = "WITH q AS ("+one+") ", "q p"
		if g.chance(50) {
			two = "SELECT a + 1 AS a, b FROM q"
		}
	}
	where := fmt.Sprintf(" WHERE p.a %s %d", g.oneOf("<", ">=", "=", "<>"), g.rng.IntN(30))
	if g.chance(50) {
		text := head + "SELECT p.b, count(*), sum(p.a) FROM " + from + where + " GROUP BY p.b"
		return query{ours: text, theirs: text}
	}
	on := g.oneOf("p.a = r.a", "p.b = r.b AND p.a < r.a", "p.a = r.a AND r.b > 2")
	text := head + "SELECT count(*), sum(p.b), sum(r.b) FROM " + from +
		g.oneOf(" JOIN ", " LEFT JOIN ") + "(" + two + ") r ON " + on + where
	return query{ours: text, theirs: text}
}
