package crosscheck

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes queries that mean the same in both dialects.
type generator struct {
	rng    *rand.Rand
	tables []tableInfo
	views  int  // the last ones of tables
	nested bool // no further subqueries in conditions
	// postgres leaves out what PostgreSQL has another form or order of.
	postgres bool
}

// query is a generated query. ours may have hints that SQLite's text has not.
type query struct {
	ours, theirs string
	ordered      bool // ORDER BY distinguishes all rows
}

func (g *generator) oneOf(texts ...string) string { return texts[g.rng.IntN(len(texts))] }

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

// source is a table under a name.
type source struct {
	*tableInfo
	alias string
}

func (s source) column(g *generator) (string, *columnInfo) {
	c := &s.columns[g.rng.IntN(len(s.columns))]
	return s.alias + "." + c.name, c
}

// folds reports whether a table has a column under NOCASE, and one of like texts without.
func (s source) folds() bool {
	return slices.ContainsFunc(s.columns, func(c columnInfo) bool { return c.nocase })
}

// value returns a literal that a column may be compared with: of the data, near it, or NULL.
func (g *generator) value(c *columnInfo) string {
	if g.chance(3) {
		return "NULL"
	}
	v := c.values[g.rng.IntN(len(c.values))]
	if !c.text && !c.float && !c.time && g.chance(20) {
		return fmt.Sprint(g.rng.IntN(40) - 5)
	}
	return v
}

// condition returns a condition over the sources.
func (g *generator) condition(from []source, depth int) string {
	if depth > 0 && g.chance(55) {
		switch g.rng.IntN(5) {
		case 0:
			return "NOT (" + g.condition(from, depth-1) + ")"
		case 1, 2:
			return "(" + g.condition(from, depth-1) + " OR " + g.condition(from, depth-1) + ")"
		}
		return "(" + g.condition(from, depth-1) + " AND " + g.condition(from, depth-1) + ")"
	}
	return g.atom(from)
}

func (g *generator) atom(from []source) string {
	s := from[g.rng.IntN(len(from))]
	name, c := s.column(g)
	not := g.oneOf("", "", "NOT ")
	if !g.nested && s.alias == "x" && g.chance(1) {
		return g.correlatedTest("x")
	}
	switch g.rng.IntN(10) {
	case 0:
		return name + " IS " + not + "NULL"
	case 1:
		return fmt.Sprintf("%s %sBETWEEN %s AND %s", name, not, g.value(c), g.value(c))
	case 2, 3:
		var list []string
		for range 1 + g.rng.IntN(4) {
			list = append(list, g.value(c))
		}
		return fmt.Sprintf("%s %sIN (%s)", name, not, strings.Join(list, ", "))
	case 4:
		if c.text {
			v := strings.Trim(c.values[g.rng.IntN(len(c.values))], "'")
			if len(v) > 2 && v[0] < 128 && v[1] < 128 && !strings.ContainsAny(v[:2], "'%_") {
				return fmt.Sprintf("%s %sLIKE '%s%%'", name, not, v[:1+g.rng.IntN(2)])
			}
		}
	case 5:
		if other, d := s.column(g); d.text == c.text && d.time == c.time {
			if d.nocase { // SQLite compares under the collation of the left side
				name, other = other, name
			}
			return name + " " + g.oneOf("=", "<", ">=", "<>") + " " + other
		}
	case 6:
		if g.chance(60) {
			return g.rowValue(s)
		}
		if c.text {
			return name + " " + not + "ILIKE " + g.oneOf("'s%'", "'%an%'", "'_e%'", "'a'", "'%é'")
		}
	}
	return name + " " + g.oneOf("=", "=", "<>", "<", "<=", ">", ">=") + " " + g.value(c)
}

// rowValue compares two columns at once.
func (g *generator) rowValue(s source) string {
	a, ca := s.column(g)
	b, cb := s.column(g)
	return fmt.Sprintf("(%s, %s) %s (%s, %s)", a, b, g.oneOf("=", "<", ">", "<=", ">="),
		g.value(ca), g.value(cb))
}

