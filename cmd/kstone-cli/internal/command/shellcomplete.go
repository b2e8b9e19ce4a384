package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
)

// complete finds candidates for the word before pos, and where that word begins.
func (s *session) complete(text string, pos int) (start int, found []shell.Candidate) {
	before := text[:pos]
	if rest, ok := sqlWord(before); ok || isSQL(before) || isSQL(rest) {
		return s.sqlCandidates(before, text[pos:])
	}
	words, last := shell.Last(before)
	names := s.candidates(words, last.Text)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if strings.HasPrefix(name, last.Text) {
			found = append(found, shell.Candidate{Text: shell.Completed(before[last.Start:], name),
				Open: strings.HasSuffix(name, string(filepath.Separator))})
		}
	}
	return last.Start, found
}

// candidates returns what may stand after the words, given the beginning of it.
func (s *session) candidates(words []shell.Word, prefix string) []string {
	root := Root(s.command())
	if len(words) == 0 {
		return s.verbs(root)
	}
	verb := words[0].Text
	if strings.HasPrefix(verb, ".") || verb == "help" {
		return s.dotCandidates(root, verb, prefix)
	}
	cmd, rest, err := root.Find(textsOf(words))
	if err != nil || cmd == root {
		return nil
	}
	var open *pflag.ValueRequiredError
	switch {
	case errors.As(cmd.ParseFlags(rest), &open):
		name := open.GetFlag().Name
		if own, ok := cmd.GetFlagCompletionFunc(name); ok {
			found, _ := own(cmd, nil, prefix)
			return found
		}
		return s.flagValues(cmd, name, cmd.Flags().Args(), prefix)
	case strings.HasPrefix(prefix, "-"):
		return flagsOf(cmd)
	}
	return s.arguments(cmd, cmd.Flags().Args(), prefix)
}

// flagsOf returns the flags of a command.
func flagsOf(cmd *cobra.Command) (names []string) {
	add := func(f *pflag.Flag) { names = append(names, "--"+f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

// arguments returns candidates for an argument of a command after those that are given,
// without the database.
func (s *session) arguments(cmd *cobra.Command, args []string, prefix string) (names []string) {
	verb := strings.TrimSpace(cli.CommandOf(cmd))
	switch n := len(args); {
	case cmd.HasSubCommands():
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return names
	case verb == "settings":
		names, _ = cli.CompleteSetting(nil, nil, prefix)
		return names
	case verb == "index drop" && n == 1:
		return s.indexes(args[0])
	case verb == "index create" && n == 2:
		return s.columns(args[0])
	case verb == "dump", n == 0 && (verb == "sql" || cmd.Parent().HasParent()):
		return s.tableNames()
	case n > 0:
	case verb == "import":
		return files(prefix)
	case slices.Contains([]string{"get", "put", "delete", "query", "count", "stripe"}, verb):
		return partitions(s.db, prefix)
	}
	return nil
}

// tableNames returns the names of tables.
func (s *session) tableNames() []string {
	t := s.tables()
	if t == nil {
		return nil
	}
	return t.Names()
}

// tables returns the tables of the database, nil if they cannot be read soon.
func (s *session) tables() *cli.Tables {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	t, err := s.command().OpenTables(ctx, s.db)
	if err != nil {
		return nil
	}
	return t
}

// columns returns the names of the columns of a table, of all without a name, or with one that is
// not known.
func (s *session) columns(table string) (names []string) {
	t := s.tables()
	if t == nil {
		return nil
	}
	for _, found := range t.Tables() {
		if table == "" || found.Name() == table {
			for _, c := range found.Schema().Columns {
				if !c.Dropped {
					names = append(names, c.Name)
				}
			}
		}
	}
	return names
}

// indexes returns the names of the indexes of a table.
func (s *session) indexes(table string) (names []string) {
	t := s.tables()
	if t == nil {
		return nil
	}
	if found, err := t.Table(table); err == nil {
		for _, x := range found.Schema().Indexes {
			names = append(names, x.Name)
		}
	}
	return names
}

func (s *session) verbs(root *cobra.Command) []string {
	names := []string{"more", "help", "exit"}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	for _, c := range dotCommands {
		names = append(names, c.name)
	}
	return names
}

func (s *session) dotCandidates(root *cobra.Command, name, prefix string) []string {
	if long, ok := aliases[name]; ok {
		name = long
	}
	switch name {
	case ".help", "help":
		return s.verbs(root)
	case ".read", ".once", ".output", ".import":
		return files(prefix)
	case ".schema", ".indexes", ".dump":
		return s.tableNames()
	}
	return preferenceList[name].values
}

// fieldNames returns the names that a condition may have after what was typed of it: columns of a
// table, or fields of the keys and of the values of the first items.
func (s *session) fieldNames(table, prefix string) (found []string) {
	head := prefix[:strings.LastIndexAny(prefix, " (")+1]
	names := s.columns(table)
	if table == "" {
		names = itemFields(s.db)
	}
	for _, name := range names {
		found = append(found, head+name)
	}
	return found
}

// flagValues returns candidates for the value of a flag that has no completion of its own. Those of
// some depend on the arguments and other flags that are given.
func (s *session) flagValues(cmd *cobra.Command, name string, args []string, prefix string,
) []string {
	switch name {
	case "from", "to":
		switch {
		case cmd.Flags().Lookup("from") == nil:
			return files(prefix) // where the output goes
		case len(args) > 0:
			return parts(s.db, args[0], givenParts(cmd), prefix)
		}
		return partitions(s.db, prefix)
	case "format":
		return []string{"jsonl", "csv"}
	case "pk-prefix":
		return partitions(s.db, prefix)
	case "table":
		return s.tableNames()
	case "where":
		table, _ := cmd.Flags().GetString("table")
		return s.fieldNames(table, prefix)
	case "value-file":
		return files(prefix)
	case "sk-prefix", "sk-part", "sk-eq", "sk-lt", "sk-le", "sk-gt", "sk-ge", "sk-begins-with":
		if len(args) > 0 {
			return parts(s.db, args[0], givenParts(cmd), prefix)
		}
	}
	return nil
}

// givenParts returns the fields of a sort key that flags give.
func givenParts(cmd *cobra.Command) []string {
	prefix, _ := cmd.Flags().GetStringArray("sk-prefix")
	whole, _ := cmd.Flags().GetStringArray("sk-part")
	return append(prefix, whole...)
}

// files returns the files whose names begin with prefix; directories end in a slash.
func files(prefix string) []string {
	dir, _ := filepath.Split(prefix)
	list, err := os.ReadDir(filepath.Join(".", dir))
	if filepath.IsAbs(dir) {
		list, err = os.ReadDir(dir)
	}
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range list {
		name := dir + entry.Name()
		if entry.IsDir() {
			name += string(filepath.Separator)
		}
		names = append(names, name)
	}
	return names
}
