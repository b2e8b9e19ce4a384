package crosscheck

import "fmt"

// correlation returns a condition that binds rows of y to those of another table, with few
// different values there.
func (g *generator) correlation(y, x string) string {
	return fmt.Sprintf(g.oneOf("%[1]s.grade = %[2]s.grade", "%[1]s.grade < %[2]s.grade",
		"%[1]s.id = %[2]s.id", "%[1]s.id = %[2]s.grade",
		"%[1]s.grade = coalesce(%[2]s.grade, 3) %% 5", "%[1]s.id IN (%[2]s.grade, %[2]s.id)",
		"(%[1]s.grade = %[2]s.grade OR %[1]s.id = %[2]s.id)"), y, x)
}

// further returns a condition on y, which may use the row that is two queries out.
func (g *generator) further(y source, x string) string {
	if g.chance(70) {
		return g.plainCondition([]source{y})
	}
	z := g.table().name
	return g.oneOf(
		fmt.Sprintf("EXISTS (SELECT 1 FROM %s z WHERE z.id = y.id AND z.grade >= %s.grade)", z, x),
		fmt.Sprintf("y.grade >= (SELECT min(z.grade) FROM %s z WHERE z.id = %s.grade)", z, x),
		fmt.Sprintf("y.id IN (SELECT z.grade FROM %s z WHERE z.grade = %s.grade LIMIT 3)", z, x),
		fmt.Sprintf("y.grade > (SELECT avg(z.grade) FROM %s z)", z))
}

// plainCondition is a condition without correlated subqueries.
func (g *generator) plainCondition(from []source) string {
	nested := g.nested
	g.nested = true
	out := g.condition(from, 1)
	g.nested = nested
	return out
}

// correlatedNumber returns a subquery whose value is a number for each row of x.
func (g *generator) correlatedNumber(x string) string {
	y := source{g.table().tableInfo, "y"}
	where := y.name + " y WHERE " + g.correlation("y", x) + " AND " + g.further(y, x)
	switch g.rng.IntN(8) {
	case 0:
		return "(SELECT y.id FROM " + where + " ORDER BY y.id" + g.oneOf("", " DESC") + " LIMIT 1" +
			g.oneOf("", " OFFSET 1") + ")"
	case 1:
		return fmt.Sprintf("(SELECT max(d.v) FROM (SELECT y.grade + %s.id %% 5 AS v FROM %s) d)",
			x, where)
	case 2:
		return fmt.Sprintf("(SELECT count(*) FROM (SELECT y.grade AS v FROM %s UNION SELECT "+
			"%s.grade) d)", where, x)
	case 3:
		return "(SELECT count(*) FROM (SELECT y.grade, count(*) AS n FROM " + where +
			" GROUP BY y.grade HAVING count(*) > " + x + ".grade % 3) d)"
	case 4:
		return fmt.Sprintf("(SELECT sum(y.grade) FROM %s y JOIN %s w ON w.id = y.id AND "+
			"w.grade >= %s.grade WHERE %s)", y.name, g.table().name, x, g.correlation("y", x))
	}
	return "(SELECT " + g.oneOf("count(*)", "min(y.id)", "max(y.grade)", "sum(y.grade)",
		"count(DISTINCT y.grade)") + " FROM " + where + ")"
}

// correlatedTest returns a condition with a subquery for each row of x.
func (g *generator) correlatedTest(x string) string {
	y := source{g.table().tableInfo, "y"}
	where := y.name + " y WHERE " + g.correlation("y", x) + " AND " + g.further(y, x)
	switch g.rng.IntN(6) {
	case 4: // of values of the row around
		return fmt.Sprintf("%s.%s %sIN (SELECT %[1]s.%[4]s FROM %[5]s y WHERE y.id %[6]s 5)", x,
			g.oneOf("id", "grade"), g.oneOf("", "NOT "), g.oneOf("id", "grade"), y.name,
			g.oneOf("<", ">", "=", "= -"))
	case 5: // of a value of a subquery, alone or in a row
		left, right := g.correlatedNumber(x), "y.grade"
		if g.chance(50) {
			left, right = "("+left+", "+x+".grade)", "y.id, y.grade"
		}
		if g.chance(70) {
			where = y.name + " y WHERE y.id < 40"
		}
		return fmt.Sprintf("%s %sIN (SELECT %s FROM %s)", left, g.oneOf("", "NOT "), right, where)
	case 0:
		return g.oneOf("", "NOT ") + "EXISTS (SELECT 1 FROM " + where + ")"
	case 1, 2:
		return fmt.Sprintf("%s.%s %sIN (SELECT y.%s FROM %s)", x, g.oneOf("id", "grade"),
			g.oneOf("", "NOT "), g.oneOf("id", "grade"), where)
	}
	return fmt.Sprintf("%s.%s %s %s", x, g.oneOf("id", "grade"), g.oneOf("=", "<", ">=", "<>"),
		g.correlatedNumber(x))
}

