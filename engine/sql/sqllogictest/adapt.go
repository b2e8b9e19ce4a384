package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hiddenKey is the primary key of tables that the corpus makes without one.
const hiddenKey = "zz_key"

// errHidden is returned for what a table with a hidden key cannot take.
var errHidden = errors.New("INSERT … SELECT into a table whose key the harness has added")

// token is a word, number, quoted text or sign of a statement.
type token struct {
	text string // words in upper case
	pos  int
	end  int
}

// tokens splits a statement.
func tokens(text string) (out []token) {
	for i := 0; i < len(text); {
		start, c := i, text[i]
		switch {
		case strings.IndexByte(" \t\n\r", c) >= 0:
			i++
			continue
		case c == '\'' || c == '"':
			for i++; i < len(text) && text[i] != c; i++ {
			}
			i = min(i+1, len(text))
		case wordByte(c):
			for ; i < len(text) && wordByte(text[i]); i++ {
			}
		default:
			i++
		}
		out = append(out, token{strings.ToUpper(text[start:i]), start, i})
	}
	return out
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// definition is a table as the corpus defines it. Names are in upper case.
type definition struct {
	columns []string
	hidden  bool // it has the hidden key
	rows    int  // how many hidden keys have been given out
}

// adapter rewrites statements: see the documentation of the command.
type adapter map[string]*definition

// statement returns a statement as kstone runs it, and the name of the table that it writes, if
// it is not a query.
func (a adapter) statement(text string) (out, table string, err error) {
	text = strings.TrimRight(text, "; \n")
	if strings.HasPrefix(text, "SELECT") && !strings.Contains(text, "*") {
		return text, "", nil // as most of them: it makes no garbage that kstone has to collect
	}
	words := tokens(text)
	at := func(i int) string {
		if i < len(words) {
			return words[i].text
		}
		return ""
	}
	switch at(0) + " " + at(1) {
	case "CREATE TABLE":
		return a.create(text, words), at(2), nil
	case "INSERT INTO", "REPLACE INTO":
		out, err = a.insert(text, words, 2)
		return out, at(2), err
	case "INSERT OR":
		out, err = a.insert(text, words, 4)
		return out, at(4), err
	case "DELETE FROM":
		table = at(2)
	}
	if at(0) == "UPDATE" {
		table = at(1)
	}
	return a.stars(text, words), table, nil
}

// create makes columns NULL, and adds a key if there is none.
func (a adapter) create(text string, words []token) string {
	open := slices.IndexFunc(words, func(t token) bool { return t.text == "(" })
	if open < 3 {
		return text
	}
	d := &definition{hidden: true}
	var items, unique []string
	start, depth := open+1, 0
	for i := open; i < len(words); i++ {
		switch words[i].text {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth > 1 || depth == 1 && words[i].text != "," || i == open {
			continue
		}
		item := words[start:i]
		rest := text[words[start].pos:words[i].pos]
		start = i + 1
		has := func(word string) bool {
			return slices.ContainsFunc(item, func(t token) bool { return t.text == word })
		}
		if has("PRIMARY") {
			d.hidden = false
		} else if has("UNIQUE") && item[0].text != "UNIQUE" {
			unique = append(unique, fmt.Sprintf("UNIQUE INDEX zz_unique%d (%s)", i, item[0].text))
			rest = strings.ReplaceAll(rest, "UNIQUE", "")
		}
		if item[0].text != "PRIMARY" && item[0].text != "UNIQUE" {
			d.columns = append(d.columns, item[0].text)
			if !has("PRIMARY") && !has("NULL") {
				rest += " NULL"
			}
		}
		items = append(items, rest)
		if depth == 0 {
			break
		}
	}
	if d.hidden {
		items = append(items, hiddenKey+" INT", "PRIMARY KEY ("+hiddenKey+")")
	}
	a[words[open-1].text] = d
	return text[:words[open].pos] + "(" + strings.Join(append(items, unique...), ", ") + ")"
}

// insert adds the values of the hidden key.
func (a adapter) insert(text string, words []token, name int) (string, error) {
	if name >= len(words) || a[words[name].text] == nil || !a[words[name].text].hidden {
		return a.stars(text, words), nil
	}
	d := a[words[name].text]
	out := text[:words[name].end] + " (" + strings.Join(d.columns, ", ")
	values := slices.IndexFunc(words, func(t token) bool { return t.text == "VALUES" })
	if values < 0 {
		return a.copied(out, d, words[name+1:], text)
	}
	if words[name+1].text == "(" {
		out = text[:words[values-1].pos]
	}
	out += ", " + hiddenKey + ") VALUES "
	last, depth := words[values].end, 0
	for _, t := range words[values+1:] {
		switch t.text {
		case "(":
			depth++
		case ")":
			if depth--; depth == 0 {
				d.rows++
				out += fmt.Sprintf("%s, %d", text[last:t.pos], d.rows)
				last = t.pos
			}
		}
	}
	return out + text[last:], nil
}

// copied adds to out, the beginning of an INSERT, all rows of another table with a hidden key.
func (a adapter) copied(out string, d *definition, words []token, text string) (string, error) {
	if len(words) != 4 || words[0].text != "SELECT" || words[1].text != "*" {
		return "", errHidden
	}
	from := a[words[3].text]
	if from == nil || !from.hidden {
		return "", errHidden
	}
	out += fmt.Sprintf(", %s) SELECT %s, %s + %d FROM %s", hiddenKey,
		strings.Join(from.columns, ", "), hiddenKey, d.rows, text[words[3].pos:])
	d.rows += from.rows
	return out, nil
}

// stars writes out each "SELECT * FROM" that would have a hidden key.
func (a adapter) stars(text string, words []token) string {
	for i := len(words) - 2; i > 0; i-- {
		before := words[i-1].text
		if words[i].text != "*" || words[i+1].text != "FROM" ||
			before != "SELECT" && before != "ALL" && before != "DISTINCT" {
			continue
		}
		if list := a.columns(words[i+2:]); list != "" {
			text = text[:words[i].pos] + list + text[words[i].end:]
		}
	}
	return text
}

// joins are the words between two tables of FROM.
var joins = []string{",", "CROSS", "INNER", "LEFT", "OUTER", "JOIN"}

// ends are the words after the tables of FROM.
var ends = []string{"WHERE", "GROUP", "ORDER", "HAVING", "UNION", "EXCEPT", "INTERSECT", "LIMIT"}

// columns returns the columns of the tables that words begin with, or "" if none has a hidden
// key, or if it is not clear which tables these are.
func (a adapter) columns(words []token) string {
	var out []string
	hidden, depth := false, 0
	for i := 0; i < len(words) && depth >= 0 && !slices.Contains(ends, words[i].text); i++ {
		switch {
		case words[i].text == "(":
			depth++
			continue
		case words[i].text == ")":
			depth--
			continue
		case words[i].text == "ON":
			i = condition(words, i+1) - 1
			continue
		case slices.Contains(joins, words[i].text):
			continue
		}
		name := words[i].text
		d := a[name]
		if d == nil {
			return ""
		}
		hidden = hidden || d.hidden
		if i+1 < len(words) && words[i+1].text == "AS" {
			i++
		}
		if i+1 < len(words) && wordByte(words[i+1].text[0]) && !clause(words[i+1].text) {
			i++
			name = words[i].text
		}
		for _, c := range d.columns {
			out = append(out, name+"."+c)
		}
	}
	if !hidden {
		return ""
	}
	return strings.Join(out, ", ")
}

// condition returns the end of the condition of ON that begins at words[i].
func condition(words []token, i int) int {
	for depth := 0; i < len(words); i++ {
		switch t := words[i].text; {
		case t == "(":
			depth++
		case t == ")" && depth == 0:
			return i
		case t == ")":
			depth--
		case depth == 0 && clause(t) && t != "ON":
			return i
		}
	}
	return i
}

// clause reports whether a word is not a name: it continues FROM or follows it.
func clause(word string) bool {
	return word == "ON" || slices.Contains(joins, word) || slices.Contains(ends, word)
}
