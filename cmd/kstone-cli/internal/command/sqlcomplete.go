package command

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/completion"
)

// sqlCandidates returns what completion.Of finds for the name before the cursor.
func (s *session) sqlCandidates(before, after string) (start int, found []shell.Candidate) {
	_ = s.command().WithTables(context.Background(), "", cli.ReadOnly, func(t *cli.Tables) error {
		var words []completion.Candidate
		start, words = completion.Of(t.DB, before, after)
		for _, w := range words {
			found = append(found, shell.Candidate{Text: w.Text, Kind: w.Kind})
		}
		return nil
	})
	return start, found
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
		s.tree = Root(s.command())
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
