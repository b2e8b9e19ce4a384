package command

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
)

// beforeTables are the words that the name of a table follows.
var beforeTables = []string{"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "ANALYZE", "ON"}

// sqlCandidates returns keywords, tables and columns for the name before the cursor, and
// where that name begins: after FROM tables, after the name of a table and a dot its columns,
// else the columns of the tables that the statement names first.
func (s *session) sqlCandidates(before, after string) (start int, found []shell.Candidate) {
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
			found = append(found, shell.Candidate{Text: name, Kind: kind})
		}
	}
	named := strings.FieldsFunc(before+after, func(r rune) bool { return !isName(r) })
	qualified, wantsTable := strings.HasSuffix(left, "."),
		slices.Contains(beforeTables, last) && strings.HasSuffix(before[:start], " ")
	cmd := s.command()
	_ = cmd.WithTables(context.Background(), "", cli.ReadOnly, func(t *cli.Tables) error {
		some := slices.ContainsFunc(t.Names(), func(name string) bool {
			return slices.Contains(named, name)
		})
		for _, one := range t.Tables() {
			switch {
			case qualified && !strings.EqualFold(one.Name(), last):
			case qualified, !wantsTable && (!some || slices.Contains(named, one.Name())):
				matchColumns(one.Schema(), match)
			}
			if !qualified {
				match("tables", one.Name())
			}
		}
		for _, v := range t.Views() {
			if !qualified {
				match("views", v.Name)
			}
		}
		return nil
	})
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

// highlight returns a text that is being typed with colours.
func (s *session) highlight(text string) string {
	keyword := func(word string) bool { return false }
	if _, ok := sqlWord(text); ok || isSQL(text) {
		keyword = func(word string) bool {
			_, found := slices.BinarySearch(keywords, strings.ToUpper(word))
			return found
		}
	} else if verb, _, _ := strings.Cut(strings.TrimLeft(text, " "), " "); s.verb(verb) {
		keyword = func(word string) bool { return word == strings.TrimPrefix(verb, ".") }
	}
	return shell.Highlight(text, keyword)
}

// keywords are those of the query language, sorted.
var keywords = slices.Sorted(slices.Values(sql.Keywords()))

// verb reports whether a word is a command of the shell.
func (s *session) verb(word string) bool {
	return slices.Contains(s.verbs(s.commands()), word)
}

// commands returns the commands, for what is shown while a line is typed.
func (s *session) commands() *cobra.Command {
	if s.tree == nil {
		s.tree = root(s.command())
	}
	return s.tree
}

// hint says how the command is used that a line begins with.
func (s *session) hint(text string) string {
	verb, rest, typed := strings.Cut(strings.TrimLeft(text, " "), " ")
	if !typed || isSQL(text) {
		return ""
	}
	for _, c := range dotCommands {
		if c.name == verb {
			return strings.TrimSpace(c.name + " " + c.args + "  " + c.help)
		}
	}
	for _, c := range s.commands().Commands() {
		if c.Name() != verb {
			continue
		}
		for _, sub := range c.Commands() {
			if word, _, _ := strings.Cut(rest, " "); word == sub.Name() {
				return verb + " " + sub.Use
			}
		}
		return c.Use
	}
	return ""
}
