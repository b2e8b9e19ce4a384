package sql_test

import (
	"fmt"
	"math"
	"strings"
)

// query writes a SELECT.
func (w *writer) query() step {
	if len(w.asked) > 0 && w.chance(15) {
		return w.again(oneOf(w.Rand, w.asked))
	}
	w.begin(w.chance(60))
	var s step
	switch w.IntN(11) {
	case 0, 1, 2, 3:
		s = w.rows()
	case 4:
		s = w.groups()
	case 5:
		s = w.distinct()
	case 6, 7:
		s = w.join()
	case 8, 9:
		s = w.subquery()
	default:
		s = w.point()
	}
	s.do, s.args, s.kinds, s.texts = doQuery, w.args, w.kinds, w.texts
	s.choice = w.IntN(1000)
	if len(s.args) > 0 && len(w.asked) < 100 {
		w.asked = append(w.asked, s)
	}
	return s
}

// rows writes a query of one table, whose condition can be judged row by row, too.
func (w *writer) rows() step {
	s := step{where: w.condition("", w.IntN(5))}
	if w.chance(30) {
		w.begin(w.params)
		s.where = w.predicate("")
	}
	s.whereArgs = len(w.args)
	columns := "id, " + w.oneOf(w.scalar().name, w.computed("")) + ", " + w.column().name
	if w.chance(10) {
		columns = w.names()
	}
	s.text = "SELECT " + columns + " FROM {t} {hint} WHERE " + s.where
	if w.chance(70) {
		s.text += w.orderBy("")
		s.ordered = true
		if w.chance(40) {
			s.page = 1 + w.IntN(9)
		} else if limit := w.limit(); limit != "" {
			s.text, s.where = s.text+limit, ""
		}
	}
	return s
}

// computed writes an expression of one column that has no collation.
func (w *writer) computed(alias string) string {
	c := w.plain()
	name := alias + c.name
	switch {
	case c.kind == "text":
		return w.oneOf("length("+name+")", "lower("+name+")", "coalesce("+name+", 'b')")
	case alike(c.kind, "int"):
		return w.oneOf(name+" % 3", "coalesce("+name+", 5)", "abs("+name+")", name+" + 1")
	}
	return name + " IS NULL"
}

