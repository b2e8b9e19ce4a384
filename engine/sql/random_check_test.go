package sql_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// check is a question that is asked in two ways. In its texts {p} and {q} stand for conditions,
// {t} for the table, {hint} for the place of a hint.
type check struct {
	name string
	p, q string
	// before is a statement that comes first, which may be refused.
	before string
	// left are queries that planners like, asked with hints; right is one that leaves them little
	// to choose. What becomes of the rows of right is in keep and page.
	left  []side
	right string
	// ordered compares the rows in their order.
	ordered       bool
	limit, offset int // of the left queries, limit -1 if there is none
	// pivots are the rows that left returns, in the order of the tables of the query; then
	// there is no right. pivot draws the rows.
	pivots []string
	pivot  [2]int64
	// set is what UPDATE sets apart from m, empty or beginning with a comma. Then the rows that
	// SELECT, UPDATE and DELETE touch are compared.
	set       string
	commit    bool   // UPDATE is run outside of a transaction, too
	returning string // of UPDATE and DELETE, empty for none; left returns it, too

	choice uint64 // of hints
	single bool   // right is asked with one processor
	// only, if not nil, is the hint that has shown a difference.
	only *string
}

// side is a query whose rows are those of right whose first column, a condition, is keep: TRUE,
// FALSE or NULL. Empty is every row, and right has no such column.
type side struct{ text, keep string }

// String renders what is asked.
func (c *check) String() string {
	text := c.name + ":"
	if c.before != "" {
		text += "\n    " + c.filled(c.before)
	}
	for _, l := range c.left {
		text += "\n    " + c.filled(l.text)
	}
	if c.right != "" {
		text += "\n    " + c.filled(c.right)
	}
	return text
}

// filled puts the conditions into a query.
func (c *check) filled(text string) string {
	return strings.NewReplacer("{p}", c.p, "{q}", c.q).Replace(text)
}

// newOracles writes a program of a small table, to be read by checks.
func newOracles(seed uint64, checks int) *program {
	rng := rand.New(rand.NewPCG(seed, 9))
	w := &writer{Rand: rng, ttl: rng.IntN(10) < 3, unique: rng.IntN(10) < 6, now: beginning,
		few: true}
	w.columns = []field{{name: "id", kind: "id", ddl: "INT"}}
	more := renamed(rng, slices.Concat(keyColumns, otherColumns))
	rng.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
	for _, c := range more {
		always := slices.Contains([]string{"no", "i8", "u", "k7"}, c.name) ||
			c.name == "at" && w.ttl
		if always || rng.IntN(100) < 22 || c.name == "tags" && rng.IntN(3) == 0 {
			w.columns = append(w.columns, c)
		}
	}
	w.created = len(w.columns)
	p := &program{seed: seed, settings: w.settings(), oracles: true}
	w.retain = p.retain
	for _, c := range w.columns {
		p.columns = append(p.columns, c.name+" "+c.ddl)
	}
	p.columns = append(p.columns, "m INT DEFAULT 0")
	p.key, p.check = w.key(), w.tableCheck()
	if w.ttl {
		p.ttl = ", TTL (at + '24h')"
	}
	w.asks = w.check
	w.prepare(p)
	if w.large = w.chance(20); w.large {
		checks /= 2
		w.grow(p)
	}
	for i := range checks {
		if i%50 == 49 {
			w.between(p)
			p.steps = append(p.steps, w.insert(6), w.change(), w.upkeep())
		}
		p.steps = append(p.steps, w.ask(false))
	}
	p.steps = append(p.steps, step{do: doVerify})
	return p
}

