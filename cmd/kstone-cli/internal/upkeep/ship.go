package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/figure"
)

// ShipCommand returns the command ship.
func ShipCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.Use("ship", "DEST"),
		Short: "Copy what is new to a destination",
		Long: `Bring DEST up to date with the database: first with a full copy, then with the
commits since the last time. Any of them can be restored. A copy that is made later
has only the data files that are new. DEST is a directory, or s3://BUCKET/PREFIX, which
kstone-cli-stores takes. The setting retain-bytes must be chosen, so that commits are
kept until they are shipped.

It works beside the program that writes the database, too, and goes on each second with
--follow, until it is stopped. The database then waits for no shipper: choose retain-age,
so that commits stay for the time in which none runs. A program ships by itself with
package engine/ship.`,
		Example: `  kstone-cli settings orders.db retain-bytes=1GiB
  kstone-cli ship orders.db /mnt/backup/orders
  kstone-cli ship orders.db /mnt/backup/orders --follow
  kstone-cli restore /mnt/backup/orders --list`,
		Args: a.Arguments(1, 1),
	}
	var o ship.Options
	var follow bool
	cmd.Flags().BoolVar(&o.BeginAgain, "begin-again", false,
		"make a new full copy if commits are missing that were not shipped")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with what is committed later")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		run := func(d *cli.Database) error {
			if err := d.Retained(); err != nil {
				return err
			}
			return shipTo(cmd.Context(), a, d.DB, args[0], o, follow)
		}
		if follow {
			return a.WithDB(path, cli.ReadOnly, run)
		}
		err := a.WithDB(path, cli.ReadWrite, run)
		if errors.Is(err, engine.ErrLocked) { // beside the program that writes
			err = a.WithDB(path, cli.ReadOnly, run)
		}
		return err
	}
	return cmd
}

// lastShipment is how long a shipper that is stopped tries to ship the rest.
const lastShipment = 10 * time.Second

// shipTo ships to a destination what there is, until that fails for two intervals; or until ctx
// ends or the shipper does.
func shipTo(ctx context.Context, a *cli.App, db *engine.DB, to string, o ship.Options, follow bool,
) error {
	ctx, release := cli.UntilStopped(ctx)
	defer release()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	start := time.Now()
	dest, err := cli.Destination(ctx, to)
	if err != nil {
		return err
	}
	o.OnError = func(err error) {
		var failed *ship.SilentError
		if follow {
			fmt.Fprintf(a.Err, "%v\n", err)
		} else if errors.As(err, &failed) && failed.Cause != nil {
			giveUp(err)
		}
	}
	s, err := ship.Start(db, dest, &o)
	if errors.Is(err, ship.ErrGap) {
		return cli.Advise(err, "--begin-again makes a new full copy; a longer retain-age keeps "+
			"commits for the time in which nothing ships")
	}
	if err != nil {
		return err
	}
	last, cancel := ctx, context.CancelFunc(func() {})
	if follow {
		fmt.Fprintf(a.Err, "shipping to %s: stop with Ctrl-C\n", cli.Shown(to))
		select {
		case <-ctx.Done():
		case <-s.Ended():
		}
		last, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastShipment)
	}
	defer cancel()
	if err := a.Busy(cli.Work{Doing: "shipping"}, func() error {
		return s.Close(last)
	}); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ship.ErrSilent) {
			return cause // which err has twice
		}
		return err
	}
	m := s.Metrics()
	_, err = fmt.Fprintf(a.Out, "shipped up to version %d in %s: %s of log, %s of data files, "+
		"%s were there\n", m.Restorable, figure.Duration(time.Since(start)),
		figure.Bytes(m.LogBytes), figure.Bytes(m.SSTBytes), figure.Bytes(m.SharedBytes))
	return err
}