// query returns any query.
func (g *generator) query() query {
	switch g.rng.IntN(22) {
	case 20, 21:
		return g.nestedQuery()
	case 17, 18, 19:
		return g.correlated()
	case 14:
		return g.sets()
	case 15, 16:
		return g.derived()
	case 11, 12, 13:
		return g.calculated()
	case 10:
		return g.rowless()
	case 0, 1:
		return g.groups()
	case 2, 3:
		return g.join()
	case 4:
		return g.distinct()
	case 5, 6:
		return g.subquery()
	}
	return g.plain()
}

// rowless returns a query without FROM, or one of joins in parentheses.
func (g *generator) rowless() query {
	a, b := g.table(), g.table()
	number := func() string { return fmt.Sprint(g.rng.IntN(40) - 5) }
	if g.chance(30) {
		from := fmt.Sprintf("(%s x JOIN %s y ON x.id = y.id)", a.name, b.name)
		if g.chance(50) {
			from = fmt.Sprintf("%s x JOIN (%s y JOIN %s z ON y.id = z.id) ON x.id = y.id", a.name,
				b.name, a.name)
		}
		text := "SELECT count(*), count(ALL x.grade), min(y.id) FROM " + from + " WHERE " +
			g.condition([]source{a}, 2)
		return query{ours: text, theirs: text}
	}
	text := "SELECT " + number() + g.oneOf(" + ", " - ", " * ", " / ", " % ") + number() + ", " +
		"(SELECT " + g.oneOf("min", "max", "count") + "(x.grade) FROM " + a.name + " x WHERE " +
		g.condition([]source{a}, 1) + ")"
	if g.chance(40) {
		text += fmt.Sprintf(" WHERE %s %sIN (SELECT y.grade FROM %s y)", number(),
			g.oneOf("", "NOT "), b.name)
	}
	return query{ours: text, theirs: text}
}

func (g *generator) table() source {
	return source{&g.tables[g.rng.IntN(len(g.tables))], "x"}
}

// hinted returns FROM with and without a hint.
func (g *generator) hinted(s source) (ours, theirs string) {
	theirs = " FROM " + s.name + " " + s.alias
	ours = theirs
	switch {
	case len(s.indexes) > 0 && g.chance(10):
		ours += " NOT INDEXED"
	case len(s.indexes) > 0 && g.chance(25):
		ours += " INDEXED BY " + s.indexes[g.rng.IntN(len(s.indexes))]
	}
	return ours, theirs
}

func (g *generator) plain() query {
	s := g.table()
	ours, theirs := g.hinted(s)
	rest := " WHERE " + g.condition([]source{s}, 3)
	columns := "SELECT x.id"
	for range g.rng.IntN(4) {
		name, _ := s.column(g)
		columns += ", " + name
	}
	q := query{}
	if g.chance(60) {
		q.ordered = true
		rest += " ORDER BY "
		for range g.rng.IntN(3) {
			name, c := s.column(g)
			rest += name + g.collated(c) + g.direction() + ", "
		}
		rest += "x.id" + g.oneOf("", " DESC")
		if g.chance(60) {
			rest += " LIMIT " + g.count(30)
			if g.chance(40) {
				rest += " OFFSET " + g.count(20)
			}
		}
	}
	q.ours, q.theirs = columns+ours+rest, columns+theirs+rest
	return q
}

// count is a number for LIMIT or OFFSET, now and then one beyond all rows.
func (g *generator) count(below int) string {
	if g.chance(5) {
		return g.oneOf("0", "1073741824", "4294967296", "9223372036854775806",
			"9223372036854775807")
	}
	return fmt.Sprint(g.rng.IntN(below))
}

// collated returns a collation for a term of ORDER BY, or none.
func (g *generator) collated(c *columnInfo) string {
	if c.text && !g.postgres && g.chance(40) {
		return g.oneOf(" COLLATE NOCASE", " COLLATE BINARY")
	}
	return ""
}