// grow makes a table large enough for plans that small ones are not worth.
func (w *writer) grow(p *program) {
	for range 3 + w.IntN(3) {
		var names, values []string
		for _, c := range w.columns {
			names, values = append(names, c.name), append(values, c.name)
			if c.kind == "id" {
				values[len(values)-1] += fmt.Sprint(" + ", w.ids)
			}
		}
		w.ids *= 2
		p.steps = append(p.steps, step{do: doChange, text: fmt.Sprintf(
			"INSERT OR IGNORE INTO {t} (%s) SELECT %s FROM {t}", strings.Join(names, ", "),
			strings.Join(values, ", "))})
	}
	if w.chance(70) {
		p.steps = append(p.steps, step{do: doAnalyze, text: "ANALYZE"})
	}
}

// check writes a check that changes nothing, for transactions and snapshots.
func (w *writer) check() step { return w.ask(true) }

// ask writes a check, or one with other values for its parameters.
func (w *writer) ask(reading bool) step {
	if len(w.asked) > 0 && w.chance(50) { // texts that are known need no parser
		s := w.again(oneOf(w.Rand, w.asked))
		if !reading || s.check.right != "" && s.check.before == "" {
			return s
		}
	}
	w.begin(w.chance(50))
	var c *check
	most := 23
	if w.reading = reading; reading {
		most = 18
	}
	n := w.IntN(most)
	if w.large && (n == 6 || n == 7 || n == 14 || n == 20) { // of joins there is too much
		n = 13
	}
	switch n {
	case 0, 1, 2, 3:
		c = w.selected()
	case 4, 5:
		c = w.inOrder()
	case 6, 7:
		c = w.joined()
	case 8:
		c = w.summed()
	case 9, 10:
		c = w.distinctParts()
	case 11:
		c = w.having()
	case 12:
		c = w.setOperation()
	case 13:
		c = w.existing()
	case 14:
		c = w.leftJoined()
	case 15:
		c = w.identical()
	case 16:
		c = w.concatenated()
	case 17:
		c = w.divided()
	case 18, 19:
		c = w.pivoted()
	case 20:
		c = w.pivotedJoin()
	default:
		c = w.touched()
	}
	if c.limit == 0 && !c.ordered {
		c.limit = -1
	}
	c.choice = w.Uint64()
	s := step{do: doCheck, check: c, args: w.args, kinds: w.kinds, texts: w.texts}
	if len(s.args) > 0 && len(w.asked) < 100 {
		w.asked = append(w.asked, s)
	}
	return s
}

// predicate writes a condition of any form over one table.
func (w *writer) predicate(alias string) string {
	switch n := w.IntN(20); {
	case n >= 17 && len(w.partial) > 0:
		return w.nearPartial(alias)
	case n >= 12 && len(w.made) > 0:
		return w.nearIndex(alias)
	case n < 2 && alias == "":
		return w.point().where
	case n < 4 && alias != "":
		c := w.scalar()
		return fmt.Sprintf("%s%s %sIN (SELECT y.%s FROM {t} y WHERE %s)", alias, c.name,
			w.oneOf("", "NOT "), w.like(c).name, w.condition("y.", 1))
	}
	return w.condition(alias, w.IntN(4))
}

// nearIndex writes a condition on the first columns of an index.
func (w *writer) nearIndex(alias string) string {
	x := oneOf(w.Rand, w.made)
	for range w.IntN(8) { // a unique one of some rows, if there is one
		if !x.unique || x.where == "" {
			x = oneOf(w.Rand, w.made)
		}
	}
	var terms []string
	columns, point := x.columns[:1+w.IntN(len(x.columns))], w.chance(60)
	if point {
		columns = x.columns
	}
	for _, c := range columns {
		text := alias + c.name + " " + w.comparison() + " " + w.operand(c.kind)
		if point {
			text = alias + c.name + " = " + w.operand(c.kind)
		}
		if e := c.element(); e != "" {
			contains := "(" + alias + c.name + " CONTAINS "
			text = contains + oneOf(w.Rand, stored[e]) + " OR " + contains[1:] +
				oneOf(w.Rand, stored[e]) + ")"
		}
		terms = append(terms, text)
	}
	if x.where != "" && alias == "" && w.chance(70) {
		terms = append(terms, "("+x.where+")")
	}
	return strings.Join(terms, " AND ")
}

