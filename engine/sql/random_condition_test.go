package sql_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// writer writes random statements. It knows the columns, not what is in the tables.
type writer struct {
	*rand.Rand
	columns []field
	ttl     bool
	unique  bool      // there may be unique indexes
	now     time.Time // of the database's clock

	params bool // some literals become parameters
	args   []any
	kinds  []kind   // of args
	texts  []string // of args

	created int   // columns that CREATE TABLE has
	ids     int64 // how many there are
	moves   int64 // statements that change ids
	single  bool  // id alone is the primary key
	indexes []string
	named   int    // indexes so far
	asked   []step // queries to be asked again

	partial []string // conditions of partial indexes
	made    []*index // the key, and indexes so far, those that were refused or dropped, too

	few     bool          // tables are small
	large   bool          // tables are large
	reading bool          // what is asked next changes nothing
	retain  time.Duration // of old versions
	asks    func() step   // writes what is asked between changes
}

func (w *writer) chance(percent int) bool      { return w.IntN(100) < percent }
func (w *writer) oneOf(texts ...string) string { return oneOf(w.Rand, texts) }

// begin starts a statement; end returns its arguments and their kinds.
func (w *writer) begin(params bool) {
	w.params, w.args, w.kinds, w.texts = params, nil, nil, nil
}

// column returns one of the columns; scalar one that is no list.
func (w *writer) column() field { return oneOf(w.Rand, w.columns) }

func (w *writer) scalar() field {
	for {
		if c := w.column(); c.element() == "" {
			return c
		}
	}
}

// plain returns a scalar column without a collation: what equal values look like is certain.
func (w *writer) plain() field {
	for {
		if c := w.scalar(); !c.collated {
			return c
		}
	}
}

// like returns a column that may be compared with c.
func (w *writer) like(c field) field {
	if w.chance(40) {
		return c
	}
	var same []field
	for _, d := range w.columns {
		if alike(c.kind, d.kind) {
			same = append(same, d)
		}
	}
	return oneOf(w.Rand, same)
}

// literal writes a value, or a parameter for it.
func (w *writer) literal(k kind, text string) string {
	if !w.params || w.chance(50) {
		return text
	}
	v, ok := argument(text)
	if !ok {
		return text
	}
	return w.param(k, v, text)
}

func (w *writer) param(k kind, v any, text string) string {
	w.args, w.kinds, w.texts = append(w.args, v), append(w.kinds, k), append(w.texts, text)
	return fmt.Sprint("?", len(w.args))
}

// operand writes what a column of the kind is compared with.
func (w *writer) operand(k kind) string { return w.literal(k, w.operandText(k)) }

func (w *writer) operandText(k kind) string {
	if w.chance(5) {
		return "NULL"
	}
	if k == "id" {
		if w.chance(60) {
			return fmt.Sprint(1 + w.Int64N(w.ids+1))
		}
		k = "int"
	}
	if more := beside[k]; len(more) > 0 && w.chance(35) {
		return oneOf(w.Rand, more)
	}
	if k == "time" && w.ttl && w.chance(50) {
		return w.soon()
	}
	return oneOf(w.Rand, stored[k])
}

// soon is a time near that of the clock, whose row does not expire before an hour is over.
func (w *writer) soon() string {
	at := w.now.Add(time.Duration(w.IntN(90)-22) * time.Hour)
	return "TIMESTAMP '" + at.Format(time.RFC3339) + "'"
}

func (w *writer) comparison() string { return w.oneOf("=", "=", "=", "<>", "<", "<=", ">", ">=") }

// condition writes one over the columns of a table; alias is empty or ends in a point.
func (w *writer) condition(alias string, depth int) string {
	if depth > 0 && w.chance(60) {
		a, b := w.condition(alias, depth-1), w.condition(alias, depth-1)
		switch w.IntN(7) {
		case 6:
			return "CASE WHEN " + a + " THEN " + b + " ELSE " + w.atom(alias) + " END"
		case 0:
			return "NOT (" + a + " AND " + b + ")"
		case 1, 2:
			return "(" + a + " OR " + b + ")"
		}
		return "(" + a + " AND " + b + ")"
	}
	return w.atom(alias)
}

func (w *writer) atom(alias string) string {
	c := w.column()
	name, not := alias+c.name, w.oneOf("", "", "NOT ")
	if c.element() != "" {
		return w.listAtom(c, name, not)
	}
	if c.kind != "bytes" && w.chance(3) { // of bytes it may fail
		return "CAST(" + name + " AS TEXT) " + not + w.oneOf("ILIKE '%A%'", "LIKE '1%'")
	}
	if c.kind == "bool" && w.chance(40) {
		return not + name
	}
	switch w.IntN(17) {
	case 0:
		return name + " IS " + not + "NULL"
	case 1, 2:
		return fmt.Sprintf("%s %sBETWEEN %s AND %s", name, not, w.operand(c.kind),
			w.operand(c.kind))
	case 3, 4:
		return name + " " + not + "IN (" + w.values(c) + ")"
	case 5, 6:
		if text := w.prefix(c); text != "" {
			return name + " " + not + text
		}
	case 7:
		return name + " " + w.comparison() + " " + alias + w.like(c).name
	case 8, 9:
		return w.rowAtom(alias)
	case 10:
		return w.rowList(alias, not)
	case 11:
		return w.calculated(c, name)
	case 12:
		return w.operand(c.kind) + " " + w.comparison() + " " + name
	}
	return name + " " + w.comparison() + " " + w.operand(c.kind)
}

