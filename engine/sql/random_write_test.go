package sql_test

import (
	"fmt"
	"slices"
	"strings"
)

// index is what the model of unique indexes has to know about one.
type index struct {
	name, text string
	columns    []field
	unique     bool
	where      string // of a partial index
}

// value writes a value for a column, as a literal or a parameter.
func (w *writer) value(c field) string {
	switch {
	case c.null && w.chance(20):
		return w.literal(c.kind, "NULL")
	case c.name == "at" && w.ttl && (w.unique || w.chance(60)):
		return w.soon() // whether a row that has expired is in the way is not asked
	}
	return w.literal(c.kind, oneOf(w.Rand, stored[c.kind]))
}

// insert writes INSERT of some rows with new ids, or now and then with one that is taken.
func (w *writer) insert(most int) step {
	s := step{do: doInsert, conflict: w.oneOf("", "", "OR REPLACE", "OR IGNORE")}
	n := 1 + w.IntN(most)
	w.begin(n == 1 && w.chance(50))
	var names []string
	columns := slices.DeleteFunc(slices.Clone(w.columns), func(c field) bool {
		return c.null && w.chance(5)
	})
	for _, c := range columns {
		names = append(names, c.name)
	}
	s.text = strings.Join(names, ", ")
	for range n {
		id := w.ids + 1
		if w.single && w.chance(20) {
			id = 1 + w.Int64N(id)
		}
		if w.ttl && slices.Contains(s.ids, id) {
			continue // one that has expired already is in the way within the statement only
		}
		w.ids = max(w.ids, id)
		var cells []string
		for _, c := range columns {
			if c.kind == "id" {
				cells = append(cells, fmt.Sprint(id))
			} else {
				cells = append(cells, w.value(c))
			}
		}
		s.rows, s.ids = append(s.rows, cells), append(s.ids, id)
	}
	s.args = w.args
	return s
}

// change writes UPDATE or DELETE.
func (w *writer) change() step {
	w.begin(w.chance(50))
	where := w.condition("", 1)
	if w.chance(15) {
		where = w.within("{t}.")
	}
	if w.chance(25) {
		text := fmt.Sprintf("DELETE FROM {t} WHERE (%s) AND id %% 5 = %d", where, w.IntN(5))
		return step{do: doChange, text: text, args: w.args}
	}
	set := []string{}
	if w.moves < 12 && w.chance(10) { // powers of two: no two sums are equal
		w.moves++
		set = append(set, fmt.Sprintf("id = id + %d", int64(1_000_000)<<w.moves))
	}
	used := map[string]bool{"id": true}
	for range 1 + w.IntN(4) {
		if c := w.column(); !used[c.name] {
			used[c.name] = true
			set = append(set, c.name+" = "+w.assigned(c))
		}
	}
	if len(set) == 0 {
		set = []string{"i = id"}
	}
	text := "UPDATE {t} SET " + strings.Join(set, ", ") + " WHERE " + where
	return step{do: doChange, text: text, args: w.args}
}

// assigned writes what SET gives a column.
func (w *writer) assigned(c field) string {
	if d := w.column(); d.kind == c.kind && (c.null || !d.null) && c.name != "at" {
		return d.name
	}
	switch {
	case c.kind == "int" && w.chance(20):
		return w.oneOf("id", "id % 7", "(SELECT max(y.id) FROM {t} y)")
	case c.kind == "text" && w.chance(10):
		return w.oneOf("lower(k7)", "concat(k7, 'b')")
	}
	return w.value(c)
}

// key writes the primary key of the table with indexes. That of the copy is id.
func (w *writer) key() string {
	var columns []field
	if w.single = w.chance(50); !w.single {
		keys := w.required()
		for _, i := range w.Perm(len(keys))[:w.IntN(min(4, len(keys)))] {
			columns = append(columns, keys[i])
		}
	}
	id := slices.IndexFunc(w.columns, func(c field) bool { return c.name == "id" })
	columns = slices.Insert(columns, w.IntN(len(columns)+1), w.columns[id])
	w.single = len(columns) == 1
	w.made = []*index{{columns: columns}}
	var parts []string
	for _, c := range columns {
		parts = append(parts, c.name+w.oneOf("", "", " DESC"))
	}
	if w.chance(30) {
		return "PRIMARY KEY (" + strings.Join(parts, ", ") + ")" + w.shard(columns)
	}
	split := 1 + w.IntN(len(parts))
	text := "PARTITION KEY (" + strings.Join(parts[:split], ", ") + ")" +
		w.oneOf("", "", " SHARD (8)")
	if split < len(parts) {
		text += ", SORT KEY (" + strings.Join(parts[split:], ", ") + ")"
	}
	return text
}