// nearPartial writes a condition on a column that the condition of a partial index is about.
func (w *writer) nearPartial(alias string) string {
	where := oneOf(w.Rand, w.partial)
	i := slices.IndexFunc(w.columns, func(c field) bool {
		return strings.Contains(where, c.name+" ")
	})
	if i < 0 {
		return w.condition(alias, 1)
	}
	c := w.columns[i]
	text := alias + c.name + " IS " + w.oneOf("", "", "NOT ") + "NULL"
	if c.element() == "" && w.chance(40) {
		text = alias + c.name + " " + w.comparison() + " " + w.operand(c.kind)
	}
	if w.chance(50) {
		text = "(" + text + " AND " + w.condition(alias, 1) + ")"
	}
	return text
}

// shown writes columns of a result apart from id.
func (w *writer) shown(alias string) string {
	text := ""
	for range w.IntN(4) - 1 {
		text += ", " + alias + w.column().name
	}
	return text
}

// selected compares WHERE, with all three outcomes of a condition, with the condition as a column:
// NoREC, and TLP of WHERE.
func (w *writer) selected() *check {
	columns, from := "id"+w.shown(""), "{t} {hint}"
	with, q := "", ""
	switch w.IntN(20) {
	case 0:
		from = "(SELECT * FROM {t} {hint}) z"
	case 1:
		with, from = "WITH z AS (SELECT * FROM {t} {hint}) ", "z"
	case 2:
		from = "v"
	case 3:
		from = "vv z"
	case 4: // conditions are pushed into both
		q = w.condition("", 1)
		from = "(SELECT * FROM {t} {hint} WHERE {q} UNION ALL " +
			"SELECT * FROM {t} WHERE ({q}) IS NOT TRUE) z"
	case 5: // and not through this
		from = "(SELECT * FROM {t} {hint} LIMIT 1000000) z"
	case 6:
		from = "(SELECT z.* FROM {t} z FULL JOIN {t} y ON z.id = y.id) z"
	case 7, 8:
		if !w.reading {
			return w.viewed(columns)
		}
	}
	text := with + "SELECT " + w.oneOf("", "", "", "DISTINCT ") + columns + " FROM " + from +
		" WHERE "
	if w.chance(8) {
		columns = "count(*), min(id)"
		text = "SELECT count(*), min(id) FROM " + from + " WHERE "
		return &check{name: "selected, counted", p: w.predicate(""), q: q,
			left: []side{{with + text + "{p}", ""}},
			right: "SELECT count(id), min(id) FROM (SELECT id, ({p}) AS x " +
				"FROM {t} NOT INDEXED) y WHERE coalesce(x, FALSE)"}
	}
	return &check{name: "selected", p: w.predicate(""), q: q, right: "SELECT ({p}), " + columns +
		" FROM {t} NOT INDEXED", left: []side{{text + "{p}", "TRUE"},
		{text + "NOT ({p})", "FALSE"}, {text + "({p}) IS " + w.oneOf("NULL", "UNKNOWN"), "NULL"}}}
}

// viewed compares a view, whose text the catalogue keeps, with its condition.
func (w *writer) viewed(columns string) *check {
	params := w.params
	w.params = false
	c := &check{name: "viewed", q: w.condition("", 2)}
	switch {
	case w.chance(25):
		c.q = w.within("z.")
	case w.chance(25):
		of := w.scalar()
		c.q = w.identity(of, "z."+of.name)
	}
	w.params = params
	c.p = w.predicate("")
	c.before = "CREATE OR REPLACE VIEW w AS " + w.oneOf("SELECT * FROM t z WHERE {q}",
		"WITH z AS (SELECT * FROM v) SELECT * FROM z WHERE {q}",
		"SELECT * FROM (SELECT * FROM t) AS z WHERE {q} UNION ALL SELECT * FROM t WHERE FALSE")
	c.before = strings.ReplaceAll(c.before, "{t}", "t")
	c.left = []side{{"SELECT " + columns + " FROM w WHERE {p}", "TRUE"}}
	c.right = "SELECT CASE WHEN {q} THEN ({p}) END, " + columns + " FROM {t} z NOT INDEXED"
	return c
}

