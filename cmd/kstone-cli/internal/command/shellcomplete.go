package command

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
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
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == verb })
	if i < 0 {
		return nil
	}
	line := parseLine(root.Commands()[i], words[1:])
	switch {
	case line.open != nil:
		return s.flagValues(line, prefix)
	case strings.HasPrefix(prefix, "-"):
		return line.flags()
	case verb == "table" || verb == "index":
		return s.tableCandidates(root.Commands()[i], words[1:])
	case verb == "settings":
		names, _ := cli.CompleteSetting(nil, nil, prefix)
		return names
	case verb == "dump" || verb == "sql" && len(line.args) == 0:
		return s.tableNames()
	case verb == "import" && len(line.args) == 0:
		return files(prefix)
	case slices.Contains([]string{"get", "put", "delete", "query", "count", "stripe"}, verb) &&
		len(line.args) == 0:
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

// tableCandidates returns what stands after table or index: a command, then a table, then an index
// to drop or the columns of a new one.
func (s *session) tableCandidates(cmd *cobra.Command, words []shell.Word) (names []string) {
	switch len(words) {
	case 0:
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
	case 1:
		return s.tableNames()
	case 2:
		if cmd.Name() == "index" && words[0].Text == "drop" {
			return s.indexes(words[1].Text)
		}
	case 3:
		if cmd.Name() == "index" && words[0].Text == "create" {
			return s.columns(words[1].Text)
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
	if p := preferenceOf(name); p != nil {
		return p.values
	}
	return nil
}

// typedLine is a command line as far as it has been typed.
type typedLine struct {
	cmd   *cobra.Command
	args  []string
	parts []string    // values of --sk-prefix or --sk-part
	table string      // value of --table
	open  *pflag.Flag // the flag whose value comes next
}

func parseLine(cmd *cobra.Command, words []shell.Word) *typedLine {
	line := &typedLine{cmd: cmd}
	for _, w := range words {
		text := w.Text
		switch {
		case line.open != nil:
			line.value(text)
			line.open = nil
		case strings.HasPrefix(text, "--") && len(text) > 2:
			name, value, has := strings.Cut(text[2:], "=")
			line.open = cmd.Flag(name)
			line.settle(value, has)
		case strings.HasPrefix(text, "-") && len(text) > 1 && text != "--":
			line.open = cmd.Flags().ShorthandLookup(text[1:2])
			if line.open == nil {
				line.open = cmd.InheritedFlags().ShorthandLookup(text[1:2])
			}
			line.settle(text[2:], len(text) > 2)
		default:
			line.args = append(line.args, text)
		}
	}
	return line
}

// settle closes a flag that has its value already, or takes none.
func (l *typedLine) settle(value string, has bool) {
	if l.open == nil {
		return
	}
	if has {
		l.value(value)
	}
	if has || l.open.NoOptDefVal != "" {
		l.open = nil
	}
}

func (l *typedLine) value(text string) {
	if l.open.Name == "sk-prefix" || l.open.Name == "sk-part" {
		l.parts = append(l.parts, text)
	}
	if l.open.Name == "table" {
		l.table = text
	}
}

// fieldNames returns the names that a condition may have after what was typed of it: columns of a
// table, or fields of the keys and of the values of the first items.
func (s *session) fieldNames(l *typedLine, prefix string) (found []string) {
	head := prefix[:strings.LastIndexAny(prefix, " (")+1]
	names := s.columns(l.table)
	if l.table == "" {
		names = itemFields(s.db)
	}
	for _, name := range names {
		found = append(found, head+name)
	}
	return found
}

// flags returns the flags of the command.
func (l *typedLine) flags() []string {
	var names []string
	add := func(f *pflag.Flag) { names = append(names, "--"+f.Name) }
	l.cmd.Flags().VisitAll(add)
	l.cmd.InheritedFlags().VisitAll(add)
	return names
}

// flagValues returns candidates for the value of a flag.
func (s *session) flagValues(l *typedLine, prefix string) []string {
	switch l.open.Name {
	case "output":
		return present.FormatNames(present.Formats)
	case "input":
		return cli.InputForms
	case "durability":
		return []string{"sync", "process"}
	case "format":
		return []string{"jsonl", "csv"}
	case "from", "to":
		switch {
		case l.cmd.Flags().Lookup("from") == nil:
			return files(prefix) // where the output goes
		case len(l.args) > 0:
			return parts(s.db, l.args[0], l.parts, prefix)
		}
		return partitions(s.db, prefix)
	case "pk-prefix":
		return partitions(s.db, prefix)
	case "table":
		return s.tableNames()
	case "where":
		return s.fieldNames(l, prefix)
	case "value-file":
		return files(prefix)
	case "sk-prefix", "sk-part", "sk-eq", "sk-lt", "sk-le", "sk-gt", "sk-ge", "sk-begins-with":
		if len(l.args) > 0 {
			return parts(s.db, l.args[0], l.parts, prefix)
		}
	}
	return nil
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