func (w *writer) names() string {
	var names []string
	for _, c := range w.columns {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// orderBy writes an order that distinguishes all rows.
func (w *writer) orderBy(alias string) string {
	var keys []string
	for range w.IntN(4) {
		key := alias + w.scalar().name
		if w.chance(15) {
			key = w.computed(alias)
		}
		keys = append(keys, key+w.direction())
	}
	return " ORDER BY " + strings.Join(append(keys, alias+"id"+w.oneOf("", " DESC")), ", ")
}

func (w *writer) direction() string {
	return w.oneOf("", "", " DESC", " DESC", " NULLS LAST", " DESC NULLS FIRST")
}

func (w *writer) limit() string {
	text := ""
	if w.chance(60) {
		text = " LIMIT " + w.count(30)
	}
	if w.chance(40) {
		text += " OFFSET " + w.count(20)
	}
	return text
}

func (w *writer) count(below int) string {
	n := w.IntN(below)
	if w.chance(5) {
		n = oneOf(w.Rand, extremes)
	}
	if w.params && w.chance(30) {
		return w.param("count", int64(n), "")
	}
	return fmt.Sprint(n)
}

// extremes are counts at which sums overflow, or no room can be had, as wide as an int is.
var extremes = []int{0, 1, 1 << 30, 1<<31 - 1, math.MaxInt >> 22, math.MaxInt - 1, math.MaxInt}

// groups writes a query with aggregates. A key with a collation is not shown, nor the least
// of its values, as any of those that are equal may stand for them.
func (w *writer) groups() step {
	of := w.scalar()
	show := fmt.Sprintf("count(*), count(%[1]s), count(DISTINCT %[1]s)", of.name)
	if !of.collated {
		show += fmt.Sprintf(", min(%[1]s), max(%[1]s)", of.name)
	}
	if alike(of.kind, "int") && of.kind != "float" && of.kind != "float32" {
		show += fmt.Sprintf(", sum(%[1]s), avg(%[1]s)", of.name)
	}
	where := ""
	if w.chance(70) {
		where = " WHERE " + w.condition("", 2)
	}
	if w.chance(30) {
		return step{text: "SELECT " + show + " FROM {t} {hint}" + where}
	}
	keys, collated := w.keys(w.scalar)
	if w.chance(15) {
		keys, collated = []string{w.computed("")}, false
	}
	if !collated {
		show = strings.Join(keys, ", ") + ", " + show
	}
	s := step{text: "SELECT " + show + " FROM {t} {hint}" + where + " GROUP BY " +
		strings.Join(keys, ", ") + w.oneOf("", "", " HAVING count(*) > 1", " HAVING min(i8) < 3",
		" HAVING max(id) % 2 = 1 OR count(DISTINCT u) = 1")}
	if !collated && w.chance(50) {
		s.text, s.ordered = s.text+w.sorted(keys)+w.limit(), true
	}
	return s
}

// keys returns one or two different columns.
func (w *writer) keys(draw func() field) (names []string, collated bool) {
	a := draw()
	names, collated = []string{a.name}, a.collated
	if b := draw(); b.name != a.name && w.chance(40) {
		names, collated = append(names, b.name), collated || b.collated
	}
	return names, collated
}

// sorted writes the order of all of the names.
func (w *writer) sorted(names []string) string {
	var keys []string
	for _, n := range names {
		keys = append(keys, n+w.direction())
	}
	return " ORDER BY " + strings.Join(keys, ", ")
}

func (w *writer) distinct() step {
	keys, _ := w.keys(w.plain)
	s := step{text: "SELECT DISTINCT " + strings.Join(keys, ", ") + " FROM {t} {hint}"}
	if w.chance(50) {
		s.text += " WHERE " + w.condition("", 2)
	}
	if w.chance(60) {
		s.text, s.ordered = s.text+w.sorted(keys)+w.limit(), true
	}
	return s
}

// join joins the table with itself, on columns of one kind.
func (w *writer) join() step {
	c := w.scalar()
	on := "a." + c.name + " = b." + w.like(c).name
	if w.chance(30) {
		on = w.equalKeys()
	}
	if w.chance(40) {
		d := w.scalar()
		on += " AND a." + d.name + w.oneOf(" = ", " = ", " < ") + "b." + w.like(d).name
	}
	if w.chance(30) {
		on += " AND " + w.condition(w.oneOf("a.", "b."), 1)
	}
	rest := " FROM {t} a {hint} " + w.oneOf("JOIN", "LEFT JOIN", "LEFT JOIN") + " {t} b ON " + on
	if w.chance(20) {
		rest += w.oneOf(" JOIN", " LEFT JOIN") + " {t} c ON c.id = " +
			w.oneOf("a.id", "b.id", "b.i8")
		if w.chance(50) {
			rest += " AND " + w.condition(w.oneOf("b.", "c."), 1)
		}
	}
	if w.chance(70) {
		rest += " WHERE " + w.condition(w.oneOf("a.", "a.", "b."), 1)
		if w.chance(20) {
			rest += " AND " + w.pairWithin()
		}
	}
	switch w.IntN(5) {
	case 0, 1:
		return step{text: "SELECT a.id, b.id" + rest + w.orderBy("a.") + ", b.id" + w.limit(),
			ordered: true}
	case 2:
		key := w.oneOf("a.", "b.") + w.plain().name
		return step{text: fmt.Sprintf("SELECT %s, count(*), max(b.id)%s GROUP BY %[1]s", key, rest)}
	case 3:
		return step{text: "SELECT count(*), count(b.id), min(a.id), max(b.id), sum(b.id)" + rest}
	}
	return step{text: "SELECT a.id, b.id" + rest}
}

// equalKeys writes the condition of a join on the columns of the key or of an index.
func (w *writer) equalKeys() string {
	terms := []string{"TRUE"}
	for _, c := range oneOf(w.Rand, w.made).columns {
		if c.element() == "" {
			terms = append(terms, "a."+w.like(c).name+" = b."+c.name)
		}
	}
	return strings.Join(terms, " AND ")
}

// subquery writes a condition with a query in it.
func (w *writer) subquery() step {
	text := "SELECT x.id FROM {t} x {hint} WHERE " + w.within("x.")
	if w.chance(60) {
		text += " AND " + w.condition("x.", 1)
	}
	return step{text: text}
}

// within writes a condition over columns of alias with a query of the rows y in it.
func (w *writer) within(alias string) string {
	c, d := w.scalar(), w.scalar()
	not := w.oneOf("", "", "NOT ")
	where := w.condition("y.", 1)
	from := " FROM {t} y WHERE " + where
	switch w.IntN(10) {
	case 7, 8:
		return w.applied(alias)
	case 0:
		return fmt.Sprintf("(%s%s, %s%s) %sIN (SELECT y.%s, y.%s%s)", alias, c.name, alias, d.name,
			not, w.like(c).name, w.like(d).name, from)
	case 1:
		return fmt.Sprintf("%s%s %sIN (SELECT y.%s%s AND y.%s = %s%s)", alias, c.name, not,
			w.like(c).name, from, w.like(d).name, alias, d.name)
	case 2, 3:
		return fmt.Sprintf("%sEXISTS (SELECT 1%s AND y.%s %s %s%s)", not, from, w.like(c).name,
			w.oneOf("=", "=", "<"), alias, c.name)
	case 4:
		p := w.plain()
		return fmt.Sprintf("%s%s %s (SELECT %s(y.%s)%s)", alias, p.name, w.comparison(),
			w.oneOf("min", "max"), p.name, from)
	}
	return fmt.Sprintf("%s%s %sIN (SELECT y.%s%s)", alias, c.name, not, w.like(c).name, from)
}

// applied writes a condition with a query that is run for each row: it is not a term of an AND, is
// compared, or has a query in it that uses the row that is two queries out.
func (w *writer) applied(alias string) string {
	c, d, p := w.scalar(), w.scalar(), w.plain()
	same := fmt.Sprintf("y.%s %s %s%s", w.like(d).name, w.oneOf("=", "=", "<="), alias, d.name)
	from := " FROM {t} y WHERE " + same + " AND " + w.condition("y.", 1)
	exists := w.oneOf("", "NOT ") + "EXISTS (SELECT 1" + from + ")"
	switch w.IntN(6) {
	case 0:
		return "(" + w.condition(alias, 1) + " OR " + exists + ")"
	case 1:
		return fmt.Sprintf("(%s OR %s%s %sIN (SELECT y.%s%s))", w.condition(alias, 1), alias,
			c.name, w.oneOf("", "NOT "), w.like(c).name, from)
	case 2:
		return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", w.condition(alias, 1), exists,
			w.condition(alias, 0))
	case 3:
		return fmt.Sprintf("%sid %s (SELECT y.id%s ORDER BY y.id%s LIMIT 1)", alias,
			w.comparison(), from, w.oneOf("", " DESC"))
	case 4:
		return fmt.Sprintf("(SELECT count(*)%s AND EXISTS (SELECT 1 FROM {t} z WHERE "+
			"z.%s = y.%[2]s AND z.id %s %sid)) %[5]s", from, w.plain().name, w.oneOf("<", ">="),
			alias, w.oneOf("= 0", "> 1", "% 2 = 1"))
	}
	return fmt.Sprintf("%s%s %s (SELECT %s(y.%s)%s)", alias, p.name, w.comparison(),
		w.oneOf("min", "max"), p.name, from)
}

// pairWithin writes a condition over columns of two tables with a query in it.
func (w *writer) pairWithin() string {
	c, d := w.scalar(), w.scalar()
	return fmt.Sprintf("(a.%s, b.%s) %sIN (SELECT y.%s, y.%s FROM {t} y WHERE y.id %% 3 = 1)",
		c.name, d.name, w.oneOf("", "", "NOT "), w.like(c).name, w.like(d).name)
}

// point asks for values of all columns of a key, so that points are read.
func (w *writer) point() step {
	columns := []field{{name: "id", kind: "id"}}
	if w.chance(30) {
		columns[0] = w.column()
	}
	for range w.IntN(3) {
		columns = append(columns, w.column())
	}
	var terms []string
	for _, c := range columns {
		switch e := c.element(); {
		case c.name == "id":
			terms = append(terms, "id = "+w.literal("id", fmt.Sprint(1+w.Int64N(w.ids+1))))
		case e != "":
			terms = append(terms, c.name+" CONTAINS "+w.literal(e, oneOf(w.Rand, stored[e])))
		case w.chance(20):
			terms = append(terms, c.name+" IN ("+w.operand(c.kind)+", "+w.operand(c.kind)+")")
		default:
			terms = append(terms, c.name+" = "+w.operand(c.kind))
		}
	}
	where := strings.Join(terms, " AND ")
	return step{text: "SELECT id FROM {t} {hint} WHERE " + where, where: where,
		whereArgs: len(w.args)}
}