// identity writes a condition that is true for each value of a column that is not NULL; name is its
// name, with the alias of its table.
func (w *writer) identity(c field, name string) string {
	alias, _, _ := strings.Cut(name, ".")
	row := fmt.Sprintf(" FROM {t} u WHERE u.id = %s.id", alias)
	switch n := w.IntN(14); {
	case n < 6 && c.kind == "text":
		return strings.ReplaceAll(w.oneOf("substr(#, 1, 1) || substr(#, 2) = #",
			"reverse(reverse(#)) = #", "replace(#, 'a', 'a') = #", "left(#, 2) || substr(#, 3) = #",
			"trim(concat(# || '!'), '!') = trim(#, '!')", "octet_length(#) >= length(#)",
			"lower(lower(#)) = lower(#)", "casefold(#) = casefold(casefold(#))",
			"lpad(#, length(#), 'x') = #", "concat_ws('|', #, NULL) = #", "# LIKE '%'",
			"octet_length(hex(#)) = 2 * octet_length(#)"), "#", name)
	case n < 8 && c.kind != "bytes":
		return fmt.Sprintf("CAST(CAST(%s AS TEXT) AS %s) = %[1]s", name, c.ddlType())
	case n < 10:
		return strings.ReplaceAll(w.oneOf("# BETWEEN # AND #", "NOT (# < #)", "# IN (#)",
			"coalesce(NULL, #) = #", "CASE WHEN # >= # THEN # END = #", "(#, 1) = (#, 1)",
			"nullif(#, #) IS NULL AND # = #", "greatest(#, #) = least(#, #)"), "#", name)
	case n == 10:
		return "(SELECT " + w.oneOf("max", "min", "any_value") + "(u." + c.name + ")" + row +
			") = " + name
	case n == 11:
		return name + " IN (SELECT u." + c.name + row + ")"
	case n == 12:
		return "EXISTS (SELECT 1" + row + " AND u." + c.name + " = " + name + ")"
	}
	return name + " = (SELECT u." + c.name + row + ")"
}

// identical compares a condition that is true for all values of a column with these.
func (w *writer) identical() *check {
	c := w.scalar()
	keep := c.name + " IS NOT NULL"
	return &check{name: "identical", p: w.identity(c, "x."+c.name), right: "SELECT (" + keep +
		"), id FROM {t} NOT INDEXED",
		left: []side{{"SELECT x.id FROM {t} x {hint} WHERE {p}", "TRUE"}}}
}

// inOrder is selected with ORDER BY and LIMIT.
func (w *writer) inOrder() *check {
	c := &check{name: "in order", p: w.predicate(""), ordered: true, limit: -1}
	columns, order := "id"+w.shown(""), w.orderBy("")
	if len(w.made) > 0 && w.chance(50) { // as an index has it, or nearly
		order = " ORDER BY "
		for _, c := range oneOf(w.Rand, w.made).columns {
			if c.element() == "" {
				order += c.name + w.oneOf("", "", " DESC") + ", "
			}
		}
		order += "id"
	}
	text := "SELECT " + columns + " FROM {t} {hint} WHERE {p}" + order
	if w.chance(70) {
		c.limit = w.IntN(12)
		if w.chance(10) {
			c.limit = oneOf(w.Rand, extremes)
		}
		text += fmt.Sprint(" LIMIT ", c.limit)
		if w.chance(30) {
			c.offset = w.IntN(8)
			if w.chance(10) {
				c.offset = oneOf(w.Rand, extremes)
			}
			text += fmt.Sprint(" OFFSET ", c.offset)
		}
	}
	if of := w.computed(""); w.chance(15) { // a column of the result is found by its name
		columns += ", " + of + " AS U"
		text = strings.Replace(text, " FROM", ", "+of+" AS U FROM", 1)
		text = strings.Replace(text, "ORDER BY ", "ORDER BY u, ", 1)
		order = strings.Replace(order, "ORDER BY ", "ORDER BY "+of+", ", 1)
	}
	c.left = []side{{text, "TRUE"}}
	c.right = "SELECT ({p}), " + columns + " FROM {t} NOT INDEXED" +
		strings.Replace(order, "ORDER BY ", "ORDER BY ({p}) DESC, ", 1)
	return c
}

