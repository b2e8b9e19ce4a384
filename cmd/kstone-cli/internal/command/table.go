package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

func (a *app) tableCommand() *cobra.Command {
	return family(&cobra.Command{
		Use:   "table",
		Short: "Create, list, describe and drop tables",
		Long: `A table has typed columns, a primary key and indexes. Its rows are items of the
database; items put by key and rows of tables do not meet. Rows are read and written
with the command sql, or imported with import --table.`,
		Example: a.examples("table list cities.db", "table describe cities.db cities"),
	}, a.tableCreateCommand(), a.tableListCommand(), a.tableDescribeCommand(),
		a.tableDropCommand())
}

// examples returns command lines for the help; in a shell without program and database.
func (a *app) examples(lines ...string) string {
	var out []string
	for _, line := range lines {
		if a.open == nil {
			out = append(out, "  "+program+" "+line)
			continue
		}
		var words []string
		for word := range strings.SplitSeq(line, " ") {
			if !strings.HasSuffix(word, ".db") {
				words = append(words, word)
			}
		}
		out = append(out, "  "+strings.Join(words, " "))
	}
	return strings.Join(out, "\n")
}

func (a *app) tableCreateCommand() *cobra.Command {
	var ifMissing bool
	cmd := &cobra.Command{
		Use:   a.use("create", "FILE|-|'CREATE TABLE …'"),
		Short: "Create tables",
		Long: `Create tables from a file with a definition as JSON or with CREATE TABLE and CREATE
INDEX statements, or from such statements given as the argument. The database is
created if there is none.`,
		Example: a.examples("table create my.db cities.json",
			"table create my.db 'CREATE TABLE t (id UUID PRIMARY KEY, name TEXT)'"),
		Args: a.arguments(1, 1),
	}
	a.setFlag(cmd)
	cmd.Flags().BoolVar(&ifMissing, "if-missing", false, "it is no error if the table exists")
	a.durabilityFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, args := a.split(args)
		text, err := a.definition(args[0])
		if err != nil {
			return err
		}
		return a.createTables(cmd.Context(), path, text, ifMissing)
	}
	return cmd
}

// definition returns the text of a definition that an argument stands for.
func (a *app) definition(arg string) (string, error) {
	if strings.Contains(strings.ToUpper(arg), "CREATE ") {
		return arg, nil
	}
	in, _, err := a.openInput(arg)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, sql.MaxStatementBytes+1))
	return string(text), err
}

func (a *app) createTables(ctx context.Context, path, text string, ifMissing bool) error {
	var def *schema.Table
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		var err error
		if def, err = schema.Parse([]byte(text)); err != nil {
			return usage("%v", err)
		}
	} else if err := onlyDefinitions(text); err != nil {
		return err
	}
	return a.withTables(ctx, path, create, func(t *tables) error {
		var err error
		if def != nil {
			_, err = t.CreateTable(ctx, def)
		} else {
			err = a.runSQL(ctx, t, text, nil)
		}
		if ifMissing && errors.Is(err, table.ErrExists) {
			return nil
		}
		return err
	})
}

// onlyDefinitions refuses statements other than CREATE.
func onlyDefinitions(text string) error {
	parts, err := sql.Split(text)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.Verb != "CREATE TABLE" && p.Verb != "CREATE INDEX" {
			return usage("table create takes CREATE TABLE and CREATE INDEX only").
				withHint("the command sql runs all statements")
		}
	}
	if len(parts) == 0 {
		return usage("there is no definition in it")
	}
	return nil
}

func (a *app) tableListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     a.use("list", ""),
		Short:   "List the tables",
		Long:    "List the tables with their keys and indexes.",
		Example: a.examples("table list cities.db"),
		Args:    a.arguments(0, 0),
	}
	a.definitionFlag(cmd)
	cmd.RunE = a.onTables(readOnly, func(_ context.Context, t *tables, _ []string) error {
		var rows [][]string
		for _, found := range t.Tables() {
			s := found.Schema()
			if a.format != "" {
				if err := a.printDefinition(s); err != nil {
					return err
				}
				continue
			}
			var names []string
			for _, x := range s.Indexes {
				names = append(names, x.Name)
			}
			rows = append(rows, []string{s.Name, keyColumnsText(s, s.PK),
				keyColumnsText(s, s.SK), fmt.Sprint(s.All().Len()), strings.Join(names, ", ")})
		}
		if len(rows) == 0 {
			return nil
		}
		head := []string{"table", "partition key", "sort key", "columns", "indexes"}
		return a.grid(head, rows, len(head))
	})
	return cmd
}

