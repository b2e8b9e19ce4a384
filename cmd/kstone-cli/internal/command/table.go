package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
)

func tableCommand(a *cli.App) *cobra.Command {
	return cli.Family(&cobra.Command{
		Use:   "table",
		Short: "Create, list, describe and drop tables",
		Long: `A table has typed columns, a primary key and indexes. Its rows are items of the
database, apart from the items that are put by key. Rows are read and written with the
command sql, or imported with import --table.`,
		Example: `  kstone-cli table list cities.db
  kstone-cli table describe cities.db cities`,
	}, tableCreateCommand(a), tableListCommand(a), tableDescribeCommand(a),
		tableDropCommand(a))
}

func tableCreateCommand(a *cli.App) *cobra.Command {
	var ifMissing bool
	cmd := &cobra.Command{
		Use:   a.Use("create", "FILE|-|'CREATE TABLE …'"),
		Short: "Create tables",
		Long: `Create tables from a file with a definition as JSON or with CREATE TABLE and CREATE
INDEX statements, or from such statements given as the argument. The database is
created if there is none.`,
		Example: `  kstone-cli table create my.db cities.json
  kstone-cli table create my.db 'CREATE TABLE t (id UUID PRIMARY KEY, name TEXT)'`,
		Args: a.Arguments(1, 1),
	}
	a.SetFlag(cmd)
	cmd.Flags().BoolVar(&ifMissing, "if-missing", false, "it is not an error if the table exists")
	a.DurabilityFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		text, err := definition(a, args[0])
		if err != nil {
			return err
		}
		return createTables(cmd.Context(), a, path, text, ifMissing)
	}
	return cmd
}

// definition returns the text of a definition that an argument stands for.
func definition(a *cli.App, arg string) (string, error) {
	if strings.Contains(strings.ToUpper(arg), "CREATE ") {
		return arg, nil
	}
	in, _, err := bulk.OpenInput(a, arg)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, sql.MaxStatementBytes+1))
	return string(text), err
}

// createTables makes the tables of definitions. With ifMissing those that exist stay.
func createTables(ctx context.Context, a *cli.App, path, text string, ifMissing bool) error {
	wanted := func(err error) error {
		if ifMissing && errors.Is(err, table.ErrExists) {
			return nil
		}
		return err
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		defs, err := parseTables(text)
		if err != nil {
			return cli.Usage("%v", err)
		}
		return a.WithTables(ctx, path, cli.Create, func(t *cli.Tables) error {
			for _, def := range defs {
				if _, err := t.CreateTable(ctx, def); wanted(err) != nil {
					return err
				}
			}
			return nil
		})
	}
	parts, err := onlyDefinitions(text)
	if err != nil {
		return err
	}
	return a.WithTables(ctx, path, cli.Create, func(t *cli.Tables) error {
		for _, p := range parts {
			err := runSQL(ctx, a, t, text[p.Pos:p.End], nil)
			if wanted(err) != nil {
				return placed(err, strings.Count(text[:p.Pos], "\n"))
			}
		}
		return nil
	})
}

// parseTables reads definitions as JSON, one after the other.
func parseTables(text string) (defs []*schema.Table, err error) {
	in := json.NewDecoder(strings.NewReader(text))
	for {
		var raw json.RawMessage
		if err := in.Decode(&raw); err == io.EOF {
			return defs, nil
		} else if err != nil {
			return nil, err
		}
		def, err := schema.Parse(raw)
		if err != nil {
			return nil, err
		}
		defs = append(defs, def)
	}
}

// onlyDefinitions returns the statements of a text. It refuses others than CREATE.
func onlyDefinitions(text string) ([]sql.Part, error) {
	parts, err := sql.Split(text)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if !slices.Contains([]string{"CREATE TABLE", "CREATE INDEX", "CREATE VIEW"}, p.Verb) {
			return nil, cli.Usage("table create takes CREATE TABLE, CREATE INDEX and CREATE VIEW " +
				"only").WithHint("the command sql runs all statements")
		}
	}
	if len(parts) == 0 {
		return nil, cli.Usage("there is no definition in it")
	}
	return parts, nil
}

func tableListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     a.Use("list", ""),
		Short:   "List the tables",
		Long:    "List the tables with their keys and indexes, and the views.",
		Example: `  kstone-cli table list cities.db`,
		Args:    a.Arguments(0, 0),
	}
	definitionFlag(a, cmd)
	cmd.RunE = a.OnTables(cli.ReadOnly, func(_ context.Context, t *cli.Tables, _ []string) error {
		var rows [][]string
		for _, found := range t.Tables() {
			s := found.Schema()
			if a.Format != "" {
				if err := printDefinition(a, s); err != nil {
					return err
				}
				continue
			}
			var names []string
			for _, x := range s.Indexes {
				names = append(names, x.Name)
			}
			rows = append(rows, []string{s.Name, overview.PartitionText(s),
				overview.KeyColumnsText(s, s.SK), fmt.Sprint(s.All().Len()),
				strings.Join(names, ", ")})
		}
		if a.Format == "sql" {
			return printViews(a, t)
		}
		for _, v := range t.Views() {
			if a.Format == "" {
				rows = append(rows, []string{v.Name, "(view)", "", "", ""})
			}
		}
		if len(rows) == 0 {
			return nil
		}
		head := []string{"table", "partition key", "sort key", "columns", "indexes"}
		return a.Grid(head, rows, len(head))
	})
	return cmd
}