// on writes the condition of a join.
func (w *writer) on() string {
	c := w.scalar()
	if w.chance(30) {
		c = w.columns[0]
	}
	text := "a." + c.name + " = b." + w.like(c).name
	if w.chance(30) {
		text = w.equalKeys()
	}
	switch w.IntN(6) {
	case 0:
		d := w.scalar()
		text += " AND a." + d.name + w.oneOf(" = ", " < ", " >= ") + "b." + w.like(d).name
	case 1, 2:
		text += " AND " + w.condition(w.oneOf("a.", "b."), 1)
	}
	return text
}

// joined compares a condition on the rows of a join with the condition as a column, or the
// partitions of the condition with all rows.
func (w *writer) joined() *check {
	join := w.oneOf("JOIN", "LEFT JOIN", "LEFT JOIN", "FULL JOIN")
	from := "{t} a {hint} " + join + " {t} b " + w.oneOf("", "", "{hint} ") + "ON {q}"
	if w.chance(15) {
		from += w.oneOf(" JOIN", " LEFT JOIN", " FULL JOIN") + " {t} c ON c.id = " +
			w.oneOf("b.i8", "a.u", "b.id")
	}
	p := w.condition(w.oneOf("a.", "b.", "b."), w.IntN(2))
	if w.chance(40) {
		p = "(" + p + w.oneOf(" AND ", " OR ") + w.condition(w.oneOf("a.", "b."), 1) + ")"
	}
	c := &check{name: "joined", p: p, q: w.on()}
	text := "SELECT a.id, b.id FROM " + from
	plain := strings.ReplaceAll(from, " {hint}", "")
	if w.chance(30) {
		c.left = []side{{text, ""}}
		text = strings.ReplaceAll(text, " {hint}", "")
		c.right = text + " WHERE {p} UNION ALL " + text + " WHERE NOT ({p}) UNION ALL " + text +
			" WHERE ({p}) IS NULL"
		return c
	}
	c.left = []side{{text + " WHERE {p}", "TRUE"}}
	if w.chance(30) {
		c.left = append(c.left, side{text + " WHERE NOT ({p})", "FALSE"},
			side{text + " WHERE ({p}) IS NULL", "NULL"})
	}
	c.right = "SELECT ({p}), a.id, b.id FROM " + plain
	return c
}

// leftJoined compares a join with the pairs of the product, and those that have no partner.
func (w *writer) leftJoined() *check {
	const pairs = " FROM {t} a NOT INDEXED CROSS JOIN {t} b WHERE CASE WHEN {q} THEN TRUE ELSE " +
		"FALSE END"
	c := &check{name: "left joined", q: w.on()}
	c.left = []side{{"SELECT a.id, b.id FROM {t} a {hint} LEFT JOIN {t} b ON {q}", ""}}
	c.right = "SELECT a.id, b.id" + pairs + " UNION ALL SELECT x.id, NULL FROM {t} x NOT INDEXED " +
		"WHERE x.id NOT IN (SELECT a.id" + pairs + ")"
	if w.chance(50) {
		c.name, c.left[0].text = "full joined", strings.Replace(c.left[0].text, "LEFT", "FULL", 1)
		c.right += " UNION ALL SELECT NULL, x.id FROM {t} x NOT INDEXED WHERE x.id NOT IN " +
			"(SELECT b.id" + pairs + ")"
	}
	return c
}

// base writes a condition for all parts, or none.
func (w *writer) base(c *check) string {
	if w.chance(50) {
		return "TRUE"
	}
	c.q = w.condition("", 1)
	return "{q}"
}