// definitionFlag adds -o json and -o sql.
func (a *app) definitionFlag(cmd *cobra.Command) {
	a.outputFlag(cmd, "`FORMAT`: sql prints the statements that make the tables, json\n"+
		"their definitions, one a line; table create takes both", "jsonl", "sql", "json")
}

// printStatements prints the statements that make a table.
func (a *app) printStatements(t *schema.Table) error {
	text, err := sql.Definition(t)
	if err == nil {
		_, err = fmt.Fprint(a.out, text)
	}
	return err
}

// printDefinition prints a table in the form of -o.
func (a *app) printDefinition(t *schema.Table) error {
	if a.format == "sql" {
		return a.printStatements(t)
	}
	data, err := json.Marshal(t)
	if err == nil {
		_, err = fmt.Fprintf(a.out, "%s\n", data)
	}
	return err
}

func (a *app) tableDescribeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.use("describe", "TABLE"),
		Short: "Show columns, keys, indexes and statistics of a table",
		Long: `Show the columns of a table, the statements that make it with its indexes, and its
statistics.`,
		Example: a.examples("table describe cities.db cities",
			"table describe cities.db cities -o sql",
			"table describe cities.db cities -o json"),
		Args:              a.arguments(1, 1),
		ValidArgsFunction: a.completeTable,
	}
	a.definitionFlag(cmd)
	cmd.RunE = a.onTables(readOnly, func(_ context.Context, t *tables, args []string) error {
		found, err := t.find(args[0])
		switch {
		case err != nil:
			return err
		case a.format == "":
			return a.describe(found)
		}
		return a.printDefinition(found.Schema())
	})
	return cmd
}

func (a *app) describe(found *table.Table) error {
	t := found.Schema()
	key := t.Key()
	var rows [][]string
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Dropped {
			continue
		}
		null, def := "", ""
		if c.Nullable {
			null = "null"
		}
		if key.Has(i) {
			null = "key"
		}
		if c.Default != nil {
			def = c.Default.String()
		}
		rows = append(rows, []string{c.Name, sql.TypeText(c), null, def})
	}
	if err := a.grid([]string{"column", "type", "", "default"}, rows, 4); err != nil {
		return err
	}
	if err := a.printStatements(t); err != nil {
		return err
	}
	for _, x := range t.Indexes {
		if x.State != schema.Ready {
			fmt.Fprintf(a.out, "index %s: %s\n", x.Name, x.State)
		}
	}
	s := found.Stats()
	fmt.Fprintf(a.out, "statistics: %s", s.Origin())
	if s != nil {
		fmt.Fprintf(a.out, " of %s on average", present.Bytes(int64(s.RowBytes)))
	}
	fmt.Fprintln(a.out)
	return nil
}

func (a *app) tableDropCommand() *cobra.Command {
	var ifExists bool
	cmd := &cobra.Command{
		Use:   a.use("drop", "TABLE"),
		Short: "Remove a table with all its rows",
		Long: `Remove a table, its rows and its indexes. If this is interrupted, the next drop
finishes it.`,
		Example:           a.examples("table drop cities.db cities"),
		Args:              a.arguments(1, 1),
		ValidArgsFunction: a.completeTable,
	}
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "it is no error if there is no such table")
	a.durabilityFlag(cmd)
	cmd.RunE = a.onTables(readWrite, func(ctx context.Context, t *tables, args []string) error {
		if _, err := t.find(args[0]); err != nil {
			if ifExists && errors.Is(err, table.ErrNoTable) {
				return nil
			}
			return err
		}
		if err := t.DropTable(ctx, args[0], t.sql.Progress); err != nil {
			return err
		}
		return t.Resume(ctx, t.sql.Progress)
	})
	return cmd
}
