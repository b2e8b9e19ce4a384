package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
)

func indexCommand(a *cli.App) *cobra.Command {
	return cli.Family(&cobra.Command{
		Use:   "index",
		Short: "Create, list, drop and verify indexes of tables",
		Long: `An index keeps the rows of a table in a second order. Entries are written with their
rows in one step, so an index is never stale; verify proves it.`,
		Example: `  kstone-cli index create cities.db cities by_city city
  kstone-cli index verify cities.db cities`,
	}, indexCreateCommand(a), indexListCommand(a), indexDropCommand(a), indexVerifyCommand(a))
}

// indexFlags say what an index is like.
type indexFlags struct {
	unique, local bool
	include       []string
	shard         string
	where         string
}

func indexCreateCommand(a *cli.App) *cobra.Command {
	var f indexFlags
	cmd := &cobra.Command{
		Use:   a.Use("create", "TABLE INDEX COLUMN…"),
		Short: "Add an index to a table and build it",
		Long: `Add an index and build it from the rows that are there. A COLUMN may have desc, or
nulls first or last, after its name, and each before it for one entry for every
element of a list. If the build is interrupted, the same command goes on with it.`,
		Example: `  kstone-cli index create cities.db cities by_city city 'lat desc'
  kstone-cli index create my.db users by_email email --unique --shard 16`,
		Args: a.Arguments(3, -1),
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.unique, "unique", false, "no two rows may agree in all columns")
	flags.BoolVar(&f.local, "local", false, "keep the entries in the stripes of their rows")
	flags.StringSliceVar(&f.include, "include", nil,
		"`COLUMNS` that entries also hold, so that rows need not be fetched")
	flags.StringVar(&f.shard, "shard", "",
		"spread entries over `N` buckets; N,FUNCTION names the function")
	flags.StringVar(&f.where, "where", "", "index only rows for which this `CONDITION` is true")
	a.DurabilityFlag(cmd)
	cmd.RunE = onIndex(a, f.statement)
	return cmd
}

// onIndex is the action of a command that runs a statement about the table that its first
// argument names, and finishes what an interrupted one has left.
func onIndex(a *cli.App, statement func(args []string) string) cli.Action {
	return a.OnTables(cli.ReadWrite, func(ctx context.Context, t *cli.Tables, args []string) error {
		if _, err := t.Find(args[0]); err != nil {
			return err
		}
		if err := runSQL(ctx, a, t, statement(args), nil); err != nil {
			return err
		}
		return t.Resume(ctx, t.SQL.Progress)
	})
}

// statement returns the CREATE INDEX statement for the arguments.
func (f *indexFlags) statement(args []string) string {
	var b strings.Builder
	b.WriteString("CREATE ")
	if f.unique {
		b.WriteString("UNIQUE ")
	}
	fmt.Fprintf(&b, "INDEX %s ON %s (%s)", cli.QuoteName(args[1]), cli.QuoteName(args[0]),
		strings.Join(args[2:], ", "))
	if len(f.include) > 0 {
		fmt.Fprintf(&b, " INCLUDE (%s)", strings.Join(f.include, ", "))
	}
	if f.shard != "" {
		fmt.Fprintf(&b, " SHARD (%s)", f.shard)
	}
	if f.local {
		b.WriteString(" LOCAL")
	}
	if f.where != "" {
		fmt.Fprintf(&b, " WHERE %s", f.where)
	}
	return b.String()
}

func indexListCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     a.Use("list", "[TABLE]"),
		Short:   "List the indexes",
		Long:    "List the indexes of a table, or of all tables.",
		Example: `  kstone-cli index list cities.db`,
		Args:    a.Arguments(0, 1),
		RunE: a.OnTables(cli.ReadOnly, func(_ context.Context, t *cli.Tables, args []string) error {
			list, err := chosen(t, args)
			if err != nil {
				return err
			}
			for _, found := range list {
				s := found.Schema()
				for _, x := range s.Indexes {
					_, err := fmt.Fprintf(a.Out, "%s.%s %s\n", s.Name, x.Name,
						overview.IndexText(s, x))
					if err != nil {
						return err
					}
				}
			}
			return nil
		}),
	}
}

// chosen returns the table that is named, or all.
func chosen(t *cli.Tables, args []string) ([]*table.Table, error) {
	if len(args) == 0 {
		return t.Tables(), nil
	}
	found, err := t.Find(args[0])
	return []*table.Table{found}, err
}

func indexDropCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.Use("drop", "TABLE INDEX"),
		Short: "Remove an index",
		Long: `Remove an index of a table. If this is interrupted, the next drop
finishes it.`,
		Example: `  kstone-cli index drop cities.db cities by_city`,
		Args:    a.Arguments(2, 2),
		RunE: onIndex(a, func(args []string) string {
			return fmt.Sprintf("DROP INDEX %s ON %s", cli.QuoteName(args[1]),
				cli.QuoteName(args[0]))
		}),
	}
	a.DurabilityFlag(cmd)
	return cmd
}

func indexVerifyCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   a.Use("verify", "[TABLE]"),
		Short: "Check that every row has its entries and every entry its row",
		Long: `Check, in one snapshot, that every row has its entries in all indexes and that every
entry belongs to a row. Damage is reported and the exit code is then 5.`,
		Example: `  kstone-cli index verify cities.db
  kstone-cli index verify cities.db cities`,
		Args: a.Arguments(0, 1),
		RunE: a.OnTables(cli.ReadOnly, func(ctx context.Context, t *cli.Tables,
			args []string) error {
			return verifyIndexes(ctx, a, t, args)
		}),
	}
}

func verifyIndexes(ctx context.Context, a *cli.App, t *cli.Tables, args []string) error {
	list, err := chosen(t, args)
	if err != nil {
		return err
	}
	var failed error
	for _, found := range list {
		report, err := found.Verify(ctx, t.SQL.Progress)
		if report != nil {
			printReport(a, found.Name(), report)
		}
		if err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

func printReport(a *cli.App, name string, r *table.Report) {
	fmt.Fprintf(a.Out, "%s: %s", name, figure.Rows(r.Rows))
	for _, index := range slices.Sorted(maps.Keys(r.Entries)) {
		fmt.Fprintf(a.Out, ", %s %s", index, figure.Count(r.Entries[index]))
	}
	fmt.Fprintln(a.Out)
	for _, d := range r.Damages {
		where := "index " + d.Index
		if d.Index == plan.PrimaryIndex {
			where = "rows"
		}
		fmt.Fprintf(a.Out, "  %s: %s\n", where, d.What)
	}
	if more := r.Damaged - int64(len(r.Damages)); more > 0 {
		fmt.Fprintf(a.Out, "  … and %s\n", figure.Plural(more, "more damage"))
	}
}