// parts writes the UNION of a query with the three outcomes of {p}; text has %s in their place.
func parts(text, union string) string {
	return fmt.Sprintf(text, "{p}") + union + fmt.Sprintf(text, "NOT ({p})") + union +
		fmt.Sprintf(text, "({p}) IS NULL")
}

// summed compares aggregates with those of the partitions: TLP of aggregates.
func (w *writer) summed() *check {
	c := &check{name: "summed", p: w.predicate("")}
	base := w.base(c)
	if w.chance(40) {
		return w.filtered(c, base)
	}
	inner, outer, whole := "count(*) AS n", "sum(n)", "count(*)"
	for i := range 1 + w.IntN(3) {
		of := w.plain()
		f, g := "min", "min"
		switch n := w.IntN(4); {
		case n == 0:
			f, g = "max", "max"
		case n == 1:
			f, g = "count", "sum"
		case n == 2 && alike(of.kind, "int") && of.kind != "float" && of.kind != "float32":
			f, g = "sum", "sum"
		}
		whole += fmt.Sprintf(", %s(%s)", f, of.name)
		inner += fmt.Sprintf(", %s(%s) AS x%d", f, of.name, i)
		outer += fmt.Sprintf(", %s(x%d)", g, i)
	}
	c.left = []side{{"SELECT " + whole + " FROM {t} {hint} WHERE " + base, ""}}
	c.right = "SELECT " + outer + " FROM (" + parts("SELECT "+inner+" FROM {t} WHERE "+base+
		" AND %s", " UNION ALL ") + ") z"
	return c
}

// filtered compares aggregates of some rows with those of a query of these rows.
func (w *writer) filtered(c *check, base string) *check {
	c.name = "filtered"
	some, whole := "count(*) FILTER (WHERE {p})", "count(*)"
	for range 1 + w.IntN(3) {
		of := w.scalar()
		f := w.oneOf("min", "max") + "(" + of.name + ")"
		filtered := f + " FILTER (WHERE {p})"
		if w.chance(20) {
			f = "count(DISTINCT " + of.name + ")"
			filtered = f + " FILTER (WHERE {p})"
		} else {
			f, filtered = of.folded(f), of.folded(filtered)
		}
		some, whole = some+", "+filtered, whole+", "+f
	}
	c.left = []side{{"SELECT " + some + " FROM {t} {hint} WHERE " + base, ""}}
	c.right = "SELECT " + whole + " FROM {t} NOT INDEXED WHERE " + base + " AND ({p})"
	return c
}

// divided asks for what depends on the order in which rows are read, with several processors and
// with one. That order is one and the same only where all rows are read as they lie.
func (w *writer) divided() *check {
	c := &check{name: "divided", p: w.predicate(""), single: true, only: new(string)}
	text := "SELECT any_value(" + w.plain().name + ")"
	for range 1 + w.IntN(3) {
		of := w.scalar().name
		text += ", " + w.oneOf("min("+of+")", "max("+of+")", "any_value("+of+")",
			"group_concat(id)") + w.oneOf("", " FILTER (WHERE {p})")
	}
	text += " FROM {t} NOT INDEXED" + w.oneOf("", "", " GROUP BY id % 3")
	c.left, c.right = []side{{text, ""}}, text
	return c
}

// concatenated counts the texts of group_concat.
func (w *writer) concatenated() *check {
	c := &check{name: "concatenated"}
	base := w.base(c)
	of := w.scalar()
	for of.kind == "bytes" {
		of = w.scalar()
	}
	key, distinct := w.plain().name, w.oneOf("", "DISTINCT ")
	text := of.name + " || ''"
	if of.kind == "text" && w.chance(70) {
		text = of.name
	} else {
		distinct = "" // 0 and -0 are one value and two texts
	}
	c.left = []side{{fmt.Sprintf("SELECT k, length(g) - length(replace(g, '|', '')) + 1 FROM "+
		"(SELECT %s AS k, group_concat(%s%s, '|'%s) AS g FROM {t} {hint} WHERE %s "+
		"GROUP BY %[1]s) z", key, distinct, text, w.oneOf("", " ORDER BY "+of.name), base), ""}}
	c.right = fmt.Sprintf("SELECT %s, nullif(count(%s%s), 0) FROM {t} NOT INDEXED WHERE %s "+
		"GROUP BY %[1]s", key, distinct, of.name, base)
	return c
}

