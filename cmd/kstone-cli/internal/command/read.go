package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
)

func queryCommand(a *cli.App) *cobra.Command {
	var conditions conditionFlags
	var page pageFlags
	var where whereFlag
	cmd := &cobra.Command{
		Use: a.Use("query", "PK [conditions] [--where EXPR] [--reverse] [--limit N] "+
			"[--after CURSOR] [--keys-only]"),
		Short: "List the items of one partition, in the order of their sort keys",
		Long: `List the items of one partition, in the order of their sort keys. Conditions compare
bytes, or the fields of the sort key if an import has declared some; then operands
may name just the first fields ("Lombardy" is the first, '["Lombardy","X"]' two).

--where is a condition of the query language (see help sql) on the fields of keys and of
values that are JSON objects: "a.b" is the member b of a. What has no such field is NULL.

If --limit cuts the list, a cursor is printed as "next: CURSOR" on standard error.
With --after CURSOR the same query goes on exactly there, whatever was written since.`,
		Example: `  kstone-cli query my.db user#1
  kstone-cli query my.db user#1 --sk-begins-with post# --reverse --limit 10
  kstone-cli query my.db sensor --sk-between 2026-01-01,2026-02-01
  kstone-cli query cities.db IT --sk-prefix Lombardy --sk-prefix "Provincia di Brescia"
  kstone-cli query cities.db IT --sk-prefix Lombardy --sk-ge "Provincia di Milano"
  kstone-cli query cities.db IT --where "lat > 46.5"`,
		Args: a.Arguments(1, 1),
	}
	conditions.add(a, cmd)
	where.add(cmd)
	page.add(a, cmd)
	a.ItemFlag(cmd)
	a.AsOfFlag(cmd)
	cmd.RunE = a.OnDB(cli.ReadOnly, func(ctx context.Context, d *cli.Database,
		args []string) error {
		q, err := query(a, d, args[0], &conditions)
		if err != nil {
			return err
		}
		f, err := where.parse(d.Schema)
		if err != nil {
			return err
		}
		q.Reverse, q.Filter = page.reverse, f.and(q.Filter)
		return list(ctx, a, d, &page, querySelection(d, q, page.keysOnly),
			func(bool) { f.note(a.Err) })
	})
	return cmd
}

// query builds the query for a partition and conditions.
func query(a *cli.App, d *cli.Database, pkText string, c *conditionFlags) (q engine.Query,
	err error) {
	pk, err := a.Arg("PK", pkText)
	if err != nil {
		return q, err
	}
	if q.PK, err = d.Schema.PK(pk); err != nil {
		return q, err
	}
	condition, err := c.condition(a)
	if err != nil {
		return q, err
	}
	r, err := d.Schema.Range(condition)
	q.SK, q.Filter = r.SK, r.Filter
	return q, err
}

// scanFlags are the flags of scan.
type scanFlags struct {
	page      pageFlags
	keys      rangeFlags
	where     whereFlag
	table     tableFlag
	segment   string
	unordered bool
	internal  bool
}

func scanCommand(a *cli.App) *cobra.Command {
	var f scanFlags
	cmd := &cobra.Command{
		Use: a.Use("scan", "[--pk-prefix P | --from KEY --to KEY | --table TABLE] [--where EXPR] "+
			"[--limit N] [--keys-only]"),
		Short: "List all items, or the rows of a table",
		Long: `List all items in the order of their keys. Rows of tables and entries of indexes are
only counted: --table lists rows, --internal everything that is stored.

--where is a condition of the query language (see help sql) on the fields of keys and of
values that are JSON objects, "a.b" being the member b of a; with --table on columns.

--unordered lists items stripe by stripe, which is about twice as fast. Segments divide
them into n disjoint parts, counted from 0, for readers in parallel.`,
		Example: `  kstone-cli scan my.db --limit 20
  kstone-cli scan my.db -o jsonl --keys-only | wc -l
  kstone-cli scan my.db --pk-prefix user: --where "age >= 18 AND address.city = 'Pisa'"
  kstone-cli scan my.db --from 2026-01-01 --to 2026-01-31
  kstone-cli scan my.db --table towns --where "people > 100000"
  kstone-cli scan my.db --segment 0/4 --unordered -o jsonl`,
		Args: a.Arguments(0, 0),
	}
	f.page.add(a, cmd)
	f.keys.add(a, cmd)
	f.where.add(cmd)
	f.table.add(cmd)
	cmd.Flags().StringVar(&f.segment, "segment", "", "part `i/n`, counted from 0, for example 0/4")
	cmd.Flags().BoolVar(&f.unordered, "unordered", false,
		"list stripe by stripe instead of in key order")
	a.InternalFlag(cmd, &f.internal)
	a.ItemFlag(cmd)
	a.AsOfFlag(cmd)
	cli.Before(cmd, func() error {
		return f.table.alone(cmd, "pk-prefix", "from", "to", "segment", "unordered", "internal",
			"after", "reverse", "keys-only")
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, _ := a.Split(args)
		if f.table.name != "" {
			return a.WithTables(cmd.Context(), path, cli.ReadOnly, func(t *cli.Tables) error {
				text, err := f.table.query(t, "*", f.where.text)
				if err != nil {
					return err
				}
				if f.page.limit > 0 {
					text += " LIMIT " + strconv.Itoa(f.page.limit)
				}
				return runSQL(cmd.Context(), a, t, text, nil)
			})
		}
		sc := engine.Scan{Unordered: f.unordered, Reverse: f.page.reverse}
		if err := parseSegment(f.segment, &sc); err != nil {
			return err
		}
		return a.WithDB(path, cli.ReadOnly, func(d *cli.Database) error {
			return scan(cmd.Context(), a, d, &f, sc)
		})
	}
	return cmd
}

// scan lists items, and counts what is left out because it belongs to tables.
func scan(ctx context.Context, a *cli.App, d *cli.Database, f *scanFlags, sc engine.Scan) error {
	if err := f.keys.restrict(a, d.Schema, &sc); err != nil {
		return err
	}
	condition, err := f.where.parse(d.Schema)
	if err != nil {
		return err
	}
	owners, err := a.Owners(ctx, d)
	if err != nil {
		return err
	}
	others := &overview.Tally{Owners: owners}
	if !f.internal {
		sc.Filter = others.Outer()
	}
	sc.Filter = condition.and(sc.Filter)
	return list(ctx, a, d, &f.page, scanSelection(d, sc, f.page.keysOnly), func(whole bool) {
		condition.note(a.Err)
		switch {
		case len(others.Shares) > 0 && whole:
			fmt.Fprintln(a.Err, "left out (--table lists rows, --internal everything):")
			others.Write(a.Err)
		case !whole && len(owners.Tables) > 0 && !f.internal:
			fmt.Fprintf(a.Err, "left out: the rows and indexes of %s (--table lists rows)\n",
				figure.Plural(int64(len(owners.Tables)), "table"))
		}
	})
}

func parseSegment(text string, sc *engine.Scan) error {
	if text == "" {
		return nil
	}
	i, n, ok := strings.Cut(text, "/")
	segment, err1 := strconv.Atoi(i)
	segments, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || segments < 1 || segments > 256 ||
		segment < 0 || segment >= segments {
		return cli.Usage("--segment %q is not i/n with 0 <= i < n <= 256", text).
			WithHint("--segment 0/4 is the first of four parts, --segment 3/4 the last")
	}
	sc.Segment, sc.Segments = segment, segments
	return nil
}