// folded returns a subquery for each row of x that compares texts under the collation NOCASE.
func (g *generator) folded() string {
	y := source{&g.tables[1], "y"}
	where := fmt.Sprintf("y.grade %s %d AND %s", g.oneOf("<", ">=", "="), g.rng.IntN(12),
		g.oneOf("x.kind = y.type", "x.kind = y.kind", "x.kind IN (y.type, 'quarry')"))
	if g.chance(40) {
		test := fmt.Sprintf("x.kind %sIN (SELECT y.%s FROM quakes y WHERE %s)",
			g.oneOf("", "NOT "), g.oneOf("type", "kind"), g.plainCondition([]source{y}))
		return "CASE WHEN " + test + " THEN 1 WHEN NOT (" + test + ") THEN 0 END"
	}
	if g.chance(30) {
		return "(SELECT y.type FROM quakes y WHERE " + where + " ORDER BY y.type" +
			g.oneOf("", " DESC") + ", y.id LIMIT 1)"
	}
	return "(SELECT " + g.oneOf("max(y.type)", "min(y.type)", "min(y.grade)",
		"count(DISTINCT y.type)", "count(DISTINCT y.kind)", "count(*)") + " FROM quakes y WHERE " +
		where + ")"
}

// correlated returns a query with a subquery that is run for its rows, somewhere.
func (g *generator) correlated() query {
	s := g.table()
	from := " FROM " + s.name + " x"
	where := fmt.Sprintf(" WHERE x.id %% 61 = %d AND %s", g.rng.IntN(61),
		g.condition([]source{s}, 1))
	n, test := g.correlatedNumber("x"), g.correlatedTest("x")
	shown := "CASE WHEN " + test + " THEN 1 WHEN NOT (" + test + ") THEN 0 END"
	text := ""
	switch g.rng.IntN(8) {
	case 7:
		if !s.folds() {
			break
		}
		text = "SELECT x.id, " + g.folded() + from + where
	case 0, 1:
		text = "SELECT x.id, " + n + ", " + shown + from + where + g.oneOf("", " AND "+test)
	case 2:
		text = "SELECT x.grade, count(*), sum(" + n + ")" + from + where + " GROUP BY x.grade"
	case 3:
		having := g.correlatedNumber("g")
		text = "SELECT g.grade, count(*) FROM (SELECT id % 5 AS id, grade FROM " + s.name +
			") g GROUP BY g.id, g.grade HAVING count(*) >= coalesce(" + having + ", 2)"
	case 4:
		text = "SELECT x.id" + from + where + " ORDER BY " + n + g.direction() + ", x.id LIMIT 20"
		return query{ours: text, theirs: text, ordered: true}
	case 5:
		text = "SELECT DISTINCT " + n + " AS n" + from + where
	case 6:
		text = fmt.Sprintf("SELECT x.id, r.id FROM %s x %s %s r ON r.id = x.id AND r.grade %s %s"+
			" WHERE x.id %% 61 = 1", s.name, g.oneOf("JOIN", "LEFT JOIN"), g.table().name,
			g.oneOf("<", ">=", "="), n)
	}
	if text == "" {
		text = "SELECT x.id, x.grade" + from + " WHERE x.id % 61 < 2 AND (" +
			g.plainCondition([]source{s}) + g.oneOf(" OR ", " AND ") + test +
			") AND CASE WHEN x.grade > 5 THEN " + g.correlatedTest("x") + " ELSE x.id % 3 = 1 END"
	}
	return query{ours: text, theirs: text}
}
