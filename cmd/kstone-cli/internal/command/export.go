package command

import (
	"context"

	"fmt"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
)

func (a *app) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.use("export", "[-o jsonl|csv]"),
		Short: "Write all items as records that import reads back",
		Long: `Write all items to standard output, in key order, as records from which import makes
the same items again: keys, values and expiry times, binary ones included.

Records have the fields of the keys first, then those of the value. What does not fit
into fields stands whole in the field "$item". In a database whose keys have no fields
all records are of the form {"pk":…,"sk":…,"value":…,"expires":…}.`,
		Example: `  kstone-cli export cities.db > cities.jsonl
  kstone-cli export cities.db -o csv | gzip > cities.csv.gz
  kstone-cli export a.db | kstone-cli import b.db -`,
		Args: a.arguments(0, 0),
	}
	a.outputVar(cmd, "`FORMAT`: jsonl or csv; default: jsonl", []string{"jsonl", "csv"})
	before(cmd, func() error {
		switch a.format {
		case "", "jsonl", "csv":
			return nil
		}
		return usage("export: -o is jsonl or csv, not %q", a.format).
			withHint("scan writes the other formats")
	})
	cmd.RunE = a.onDB(readOnly, func(ctx context.Context, d *database, _ []string) error {
		snap, err := d.Snapshot()
		if err != nil {
			return err
		}
		defer snap.Close()
		if a.format == "" {
			a.format = "jsonl"
		}
		n, err := present.Write(a.out, snap.Scan(ctx, engine.Scan{}), a.options(d.schema, true))
		if err != nil {
			return err
		}
		fmt.Fprintf(a.err, "exported %s; read them back with: %s import NEW.db FILE --format %s"+
			" %s\n", present.Plural(int64(n), "item"), program, a.format, d.schema.Flags())
		return nil
	})
	return cmd
}
