package crosscheck

import "fmt"

// nestedQuery returns a query with joins in parentheses, RIGHT JOIN, rows before IN, queries of
// WITH or aggregates of a query around.
func (g *generator) nestedQuery() query {
	a, b, c := source{g.base(), "x"}, source{g.base(), "y"}, source{g.base(), "z"}
	where := fmt.Sprintf(" WHERE x.id %% 61 < 3 AND %s", g.plainCondition([]source{a}))
	inner := fmt.Sprintf("%s y WHERE %s AND %s", b.name, g.correlation("y", "x"),
		g.plainCondition([]source{b}))
	var text string
	switch g.rng.IntN(7) {
	case 0, 1:
		text = fmt.Sprintf("SELECT x.id, y.id, z.grade FROM %s x %s (%s y %s %s z ON y.id = "+
			"z.id%s) ON x.id = y.id%s WHERE %s", a.name, g.outer(), b.name, g.outer(), c.name,
			g.oneOf("", " AND z.grade > 4"), g.oneOf("", " AND x.grade > 5"),
			g.plainCondition([]source{a, b, c}))
	case 2:
		text = fmt.Sprintf("SELECT x.id, y.id, z.grade FROM %s x %s %s y ON x.id = y.id%s RIGHT "+
			"JOIN %s z ON z.id = %s WHERE %s", a.name, g.outer(), b.name,
			g.oneOf("", " AND y.grade > 4"), c.name, g.oneOf("x.id", "y.id", "y.grade"),
			g.plainCondition([]source{a, b, c}))
	case 3:
		row := g.oneOf("(x.id, x.grade)", "(x.grade, x.id % 7)", "(x.grade, 3)")
		test := fmt.Sprintf("%s %sIN (SELECT %s FROM %s)", row, g.oneOf("", "NOT "),
			g.oneOf("y.id, y.grade", "y.grade, y.id % 7", "y.grade, 3"), inner)
		text = "SELECT x.id, CASE WHEN " + test + " THEN 1 WHEN NOT (" + test + ") THEN 0 END " +
			"FROM " + a.name + " x" + where
	case 4:
		text = fmt.Sprintf("SELECT x.id, x.grade FROM %s x%s AND (x.grade = 3 OR (x.grade, x.id) "+
			"%sIN (SELECT y.grade, y.id FROM %s y WHERE %s))", a.name, where, g.oneOf("", "NOT "),
			b.name, g.plainCondition([]source{b}))
	case 5:
		text = fmt.Sprintf("SELECT x.id, (WITH w AS (SELECT y.grade AS v FROM %s) SELECT "+
			"%s FROM w) FROM %s x%s", inner, g.oneOf("sum(v)",
			"count(*) + (SELECT max(o.v) FROM w AS o)",
			"count(*) + (SELECT count(*) FROM w AS o WHERE o.v > 3)"), a.name, where)
	default:
		further, having := "", ""
		if g.postgres { // SQLite has such aggregates among the columns of a subquery only
			further = " AND y.grade " + g.oneOf("=", "<") + " max(x.grade)"
			having = " HAVING EXISTS (SELECT 1 FROM " + c.name +
				" z WHERE z.grade = max(x.id) % 9)"
		}
		text = fmt.Sprintf("SELECT x.grade, (SELECT %s FROM %s y WHERE %s%s) FROM %s x%s "+
			"GROUP BY x.grade%s", g.oneOf("max(y.id) - sum(x.id)", "count(*) + count(x.id)",
			"max(y.id) - min(x.id)"), b.name, g.plainCondition([]source{b}), further, a.name,
			where, having)
	}
	return query{ours: text, theirs: text}
}

func (g *generator) outer() string {
	return g.oneOf("JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN")
}