// RestoreCommand returns the command restore.
func RestoreCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore DEST NEW",
		Short: "Make a database of what was shipped or backed up",
		Long: `Make the new database NEW of what ship has brought to DEST: of the last commit, or of
an earlier one given by its version, its time or how long ago. It says which
moments can be restored before it begins. One that is interrupted is continued by
the next call. With --list it only says so, with --follow it goes on with what is
shipped later, until it is stopped; then NEW can be opened. DEST may be - for what
backup DB - has written.`,
		Example: `  kstone-cli restore /mnt/backup/orders orders.db
  kstone-cli restore /mnt/backup/orders noon.db --to 2026-07-01T12:00:00Z
  kstone-cli restore /mnt/backup/orders --list
  zstd -dc orders.zst | kstone-cli restore - orders.db`,
		Args: cli.Words(1, 2),
	}
	var to string
	var list, follow bool
	cmd.Flags().StringVar(&to, "to", "",
		"restore up to this version or time, or as it was so long ago, such as 4711,\n"+
			"2026-07-01T12:00:00Z or 15m")
	cmd.Flags().BoolVar(&list, "list", false, "only show what can be restored")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with what is shipped later")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, release := cli.UntilStopped(cmd.Context())
		defer release()
		switch {
		case list != (len(args) == 1):
			return cli.Usage("restore: name DEST and NEW, or DEST with --list")
		case list && (follow || to != "" || args[0] == "-"),
			follow && (to != "" || args[0] == "-"), to != "" && args[0] == "-":
			return cli.Usage("restore: --to, --list and --follow exclude each other, and a stream")
		case list:
			return listDestination(ctx, a, args[0])
		case args[0] == "-":
			return a.Busy(cli.Work{Doing: "restoring"}, func() error {
				return ship.RestoreFrom(ctx, a.In, args[1])
			})
		case follow:
			return followDestination(ctx, a, args[0], args[1])
		}
		var target ship.Target
		if to != "" {
			moment, err := cli.Moment("--to", to)
			if err != nil {
				return err
			}
			if target = ship.Target(moment); target == (ship.Target{}) {
				return cli.Usage("restore: --to %s: the first commit has version 1", to)
			}
		}
		return restore(ctx, a, args[0], args[1], target)
	}
	return cmd
}

func restore(ctx context.Context, a *cli.App, from, to string, target ship.Target) error {
	start := time.Now()
	dest, err := cli.Destination(ctx, from)
	if err != nil {
		return err
	}
	set, stop := a.Gauge("restoring")
	at, err := ship.Restore(ctx, dest, to, &ship.RestoreOptions{
		To: target,
		Plan: func(c ship.Contents, at ship.Moment) {
			for _, r := range c.Ranges {
				fmt.Fprintf(a.Err, "restorable: %s\n", r)
			}
			for _, err := range c.Damage {
				fmt.Fprintf(a.Err, "damage: %s\n", cli.PlainText(err))
			}
			fmt.Fprintf(a.Err, "restoring %s\n", at)
		},
		Progress: func(p ship.RestoreProgress) { set(p.Bytes, p.BytesTotal) },
	})
	stop()
	if errors.Is(err, ship.ErrMoment) {
		return cli.Advise(err, "--to restores a moment that is there")
	}
	if err != nil {
		return nothingAt(from, err)
	}
	_, err = fmt.Fprintf(a.Out, "restored %s in %s\n", at, figure.Duration(time.Since(start)))
	return err
}

func listDestination(ctx context.Context, a *cli.App, from string) error {
	dest, err := cli.Destination(ctx, from)
	if err != nil {
		return err
	}
	c, err := ship.List(ctx, dest)
	if err != nil {
		return nothingAt(from, err)
	}
	for _, r := range c.Ranges {
		fmt.Fprintf(a.Out, "%s\n", r)
	}
	for _, err := range c.Damage {
		fmt.Fprintf(a.Err, "damage: %s\n", cli.PlainText(err))
	}
	_, err = fmt.Fprintf(a.Out, "%s, %s of log in %s\n",
		figure.Plural(int64(len(c.Bases)), "full copy"), figure.Bytes(c.Bytes),
		figure.Plural(int64(c.Objects), "object"))
	return err
}

// nothingAt says where nothing is that can be restored.
func nothingAt(from string, err error) error {
	if !errors.Is(err, ship.ErrEmpty) {
		return err
	}
	return cli.Advise(fmt.Errorf("%s: %w", cli.Shown(from), err),
		"ship brings a database there; what backup has made is a database as it is")
}

// followDestination follows until ctx ends or the follower does.
func followDestination(ctx context.Context, a *cli.App, from, to string) error {
	dest, err := cli.Destination(ctx, from)
	if err != nil {
		return err
	}
	f, err := ship.Follow(ctx, dest, to, &ship.FollowOptions{
		OnError: func(err error) { fmt.Fprintln(a.Err, cli.PlainText(err)) },
	})
	if err != nil {
		return nothingAt(from, err)
	}
	fmt.Fprintf(a.Err, "following %s: stop with Ctrl-C\n", cli.Shown(from))
	select {
	case <-ctx.Done():
	case <-f.Ended():
		err = f.Err()
	}
	m := f.Metrics()
	fmt.Fprintf(a.Out, "%s has version %d\n", to, m.Version)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// streamBackup writes a backup to standard output.
func streamBackup(ctx context.Context, a *cli.App, db *engine.DB) error {
	if a.OutTTY {
		return cli.Usage("backup: standard output is a terminal: send it to a file or a program")
	}
	return ship.Backup(ctx, db, a.Out)
}