func (g *generator) direction() string {
	return g.nulls(g.oneOf("", "", " DESC", " DESC", " NULLS LAST", " DESC NULLS FIRST"))
}

// nulls says where NULLs stand in an order that does not: they are greater than values in
// PostgreSQL.
func (g *generator) nulls(order string) string {
	switch {
	case g.postgres && order == "":
		return " NULLS FIRST"
	case g.postgres && order == " DESC":
		return " DESC NULLS LAST"
	}
	return order
}

// groups returns a query with aggregates, with or without GROUP BY.
func (g *generator) groups() query {
	s := g.table()
	ours, theirs := g.hinted(s)
	where := " WHERE " + g.condition([]source{s}, 2)
	number := g.oneOf("x.id", "x.grade")
	any, _ := s.column(g)
	aggregates := g.oneOf("count(*)", "count("+any+")", "count(DISTINCT "+any+")") +
		", " + g.oneOf("min", "max") + "(" + any + "), sum(" + number + "), avg(" + number + ")"
	if g.chance(30) {
		by, c := s.column(g)
		aggregates += ", " + g.oneOf("count(*)", "sum(x.id)", "count(DISTINCT "+any+")", "min("+any+
			")", "max("+any+")") +
			" FILTER (WHERE " + g.condition([]source{s}, 1) + "), group_concat(" +
			g.oneOf("x.id", "x.grade") + ", ';' ORDER BY " + by + g.collated(c) + g.direction() +
			", x.id)"
	}
	if g.chance(30) {
		head := "SELECT " + aggregates
		return query{ours: head + ours + where, theirs: head + theirs + where}
	}
	key, _ := s.column(g)
	if g.chance(40) {
		other, _ := s.column(g)
		if other != key {
			key += ", " + other
		}
	}
	head := "SELECT " + key + ", " + aggregates
	rest := where + " GROUP BY " + key
	if g.chance(40) {
		rest += " HAVING count(*) > " + fmt.Sprint(g.rng.IntN(4))
	}
	q := query{}
	if g.chance(40) {
		q.ordered = true
		rest += " ORDER BY " + key + " LIMIT 20"
	}
	q.ours, q.theirs = head+ours+rest, head+theirs+rest
	return q
}

func (g *generator) distinct() query {
	s := g.table()
	ours, theirs := g.hinted(s)
	key, _ := s.column(g)
	if g.chance(40) {
		other, _ := s.column(g)
		key += ", " + other
	}
	rest := " WHERE " + g.condition([]source{s}, 2)
	q := query{}
	if g.chance(50) {
		q.ordered = true
		rest += " ORDER BY " + key + " LIMIT 15"
	}
	q.ours, q.theirs = "SELECT DISTINCT "+key+ours+rest, "SELECT DISTINCT "+key+theirs+rest
	return q
}

// join returns a join of two tables, on keys that keep the result small.
func (g *generator) join() query {
	a := source{&g.tables[g.rng.IntN(len(g.tables))], "a"}
	b := source{&g.tables[g.rng.IntN(len(g.tables))], "b"}
	if g.chance(70) {
		b.tableInfo = g.base()
	}
	on := "a.id = b.id"
	switch {
	case g.chance(30):
		on = "b.id = a.grade"
	case g.chance(20):
		on = "a.id = b.id AND " + g.atom([]source{b})
	case g.chance(20):
		on = "a.grade = b.id AND a.grade < " + fmt.Sprint(g.rng.IntN(12))
	case a.folds() && b.folds():
		on = "a.kind = b." + g.oneOf("kind", "type") + g.oneOf(" AND a.grade = b.id",
			" AND a.id = b.id", " AND a.id % 7 = b.id")
	}
	from := []source{a, b}
	text := fmt.Sprintf("SELECT a.id, b.id, a.grade, b.grade FROM %s a %s %s b ON %s WHERE %s",
		a.name, g.oneOf("JOIN", "LEFT JOIN", "FULL JOIN"), b.name, on, g.condition(from, 2))
	if g.chance(25) {
		return g.joins(from)
	}
	if g.chance(30) {
		text = fmt.Sprintf("SELECT count(*), sum(b.grade), min(a.id) FROM %s a %s %s b ON %s"+
			" WHERE %s", a.name, g.oneOf("JOIN", "LEFT JOIN", "FULL JOIN"), b.name, on,
			g.condition(from, 2))
		return query{ours: text, theirs: text}
	}
	q := query{ordered: g.chance(40)}
	if q.ordered {
		text += " ORDER BY a.id" + g.nulls(g.oneOf("", " DESC")) + ", b.id" + g.nulls("") +
			" LIMIT 25"
	}
	q.ours, q.theirs = text, text
	return q
}

