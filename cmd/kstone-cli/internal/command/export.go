package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
)

func (a *app) exportCommand() *cobra.Command {
	var table string
	cmd := &cobra.Command{
		Use:   a.use("export", "[--table TABLE] [-o jsonl|csv]"),
		Short: "Write all items as records that import reads back",
		Long: `Write all items to standard output, in key order, as records from which import makes
the same items again: keys, values and expiry times, binary ones included.

Records have the fields of the keys first, then those of the value. What does not fit
into fields stands whole in the field "$item". In a database whose keys have no fields
all records are of the form {"pk":…,"sk":…,"value":…,"expires":…}.

--table writes the rows of a table, from which import --table makes the same rows in a
table of the same columns. In CSV, NULL is an empty cell, an empty text "", a list JSON.`,
		Example: `  kstone-cli export cities.db > cities.jsonl
  kstone-cli export cities.db -o csv | gzip > cities.csv.gz
  kstone-cli export a.db | kstone-cli import b.db -
  kstone-cli export my.db --table towns -o csv`,
		Args: a.arguments(0, 0),
	}
	a.outputVar(cmd, "`FORMAT`: jsonl or csv; default: jsonl", []string{"jsonl", "csv"})
	cmd.Flags().StringVar(&table, "table", "", "write the rows of this `TABLE`")
	before(cmd, func() error {
		switch a.format {
		case "":
			a.format = "jsonl"
			return nil
		case "jsonl", "csv":
			return nil
		}
		return usage("export: -o is jsonl or csv, not %q", a.format).
			withHint("scan writes the other formats")
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, _ := a.split(args)
		if table == "" {
			return a.withDB(path, readOnly, func(d *database) error {
				return a.exportItems(cmd.Context(), d)
			})
		}
		return a.withTables(cmd.Context(), path, readOnly, func(t *tables) error {
			return a.exportTable(cmd.Context(), t, table)
		})
	}
	return cmd
}

func (a *app) exportItems(ctx context.Context, d *database) error {
	snap, err := d.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	n, err := present.Write(a.out, snap.Scan(ctx, engine.Scan{}), a.options(d.schema, true))
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "exported %s; read them back with: %s import NEW.db FILE --format %s"+
		" %s\n", present.Plural(int64(n), "item"), program, a.format, d.schema.Flags())
	return nil
}

func (a *app) exportTable(ctx context.Context, t *tables, name string) error {
	found, err := t.find(name)
	if err != nil {
		return err
	}
	rows, err := t.sql.Query(ctx, "SELECT * FROM "+quoteName(found.Name()))
	if err != nil {
		return err
	}
	n, err := present.WriteRows(a.out, resultOf(rows), a.options(nil, true))
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "exported %s; in a table of the same columns (table describe -o sql)"+
		" import FILE --format %s --table makes them again\n", present.Rows(int64(n)), a.format)
	return nil
}