// distinctParts compares DISTINCT and GROUP BY with the union of the partitions: TLP of DISTINCT.
func (w *writer) distinctParts() *check {
	c := &check{name: "distinct", p: w.predicate("")}
	base := w.base(c)
	keys, _ := w.keys(w.plain)
	list := strings.Join(keys, ", ")
	text := "SELECT DISTINCT " + list + " FROM {t} {hint} WHERE " + base
	part := "SELECT " + w.oneOf("", "DISTINCT ") + list + " FROM {t} WHERE " + base + " AND %s"
	if w.chance(40) {
		text = "SELECT " + list + " FROM {t} {hint} WHERE " + base + " GROUP BY " + list
	}
	c.left, c.right = []side{{text, ""}}, parts(part, " UNION ")
	return c
}

// having compares groups with the partitions of a condition on groups: TLP of HAVING.
func (w *writer) having() *check {
	of := w.plain()
	c := &check{name: "having"}
	base := w.base(c)
	keys, _ := w.keys(w.plain)
	list := strings.Join(keys, ", ")
	c.p = w.oneOf("count(*) > 1", "count("+of.name+") < 2", "max("+of.name+") "+w.comparison()+" "+
		w.operand(of.kind), "min("+of.name+") IN ("+w.operand(of.kind)+", "+w.operand(of.kind)+")",
		"count(DISTINCT "+of.name+") = 1 OR min("+of.name+") IS NULL")
	text := "SELECT " + list + ", count(*), max(id) FROM {t} {hint} WHERE " + base +
		" GROUP BY " + list
	c.left = []side{{text, ""}}
	c.right = parts(strings.ReplaceAll(text, " {hint}", "")+" HAVING %s", " UNION ALL ")
	return c
}

// setOperation compares operations on sets of rows with conditions as columns.
func (w *writer) setOperation() *check {
	c := &check{name: "set operation", p: w.predicate(""), q: w.condition("", 1)}
	op, keep := "UNION", "({p}) OR ({q})"
	switch w.IntN(3) {
	case 0:
		op, keep = "INTERSECT", "({p}) AND ({q})"
	case 1:
		op, keep = "EXCEPT", "({p}) AND ({q}) IS NOT TRUE"
	}
	columns := "id" + w.shown("")
	part := "SELECT " + columns + " FROM {t} {hint} WHERE "
	c.left = []side{{part + "{p} " + op + " " + part + "{q}", "TRUE"}}
	c.right = "SELECT " + keep + ", " + columns + " FROM {t} NOT INDEXED"
	return c
}

// existing compares EXISTS and IN of a query with IN as a column.
func (w *writer) existing() *check {
	c := &check{name: "existing", p: w.condition("x.", 1), q: w.condition("y.", 1)}
	of := w.scalar()
	if len(w.made) > 0 && w.chance(50) {
		if first := oneOf(w.Rand, w.made).columns[0]; first.element() == "" {
			of = first
		}
	}
	with := w.like(of)
	within := fmt.Sprintf("x.%s IN (SELECT y.%s FROM {t} y WHERE {q})", of.name, with.name)
	keep := "({p}) AND " + within
	text := "SELECT x.id FROM {t} x {hint} WHERE {p} AND "
	exists := fmt.Sprintf("EXISTS (SELECT 1 FROM {t} y WHERE {q} AND y.%s = x.%s)", with.name,
		of.name)
	columns := "x.id"
	n := w.IntN(6)
	if n > 3 { // the same subquery twice: one place knows more of its operand
		columns += strings.Replace(", "+within, of.name, w.like(of).name, 1)
		text = strings.Replace(text, "x.id", columns, 1)
		c.p = "x." + of.name + " " + w.comparison() + " " + w.operand(of.kind)
		if w.chance(60) {
			c.q = fmt.Sprint("y.id ", w.oneOf("< ", "> "), 1+w.Int64N(w.ids))
		}
	}
	switch n {
	case 0:
		text += exists
	case 1:
		text, keep = text+"NOT "+exists, "({p}) AND ("+within+") IS NOT TRUE"
	case 2:
		text, keep = text+"NOT "+within, "({p}) AND NOT ("+within+")"
	default:
		text += within
	}
	c.left = []side{{text, "TRUE"}}
	c.right = "SELECT " + keep + ", " + columns + " FROM {t} x NOT INDEXED"
	return c
}