// printViews prints the statements that make views.
func printViews(a *cli.App, t *cli.Tables, names ...string) error {
	text, err := sql.ViewDefinitions(t.DB, names...)
	if err == nil {
		_, err = fmt.Fprint(a.Out, text)
	}
	return err
}

// definitionFlag adds -o json and -o sql.
func definitionFlag(a *cli.App, cmd *cobra.Command) {
	a.OutputFlag(cmd, "`FORMAT`: sql prints the statements that make the tables, json\n"+
		"their definitions, one a line; table create takes both", "jsonl", "sql", "json")
}

// printStatements prints the statements that make a table.
func printStatements(a *cli.App, t *schema.Table) error {
	text, err := sql.Definition(t)
	if err == nil {
		_, err = fmt.Fprint(a.Out, text)
	}
	return err
}

// printDefinition prints a table in the form of -o.
func printDefinition(a *cli.App, t *schema.Table) error {
	if a.Format == "sql" {
		return printStatements(a, t)
	}
	data, err := json.Marshal(t)
	if err == nil {
		_, err = fmt.Fprintf(a.Out, "%s\n", data)
	}
	return err
}

func tableDescribeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.Use("describe", "TABLE"),
		Short: "Show columns, keys, indexes and statistics of a table",
		Long: `Show the columns of a table, the statements that make it with its indexes, and its
statistics.`,
		Example: `  kstone-cli table describe cities.db cities
  kstone-cli table describe cities.db cities -o sql
  kstone-cli table describe cities.db cities -o json`,
		Args: a.Arguments(1, 1),
	}
	definitionFlag(a, cmd)
	cmd.RunE = a.OnTables(cli.ReadOnly, func(ctx context.Context, t *cli.Tables,
		args []string) error {
		found, err := t.Find(args[0])
		_, none := t.View(args[0])
		switch {
		case none == nil && a.Format == "":
			if err := runSQL(ctx, a, t, "DESCRIBE "+cli.QuoteName(args[0]), nil); err != nil {
				return err
			}
			return printViews(a, t, args[0])
		case none == nil:
			return printViews(a, t, args[0])
		case err != nil:
			return err
		case a.Format == "":
			return describe(a, found)
		}
		return printDefinition(a, found.Schema())
	})
	return cmd
}

func describe(a *cli.App, found *table.Table) error {
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
		if def = c.Generated.String(); c.Default != nil {
			def = c.Default.String()
		}
		rows = append(rows, []string{c.Name, c.TypeText(), null, def})
	}
	if err := a.Grid([]string{"column", "type", "", "default"}, rows, 4); err != nil {
		return err
	}
	if err := printStatements(a, t); err != nil {
		return err
	}
	for _, x := range t.Indexes {
		if x.State != schema.Ready {
			fmt.Fprintf(a.Out, "index %s: %s\n", x.Name, x.State)
		}
	}
	s := found.Stats()
	fmt.Fprintf(a.Out, "statistics: %s", s.Origin())
	if s != nil {
		fmt.Fprintf(a.Out, " of %s on average", figure.Bytes(int64(s.RowBytes)))
	}
	fmt.Fprintln(a.Out)
	return nil
}

func tableDropCommand(a *cli.App) *cobra.Command {
	var ifExists bool
	cmd := &cobra.Command{
		Use:   a.Use("drop", "TABLE"),
		Short: "Remove a table with all its rows",
		Long: `Remove a table, its rows and its indexes. If this is interrupted, the next drop
finishes it.`,
		Example: `  kstone-cli table drop cities.db cities`,
		Args:    a.Arguments(1, 1),
	}
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "it is not an error if the table is missing")
	a.DurabilityFlag(cmd)
	cmd.RunE = a.OnTables(cli.ReadWrite, func(ctx context.Context, t *cli.Tables,
		args []string) error {
		if _, err := t.Find(args[0]); err != nil {
			if ifExists && errors.Is(err, table.ErrNoTable) {
				return nil
			}
			return err
		}
		if err := t.DropTable(ctx, args[0], t.SQL.Progress); err != nil {
			return err
		}
		return t.Resume(ctx, t.SQL.Progress)
	})
	return cmd
}