// base returns a table that is no view.
func (g *generator) base() *tableInfo {
	return &g.tables[g.rng.IntN(len(g.tables)-g.views)]
}

// joins returns a join of three tables, by equal columns or by names of columns.
func (g *generator) joins(from []source) query {
	if g.chance(70) {
		from[0].tableInfo = g.base()
	}
	from[1].tableInfo = g.base()
	c := source{g.base(), "c"}
	from = append(from, c)
	kind := func() string { return g.oneOf(" JOIN ", " LEFT JOIN ", " FULL JOIN ", " FULL JOIN ") }
	on := func(s, t string) string {
		return " ON " + s + ".id = " + t + ".id" + g.oneOf("", "", " AND "+s+".grade < 7")
	}
	text := "SELECT a.id, b.id, c.grade FROM " + from[0].name + " a" + kind() +
		from[1].name + " b" + on("a", "b") + kind() + c.name + " c" + on(g.oneOf("a", "b"), "c")
	if g.chance(40) {
		text = "SELECT id, count(*), min(b.grade) FROM " + from[0].name + " a" + kind() +
			from[1].name + " b USING (id)" + kind() + c.name + " c USING (id)"
		text += " WHERE " + g.condition(from, 1) + " GROUP BY id"
		return query{ours: text, theirs: text}
	}
	text += " WHERE " + g.condition(from, 2)
	return query{ours: text, theirs: text}
}

// subquery returns a query with IN, EXISTS or a scalar subquery.
func (g *generator) subquery() query {
	s := g.table()
	inner := source{&g.tables[g.rng.IntN(len(g.tables))], "y"}
	column := g.oneOf("id", "grade")
	where := g.condition([]source{inner}, 1)
	var test string
	switch g.rng.IntN(6) {
	case 0, 1:
		test = fmt.Sprintf("x.%s %sIN (SELECT y.%s FROM %s y WHERE %s)", column,
			g.oneOf("", "NOT "), g.oneOf("id", "grade"), inner.name, where)
	case 2:
		test = fmt.Sprintf("%sEXISTS (SELECT 1 FROM %s y WHERE y.id = x.%s AND %s)",
			g.oneOf("", "NOT "), inner.name, column, where)
	case 3:
		test = fmt.Sprintf("x.%s %s (SELECT %s(y.%s) FROM %s y WHERE %s)", column,
			g.oneOf("=", "<", ">="), g.oneOf("min", "max", "count"), column, inner.name, where)
	case 4:
		test = fmt.Sprintf("%sEXISTS (SELECT 1 FROM %s y WHERE %s)", g.oneOf("", "NOT "),
			inner.name, where)
	default:
		test = fmt.Sprintf("(x.id, x.grade) IN (SELECT y.id, y.grade FROM %s y WHERE %s)",
			inner.name, where)
	}
	text := fmt.Sprintf("SELECT x.id, x.grade FROM %s x WHERE %s %s %s", s.name, test,
		g.oneOf("AND", "AND"), g.condition([]source{s}, 1))
	return query{ours: text, theirs: text}
}
