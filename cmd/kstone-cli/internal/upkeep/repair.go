package upkeep

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
)

// RepairCommand returns the command repair.
func RepairCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repair DB DEST",
		Short: "Save what is intact of a damaged database",
		Long: `Make a new database in the new directory DEST of everything that is intact in the
damaged one: block by block from data files, record by record from the log, and without
a manifest if need be. DB is not changed. What is lost is listed with file, stripe and
range of keys; the exit code is then 5, although the new database is there and has been
verified. It has the settings of the damaged one, if its manifest can be read.`,
		Example: "  kstone-cli repair broken.db rescued.db",
		Args:    cli.Words(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, dest := args[0], args[1]
			if _, err := os.Stat(src); err != nil {
				return cli.Usage("repair: there is no %s", src)
			}
			var o engine.Options
			if err := cli.Choose(&o, a.Set); err != nil {
				return err
			}
			start := time.Now()
			progress, stop := a.Gauge("repairing")
			rep, err := engine.Repair(cmd.Context(), src, dest, &o, progress)
			stop()
			if err != nil {
				return err
			}
			return reportRepair(a, dest, rep, time.Since(start))
		},
	}
	a.SetFlag(cmd)
	return cmd
}

func reportRepair(a *cli.App, dest string, rep engine.RepairReport, took time.Duration) error {
	for _, l := range rep.Lost {
		fmt.Fprintln(a.Out, l)
	}
	for _, d := range rep.Doubts {
		fmt.Fprintln(a.Out, "doubt:", d)
	}
	fmt.Fprintf(a.Out, "%s: %s of %s in %s and %s, in %s\n", dest,
		figure.Plural(int64(rep.Items), "item"), figure.Plural(int64(rep.Entries), "version"),
		figure.Plural(int64(rep.Files), "file"), figure.Plural(rep.LogRecords, "log record"),
		figure.Duration(took))
	if len(rep.Lost) == 0 {
		return nil
	}
	return cli.Advise(fmt.Errorf("%s could not be saved: %w",
		figure.Plural(int64(len(rep.Lost)), "part"), engine.ErrCorrupt),
		dest+" has everything else and is verified")
}
