package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
)

// VerifyCommand returns the command verify.
func VerifyCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.Use("verify", ""),
		Short: "Check every stored byte",
		Long: `Read the whole database and check all checksums, the order of the keys, the zone maps
and filters against the content, the manifest against the files, and retained log. The
rest of the log is checked when the database is opened. Nothing is changed. All damage
is listed; the exit code is then 5.`,
		Example: "  kstone-cli verify cities.db",
		Args:    a.Arguments(0, 0),
	}
	cmd.RunE = a.OnDB(cli.ReadOnly, func(ctx context.Context, d *cli.Database, _ []string) error {
		start := time.Now()
		set, stop := a.Gauge("verifying")
		report, err := d.Verify(ctx, func(p engine.VerifyProgress) { set(p.Bytes, p.BytesTotal) })
		stop()
		if err != nil {
			return err
		}
		without := ""
		if n := report.Unfiltered; n > 0 {
			without = fmt.Sprintf(" (%d without filters)", n)
		}
		retained := ""
		if n := report.RetainedRecords; n > 0 {
			retained = ", " + figure.Plural(n, "retained commit")
		}
		_, err = fmt.Fprintf(a.Out, "ok: %s%s, %s%s, %s read in %s\n",
			figure.Plural(int64(report.Files), "file"), without,
			figure.Plural(int64(report.Entries), "record"), retained,
			figure.Bytes(report.Bytes), figure.Duration(time.Since(start)))
		return err
	})
	return cmd
}

// FlushCommand returns the command flush.
func FlushCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   a.Use("flush", ""),
		Short: "Write the contents of memory and log to data files",
		Long: `Write everything that is only in the log to data files. It makes the next open a bit
faster; nothing else needs it.`,
		Example: "  kstone-cli flush my.db",
		Args:    a.Arguments(0, 0),
		RunE: upkeep(a, cli.Work{Doing: "flushing", Sized: true}, "flushed", flushed,
			(*engine.DB).Flush),
	}
}

// CompactCommand returns the command compact.
func CompactCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   a.Use("compact", ""),
		Short: "Merge every stripe into one run",
		Long: `Merge every stripe into one sorted run, dropping what was deleted, overwritten or has
expired. kstone merges by itself; this makes the database as small and as fast to
read as it gets.`,
		Example: "  kstone-cli compact my.db",
		Args:    a.Arguments(0, 0),
		RunE: upkeep(a, cli.Work{Doing: "compacting stripes"}, "compacted", merged,
			(*engine.DB).Compact),
	}
}

// merged counts the stripes that are one run, of all.
func merged(m engine.Metrics) (done, total int64) {
	for i := range m.Stripes {
		if m.Stripes[i].Runs <= 1 {
			done++
		}
	}
	return done, int64(len(m.Stripes))
}

// flushed returns how many bytes are still in memory, as a negative number that grows to 0.
func flushed(m engine.Metrics) (done, total int64) { return -m.MemtableBytes, 0 }

// upkeep is the action of a command that runs a maintenance operation and reports what it
// changed. Progress returns how much is done, and the total.
func upkeep(a *cli.App, w cli.Work, done string, progress func(engine.Metrics) (int64, int64),
	run func(*engine.DB, context.Context) error) cli.Action {
	return a.OnDB(cli.ReadWrite, func(ctx context.Context, d *cli.Database, _ []string) error {
		before, start := d.Metrics(), time.Now()
		first, total := progress(before)
		w.Total = total - first
		w.Done = func() int64 {
			n, _ := progress(d.Metrics())
			return n - first
		}
		if err := a.Busy(w, func() error { return run(d.DB, ctx) }); err != nil {
			return err
		}
		after := d.Metrics()
		_, err := fmt.Fprintf(a.Out, "%s in %s: %s in %s (before: %s in %s)\n", done,
			figure.Duration(time.Since(start)),
			figure.Bytes(after.Total.DiskBytes), figure.Plural(int64(after.Total.Files), "file"),
			figure.Bytes(before.Total.DiskBytes), figure.Plural(int64(before.Total.Files),
				"file"))
		return err
	})
}

// BackupCommand returns the command backup.
func BackupCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.Use("backup", "DEST"),
		Short: "Copy the database",
		Long: `Make a copy of the database in the new directory DEST. The copy is a database of its
own: it can be opened, moved and changed without touching the original, which another
program may have open and write to meanwhile. Data files are
hard links where DEST is on the same file system, so that it takes little time and
space; elsewhere they are copied, at most at the --rate given. A backup that is
interrupted leaves nothing in DEST. To - it is a tar archive with checksums on standard
output, for restore - or tar.`,
		Example: `  kstone-cli backup cities.db cities-backup.db
  kstone-cli backup cities.db /mnt/backup/cities.db --rate 50MiB
  kstone-cli backup cities.db - | zstd > cities.zst`,
		Args: a.Arguments(1, 1),
	}
	var o engine.CheckpointOptions
	cmd.Flags().Func("rate",
		"copy at most so many `BYTES` per second, for example 50MiB; 0 means no limit",
		func(text string) (err error) {
			o.BytesPerSecond, err = figure.ParseBytes(text)
			return err
		})
	cmd.RunE = a.OnDB(cli.ReadOnly, func(ctx context.Context, d *cli.Database,
		args []string) error {
		ctx, release := cli.UntilStopped(ctx)
		defer release()
		if args[0] == "-" {
			return streamBackup(ctx, a, d.DB)
		}
		start := time.Now()
		set, stop := a.Gauge("copying")
		o.Progress = func(p engine.CheckpointProgress) { set(p.Bytes, p.BytesTotal) }
		err := d.Checkpoint(ctx, args[0], &o)
		stop()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "copied to %s in %s\n", args[0],
			figure.Duration(time.Since(start)))
		return err
	})
	return cmd
}
