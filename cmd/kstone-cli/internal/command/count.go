package command

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
)

// countFlags are the flags of count.
type countFlags struct {
	conditions conditionFlags
	keys       rangeFlags
	where      whereFlag
	table      tableFlag
	internal   bool
}

func countCommand(a *cli.App) *cobra.Command {
	var f countFlags
	cmd := &cobra.Command{
		Use:   a.Use("count", "[PK [conditions] | --pk-prefix P | --table TABLE] [--where EXPR]"),
		Short: "Count items, or the rows of a table",
		Long: `Print the number of items: of the database, of a partition, or of those whose keys or
fields meet conditions, which are those of query and scan. What belongs to tables is
counted apart, on standard error, or with --internal as items; --table counts rows.`,
		Example: `  kstone-cli count my.db
  kstone-cli count cities.db US
  kstone-cli count cities.db IT --sk-prefix Lombardy
  kstone-cli count cities.db --where "lat > 60"
  kstone-cli count my.db --table towns`,
		Args: a.Arguments(0, 1),
	}
	f.conditions.add(a, cmd)
	f.keys.addPrefix(cmd)
	f.where.add(cmd)
	f.table.add(cmd)
	a.InternalFlag(cmd, &f.internal)
	a.AsOfFlag(cmd)
	cli.Before(cmd, func() error {
		return f.table.alone(cmd, "pk-prefix", "from", "to", "internal")
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		switch {
		case f.table.name != "" && (len(args) > 0 || f.conditions.given()):
			return cli.Usage("count: --table counts rows, which have no PK and sort key here").
				WithHint("--where restricts rows by their columns")
		case len(args) == 0 && f.conditions.given():
			return cli.Usage("count: conditions on the sort key need a partition").
				WithHint("usage: %s", cmd.UseLine())
		case len(args) > 0 && cmd.Flags().Changed("pk-prefix"):
			return cli.Usage("count: a PK and --pk-prefix exclude each other")
		case f.table.name != "":
			return a.WithTables(cmd.Context(), path, cli.ReadOnly, func(t *cli.Tables) error {
				return countRows(cmd.Context(), a, t, &f)
			})
		}
		return a.WithDB(path, cli.ReadOnly, func(d *cli.Database) error {
			return count(cmd.Context(), a, d, args, &f)
		})
	}
	return cmd
}

func countRows(ctx context.Context, a *cli.App, t *cli.Tables, f *countFlags) error {
	text, err := f.table.query(t, "count(*)", f.where.text)
	if err != nil {
		return err
	}
	rows, err := t.SQL.Query(ctx, text)
	if err != nil {
		return err
	}
	for row, err := range rows.All() {
		if err != nil {
			return err
		}
		n, _ := row[0].AsInt()
		if err := printCount(a, n); err != nil {
			return err
		}
	}
	return nil
}

// printCount prints a number, with commas for people only.
func printCount(a *cli.App, n int64) error {
	text := strconv.FormatInt(n, 10)
	if a.OutTTY {
		text = figure.Count(n)
	}
	_, err := fmt.Fprintln(a.Out, text)
	return err
}

// count counts items, and apart from them what belongs to tables, by its owner.
func count(ctx context.Context, a *cli.App, d *cli.Database, args []string, f *countFlags) error {
	condition, err := f.where.parse(d.Schema)
	if err != nil {
		return err
	}
	snap, err := a.Snapshot(d)
	if err != nil {
		return err
	}
	defer snap.Close()
	var n int64
	others := &overview.Tally{}
	if len(args) == 1 {
		q, err := query(a, d, args[0], &f.conditions)
		if err != nil {
			return err
		}
		q.Filter = condition.and(q.Filter)
		if n, err = snap.Count(ctx, q); err != nil {
			return err
		}
	} else {
		if others.Owners, err = a.Owners(ctx, d); err != nil {
			return err
		}
		sc := engine.Scan{Unordered: true}
		if err := f.keys.restrict(a, d.Schema, &sc); err != nil {
			return err
		}
		var keep func(engine.Item) bool
		if !f.internal {
			keep = others.Outer()
		}
		keep = condition.and(keep)
		items := cli.Followed(a, "counting", int64(d.Metrics().Total.Records), snap.Scan(ctx, sc))
		for item, err := range items {
			if err != nil {
				return err
			}
			if keep == nil || keep(item) {
				n++
			}
		}
	}
	if err := printCount(a, n); err != nil {
		return err
	}
	condition.note(a.Err)
	if len(others.Shares) > 0 {
		fmt.Fprintln(a.Err, "beside them (--table counts rows, --internal everything):")
		others.Write(a.Err)
	}
	return nil
}
