// Package report has the command that describes a database in one HTML file.
package report

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/overview"
)

// maxExact is up to how many records are counted one by one.
const maxExact = 20_000_000

// Command returns the command report.
func Command(a *cli.App) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   a.Use("report", "[-o FILE]"),
		Short: "Describe the database in one HTML page",
		Long: `Write a page about the database: the stripes with their files, heat maps, the largest
partitions, tables and indexes with what they take, filters and zone maps at work, and
what to do next. It is one file without scripts, which needs no network.

Up to 20 million records are read and counted. Beyond that the figures are those of
the files. What a program reads and writes is in its metrics, not in this page.`,
		Example: `  kstone-cli report cities.db -o report.html
  kstone-cli report cities.db > report.html`,
		Args: a.Arguments(0, 0),
	}
	cmd.Flags().StringVarP(&to, "output", "o", "", "write to this `FILE`; default: standard output")
	_ = cmd.MarkFlagFilename("output", "html")
	cmd.RunE = a.OnDB(cli.ReadOnly, func(ctx context.Context, d *cli.Database, _ []string) error {
		if d.Dir() == "" {
			return cli.Usage("report: a database in memory has no files to describe")
		}
		r, err := overview.Collect(ctx, overview.Source{DB: d.DB, Name: filepath.Base(d.Path),
			Version: cli.Build(), Now: time.Now(), Keys: d.Schema.Flags(),
			FormatPK: d.Schema.FormatPK, MaxExact: maxExact, Probe: true,
			Follow: func(total int64, items iter.Seq2[engine.Item, error],
			) iter.Seq2[engine.Item, error] {
				return cli.Followed(a, "reading", total, items)
			}})
		if err != nil {
			return err
		}
		err = a.Into(to, func() error {
			out := bufio.NewWriter(a.Out)
			if err := r.WriteReport(out); err != nil {
				return err
			}
			return out.Flush()
		})
		if err == nil && to != "" {
			path, _ := filepath.Abs(to)
			fmt.Fprintf(a.Err, "wrote %s; open it in a browser\n", path)
		}
		return err
	})
	return cmd
}
