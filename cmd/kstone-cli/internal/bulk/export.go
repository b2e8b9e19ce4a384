package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
)

// ExportCommand returns the command export.
func ExportCommand(a *cli.App) *cobra.Command {
	var table, to string
	var internal bool
	cmd := &cobra.Command{
		Use:   a.Use("export", "[--table TABLE] [-o jsonl|csv|dynamodb] [--to FILE]"),
		Short: "Write all items as records that import reads back",
		Long: `Write all items to standard output, in key order, as records from which import makes
the same items again: keys, values and expiry times, binary ones included.

Records have the fields of the keys first, then those of the value. What does not fit
into fields is written whole as the field "$item". In a database whose keys have no fields
all records are of the form {"pk":…,"sk":…,"value":…,"expires":…}.

--table writes the rows of a table, from which import --table makes the same rows in a
table of the same columns. In CSV, NULL is an empty cell, an empty text "", a list JSON.

-o dynamodb writes lines that DynamoDB imports from S3, with a type for each value. A file
of --to whose name ends in .gz is compressed.`,
		Example: `  kstone-cli export cities.db > cities.jsonl
  kstone-cli export cities.db --to cities.jsonl
  kstone-cli export cities.db -o csv | gzip > cities.csv.gz
  kstone-cli export a.db | kstone-cli import b.db -
  kstone-cli export my.db --table towns -o csv
  kstone-cli export shop.db -o dynamodb --to shop.json.gz`,
		Args: a.Arguments(0, 0),
	}
	formats := []string{"jsonl", "csv", string(present.DynamoDB)}
	a.OutputVar(cmd, "`FORMAT`: jsonl, csv or dynamodb; default: jsonl", formats)
	cmd.Flags().StringVar(&table, "table", "", "write the rows of this `TABLE`")
	a.ToFlag(cmd, &to)
	a.InternalFlag(cmd, &internal)
	a.AsOfFlag(cmd)
	cli.Before(cmd, func() error {
		if a.Format == "" {
			a.Format = formats[0]
		}
		if slices.Contains(formats, a.Format) {
			return nil
		}
		return cli.Usage("export: -o is jsonl, csv or dynamodb, not %q", a.Format).
			WithHint("scan writes the other formats")
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, _ := a.Split(args)
		if table == "" {
			return a.WithDB(path, cli.ReadOnly, func(d *cli.Database) error {
				return into(a, to, func() error {
					return exportItems(cmd.Context(), a, d, internal)
				})
			})
		}
		return a.WithTables(cmd.Context(), path, cli.ReadOnly, func(t *cli.Tables) error {
			return into(a, to, func() error { return exportTable(cmd.Context(), a, t, table) })
		})
	}
	return cmd
}

// into is App.Into, and compresses a file whose name says so.
func into(a *cli.App, name string, fn func() error) error {
	return a.Into(name, func() error {
		if !strings.HasSuffix(name, ".gz") {
			return fn()
		}
		file := a.Out
		z := gzip.NewWriter(file)
		a.Out = z
		defer func() { a.Out = file }()
		return errors.Join(fn(), z.Close())
	})
}

func exportItems(ctx context.Context, a *cli.App, d *cli.Database, internal bool) error {
	owners, err := a.Owners(ctx, d)
	if err != nil {
		return err
	}
	snap, err := a.Snapshot(d)
	if err != nil {
		return err
	}
	defer snap.Close()
	others := &overview.Tally{Owners: owners}
	items := snap.Scan(ctx, engine.Scan{})
	if !a.OutTTY {
		items = cli.Followed(a, "exporting", int64(d.Metrics().Total.Records), items)
	}
	if !internal {
		items = kept(items, others.Outer())
	}
	odd := 0 // DynamoDB does not take what lacks the attributes of the key
	if a.Format == string(present.DynamoDB) && d.Schema != nil {
		var r layout.Record
		items = kept(items, func(item engine.Item) bool {
			if d.Schema.Split(&item, &r); !r.Typed {
				odd++
			}
			return true
		})
	}
	n, err := present.Write(a.Out, items, a.Options(d.Schema, true))
	if err != nil {
		return err
	}
	if odd > 0 {
		fmt.Fprintf(a.Err, "%s without fields of the key: import reads $item, DynamoDB does not\n",
			figure.Plural(int64(odd), "item"))
	}
	fmt.Fprintf(a.Err, "exported %s; read them back with: %s import NEW.db FILE --format %s"+
		" %s\n", figure.Plural(int64(n), "item"), cli.Program, a.Format, d.Schema.Flags())
	if len(others.Shares) > 0 {
		fmt.Fprintf(a.Err, "left out are tables and indexes (dump and --table write them):\n")
		others.Write(a.Err)
	}
	return nil
}

// kept returns the items that a filter accepts, all without one.
func kept(items present.Items, filter func(engine.Item) bool) present.Items {
	if filter == nil {
		return items
	}
	return func(yield func(engine.Item, error) bool) {
		for item, err := range items {
			if (err != nil || filter(item)) && !yield(item, err) {
				return
			}
		}
	}
}

func exportTable(ctx context.Context, a *cli.App, t *cli.Tables, name string) error {
	found, err := t.Find(name)
	if err != nil {
		return err
	}
	rows, err := t.SQL.Query(ctx, "SELECT * FROM "+cli.QuoteName(found.Name()))
	if err != nil {
		return err
	}
	result := cli.ResultOf(rows)
	result.Rows = a.FollowedRows("exporting", found, result.Rows)
	n, err := present.WriteRows(a.Out, result, a.Options(nil, true))
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "exported %s; in a table of the same columns (table describe -o sql)"+
		" import FILE --format %s --table makes them again\n", figure.Rows(int64(n)), a.Format)
	return nil
}