// pivoted asks for a row with a condition that is true for it: PQS. The condition is computed on
// a table that has this row only.
func (w *writer) pivoted() *check {
	c := &check{name: "pivot", p: w.predicate("x."), pivots: []string{"x"}}
	c.pivot[0] = w.Int64N(6)
	text := "SELECT " + w.oneOf("", "", "DISTINCT ") + "x.id FROM {t} x {hint}"
	if w.chance(25) {
		of := w.plain()
		text += fmt.Sprintf(" JOIN p1 ON x.%s IS NOT DISTINCT FROM p1.%[1]s", of.name)
		if !of.null {
			text = strings.Replace(text, "IS NOT DISTINCT FROM", "=", 1)
		}
	}
	text += " WHERE {p}" + w.oneOf("", "", w.orderBy("x."), " GROUP BY x.id")
	if strings.Contains(text, "DISTINCT x") || strings.Contains(text, "GROUP") {
		text, _, _ = strings.Cut(text, " ORDER BY ")
	}
	c.left = []side{{text, ""}}
	return c
}

// pivotedJoin is pivoted with a pair of rows.
func (w *writer) pivotedJoin() *check {
	c := &check{name: "pivots", p: w.condition("a.", 1), pivots: []string{"a", "b"},
		q: w.condition("b.", 1)}
	c.pivot = [2]int64{w.Int64N(6), w.Int64N(6)}
	if w.chance(60) {
		of := w.scalar()
		c.q = "a." + of.name + " " + w.comparison() + " b." + w.like(of).name
	}
	c.left = []side{{"SELECT a.id, b.id FROM {t} a {hint} " + w.oneOf("JOIN", "LEFT JOIN") +
		" {t} b ON {q} WHERE {p}" + w.oneOf("", "", w.orderBy("a.")+", b.id"), ""}}
	return c
}

// touched compares the rows that SELECT, UPDATE and DELETE touch: DQE.
func (w *writer) touched() *check {
	c := &check{name: "touched", p: w.condition("", w.IntN(3)), commit: w.chance(25), set: " "}
	if w.chance(15) {
		c.p = w.within("{t}.")
	}
	d := w.column() // a row that expires is not seen any more
	if d.name != "id" && (d.name != "at" || !w.ttl) && w.chance(60) && !c.commit {
		c.set = ", " + d.name + " = " + w.assigned(d)
	}
	if w.chance(30) {
		c.returning = "id"
		if c.set == " " {
			c.returning += ", " + w.plain().name
		}
	}
	if c.set == " " && w.chance(40) { // what it counts is the same before and after
		a := w.scalar()
		for range 4 {
			if a.kind != "text" {
				a = w.scalar()
			}
		}
		const equal = "(SELECT count(*) FROM {t} y WHERE y.%s = {t}.%s)"
		c.returning = fmt.Sprintf("id, "+equal+", "+equal, a.name, w.like(a).name, a.name,
			w.like(a).name)
	}
	c.left = []side{{"SELECT " + cmp.Or(c.returning, "id") + " FROM {t} WHERE {p}", ""}}
	return c
}