// tableCheck writes the check of the table with indexes, or none.
func (w *writer) tableCheck() string {
	if w.chance(60) {
		return ""
	}
	c := w.plain()
	text := c.name + w.oneOf(" <> ", " < ", " >= ") + oneOf(w.Rand, stored[c.kind])
	if w.chance(50) {
		w.begin(false)
		text = w.condition("", 1)
	}
	return text + " OR id % 7 " + w.oneOf("< 6", "<> 2")
}

// required returns the columns other than id that are NOT NULL.
func (w *writer) required() []field {
	return slices.DeleteFunc(slices.Clone(w.columns), func(c field) bool {
		return c.null || c.name == "id"
	})
}

// index writes CREATE INDEX, which may be refused.
func (w *writer) index() step {
	w.begin(false)
	w.named++
	x := &index{name: fmt.Sprint("x", w.named), unique: w.unique && w.chance(35)}
	var keys []string
	each := false
	most, order := 1+w.IntN(4), w.Perm(len(w.columns))
	if w.chance(20) { // there may be a unique index of rows of all kinds
		no := slices.IndexFunc(w.columns, func(c field) bool { return c.name == "no" })
		order = slices.Insert(order, 0, no)
		most, x.unique = 1, w.unique
	}
	for _, i := range order {
		c := w.columns[i]
		list := c.element() != ""
		if len(keys) == most || list && each {
			continue
		}
		each = each || list
		x.columns = append(x.columns, c)
		keys = append(keys, w.indexKey(c))
	}
	unique := map[bool]string{true: "UNIQUE "}[x.unique]
	x.text = fmt.Sprintf("CREATE %sINDEX %s ON {t} (%s)", unique, x.name,
		strings.Join(keys, ", ")) + w.place(x.columns)
	if w.chance(40) {
		var include []string
		for _, i := range w.Perm(len(w.columns))[:min(len(w.columns), 1+w.IntN(6))] {
			include = append(include, w.columns[i].name)
		}
		x.text += " INCLUDE (" + strings.Join(include, ", ") + ")"
	}
	if w.chance(30) || x.unique && most == 1 && w.chance(50) {
		x.where = w.condition("", w.IntN(2))
		if w.few {
			if c := w.plain(); c.kind == "bool" {
				x.where = w.oneOf("", "NOT ") + c.name
			} else if w.chance(60) {
				x.where = c.name + w.oneOf(" IS NOT NULL", " >= "+oneOf(w.Rand, stored[c.kind]))
			}
		}
		x.text += " WHERE " + x.where
		w.partial = append(w.partial, x.where)
	}
	w.indexes, w.made = append(w.indexes, x.name), append(w.made, x)
	return step{do: doCreateIndex, text: x.text, index: x}
}

func (w *writer) indexKey(c field) string {
	if c.element() != "" {
		return "EACH " + c.name + w.oneOf("", " DESC")
	}
	if c.null && w.chance(40) {
		return c.name + w.oneOf(" NULLS FIRST", " NULLS LAST", " DESC NULLS FIRST",
			" DESC NULLS LAST")
	}
	return c.name + w.oneOf("", "", " DESC")
}

// place writes where the entries of an index lie.
func (w *writer) place(columns []field) string {
	switch w.IntN(4) {
	case 0:
		return " LOCAL"
	case 1:
		return ""
	}
	return w.shard(columns)
}

// shard writes how a key is spread over buckets.
func (w *writer) shard(columns []field) string {
	whole := map[kind]bool{"int": true, "int8": true, "uint": true, "numbers": true}
	many, more := []string{"2", "7", "256"}, []string{"2", "3", "16", "256", "300", "1000"}
	if w.few && w.chance(90) { // each bucket is a seek
		many, more = many[:2], more[:3]
	}
	if whole[columns[0].kind] && w.chance(40) {
		return " SHARD (" + oneOf(w.Rand, many) + ", tidb)"
	}
	return fmt.Sprintf(" SHARD (%s, %s) ON (%d)", oneOf(w.Rand, more),
		w.oneOf("mix64", "md5", "xxhash", "murmur3", "crc32"), 1+w.IntN(len(columns)))
}

// dropIndex drops one of the indexes so far.
func (w *writer) dropIndex() step {
	i := w.IntN(len(w.indexes))
	name := w.indexes[i]
	w.indexes = slices.Delete(w.indexes, i, i+1)
	return step{do: doDropIndex, text: "DROP INDEX IF EXISTS " + name + " ON {t}",
		index: &index{name: name}}
}

// alter adds a column, or drops one that was added.
func (w *writer) alter(added *[]field) step {
	if len(w.columns) > w.created && w.chance(30) {
		c := w.columns[len(w.columns)-1]
		w.columns = w.columns[:len(w.columns)-1]
		return step{do: doAlter, text: "ALTER TABLE {t} DROP COLUMN " + c.name}
	}
	c := (*added)[0]
	*added = (*added)[1:]
	w.columns = append(w.columns, c)
	return step{do: doAlter, text: "ALTER TABLE {t} ADD COLUMN " + c.name + " " + c.ddl}
}
