// Package completion finds words that may stand where a statement is being typed.
package completion

import (
	"slices"
	"strings"
	"unicode"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

// Candidate is a word that may follow. Kind is "tables", "views", "columns" or "keywords".
type Candidate struct {
	Text string `json:"text"`
	Kind string `json:"kind"`
}

// beforeTables are the words that the name of a table follows.
var beforeTables = []string{"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "ANALYZE", "ON"}

// Of returns keywords, tables and columns for the name before the cursor, and where that name
// begins: after FROM tables, after the name of a table and a dot its columns, else the columns of
// the tables that the statement names first.
func Of(db *table.DB, before, after string) (start int, found []Candidate) {
	isName := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	start = strings.LastIndexFunc(before, func(r rune) bool { return !isName(r) }) + 1
	prefix, left := before[start:], strings.TrimRight(before[:start], " \t\n")
	words := strings.FieldsFunc(left, func(r rune) bool { return !isName(r) })
	last := ""
	if len(words) > 0 {
		last = strings.ToUpper(words[len(words)-1])
	}
	match := func(kind, name string) {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			found = append(found, Candidate{Text: name, Kind: kind})
		}
	}
	named := strings.FieldsFunc(before+after, func(r rune) bool { return !isName(r) })
	qualified, wantsTable := strings.HasSuffix(left, "."),
		slices.Contains(beforeTables, last) && strings.HasSuffix(before[:start], " ")
	tables := db.Tables()
	some := slices.ContainsFunc(tables, func(t *table.Table) bool {
		return slices.Contains(named, t.Name())
	})
	for _, one := range tables {
		switch {
		case qualified && !strings.EqualFold(one.Name(), last):
		case qualified, !wantsTable && (!some || slices.Contains(named, one.Name())):
			matchColumns(one.Schema(), match)
		}
		if !qualified {
			match("tables", one.Name())
		}
	}
	for _, v := range db.Views() {
		if !qualified {
			match("views", v.Name)
		}
	}
	if qualified || wantsTable && last != "ON" {
		return start, found
	}
	for _, word := range sql.Keywords() {
		if prefix != "" && strings.ToLower(prefix) == prefix {
			word = strings.ToLower(word) // as it is being typed
		}
		match("keywords", word)
	}
	return start, found
}

func matchColumns(t *schema.Table, match func(kind, name string)) {
	for _, c := range t.Columns {
		if !c.Dropped {
			match("columns", c.Name)
		}
	}
}