// listAtom writes a condition over a list.
func (w *writer) listAtom(c field, name, not string) string {
	switch w.IntN(6) {
	case 0:
		return name + " IS " + not + "NULL"
	case 1:
		return name + " " + w.comparison() + " " + oneOf(w.Rand, stored[c.kind])
	}
	e := c.element()
	return name + " " + not + "CONTAINS " + w.literal(e, oneOf(w.Rand, stored[e]))
}

// values writes the list after IN: a few, some twenty, or hundreds.
func (w *writer) values(c field) string {
	n := 1 + w.IntN(4)
	if w.chance(20) {
		n = 9 + w.IntN(12)
	}
	var list []string
	whole := c.kind == "int" || c.kind == "id" || c.kind == "int8" || c.kind == "uint"
	if whole && w.chance(10) {
		for i, many := 0, 50+w.IntN(300); i < many; i++ {
			list = append(list, fmt.Sprint(i*(1+many%3)-20))
		}
	}
	if whole && w.params && w.chance(15) {
		return w.param("list", []int64{w.Int64N(9) - 1, w.Int64N(9) - 1, 5}, "")
	}
	if c.kind == "text" && w.params && w.chance(15) {
		return w.param("texts", []string{"a", w.oneOf("B", "aB", ""), "z%"}, "")
	}
	for range n {
		list = append(list, w.operand(c.kind))
	}
	return strings.Join(list, ", ")
}

// prefix writes LIKE or BEGINS WITH, nothing if the column has neither.
func (w *writer) prefix(c field) string {
	switch {
	case c.kind == "text" && w.chance(50):
		return "LIKE " + w.literal("text", w.oneOf("'a%'", "'%'", "''", "'_'", "'A%'", "'a_'",
			"'%b'", "'\U0010ffff%'", "'z%'", "'ab'", "'é%'", "'a\x00%'", "'k%'", "NULL",
			"'z!%'", "'!'", "'a!b%'")) + w.oneOf("", "", " ESCAPE '!'")
	case c.kind == "text":
		return "BEGINS WITH " + w.literal("text", w.oneOf("'a'", "''", "'A'", "'\U0010ffff'",
			"'z%'", "'é'", "'a\x00'", "'k'", "'\u212a'", "NULL"))
	case c.kind == "bytes":
		return "BEGINS WITH " + w.literal("bytes", w.oneOf("X'ff'", "X''", "X'ffff'", "X'00'",
			"X'61'", "X'fe'", "NULL"))
	}
	return ""
}

// rowAtom compares rows of two or three columns.
func (w *writer) rowAtom(alias string) string {
	var left, right []string
	for range 2 + w.IntN(2) {
		c := w.scalar()
		l, r := alias+c.name, w.operand(c.kind)
		if w.chance(10) {
			l, r = r, l
		}
		left, right = append(left, l), append(right, r)
	}
	return fmt.Sprintf("(%s) %s (%s)", strings.Join(left, ", "), w.comparison(),
		strings.Join(right, ", "))
}

func (w *writer) rowList(alias, not string) string {
	a, b := w.scalar(), w.scalar()
	var list []string
	for range 1 + w.IntN(3) {
		list = append(list, "("+w.operand(a.kind)+", "+w.operand(b.kind)+")")
	}
	return fmt.Sprintf("(%s, %s) %sIN (%s)", alias+a.name, alias+b.name, not,
		strings.Join(list, ", "))
}

// calculated writes a condition over something made of a column.
func (w *writer) calculated(c field, name string) string {
	switch {
	case w.chance(40):
		return fmt.Sprintf("coalesce(%s, %s) %s %s", name, oneOf(w.Rand, stored[c.kind]),
			w.comparison(), w.operand(c.kind))
	case c.kind == "text":
		return w.oneOf("length("+name+") > 1", "lower("+name+") = 'a'", name+" || 'b' = 'ab'",
			"substr("+name+", 1, 1) = 'a'")
	case c.kind == "bool":
		return w.oneOf(name, "NOT "+name)
	case alike(c.kind, "int"):
		return w.oneOf(name+" + 1 > 3", name+" % 3 = 1", "abs("+name+") < 6", "-"+name+" >= -2",
			name+" * 2 <> 10")
	}
	return name + " IS NOT NULL"
}

// again returns a query with other values for its parameters.
func (w *writer) again(s step) step {
	s.args, s.texts = slices.Clone(s.args), slices.Clone(s.texts)
	for i, k := range s.kinds {
		switch k {
		case "list":
			s.args[i] = []int64{w.Int64N(12) - 2, w.Int64N(9)}
		case "texts":
			s.args[i] = []string{w.oneOf("b", "A", "K"), "ab"}[:w.IntN(3)]
		case "count":
			s.args[i] = w.Int64N(30)
		case "id":
			id := 1 + w.Int64N(w.ids+1)
			s.args[i], s.texts[i] = id, fmt.Sprint(id)
		default:
			text := w.operandText(k)
			if v, ok := argument(text); ok {
				s.args[i], s.texts[i] = v, text
			}
		}
	}
	return s
}
