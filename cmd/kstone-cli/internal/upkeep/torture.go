package upkeep

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/torture"
)

// TortureCommand returns the command torture.
func TortureCommand(a *cli.App) *cobra.Command {
	c := torture.Config{}
	cmd := &cobra.Command{
		Use:   "torture DIR [flags]",
		Short: "Kill a writer again and again, and check what is left",
		Long: `Find out whether this machine and this program keep their promises: a process writes
to a database in DIR, with every kind of call from several goroutines, is killed with
SIGKILL at a random moment, and the database is opened, verified, and compared with
everything that had been acknowledged. DIR must be new, empty, or left over from an
earlier run. The exit code is 0 if nothing was wrong and 1 if something was; DIR is
then left as it is.`,
		Example: "  kstone-cli torture proof --for 5m",
		Args:    cli.Words(1, 1),
	}
	cmd.Flags().DurationVar(&c.For, "for", time.Minute, "how long to go on")
	cmd.Flags().Uint64Var(&c.Seed, "seed", 0, "`SEED` of an earlier run, to repeat its writes")
	cmd.Flags().IntVar(&c.Workers, "workers", 4, "goroutines that write")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if order := os.Getenv(torture.Env); order != "" {
			return torture.Child(cmd.Context(), order, a.Out)
		}
		c.Dir = args[0]
		return runTorture(a, cmd, c)
	}
	return cmd
}

// tortureLineEvery is how often a run that is not watched on a terminal says how far it is.
const tortureLineEvery = 10 * time.Second

func runTorture(a *cli.App, cmd *cobra.Command, c torture.Config) error {
	if c.Workers < 1 || c.Workers > 64 {
		return cli.Usage("--workers %d: want 1 to 64", c.Workers)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	c.Command = []string{self, "torture", c.Dir}
	fmt.Fprintf(a.Err, "seed %d\n", c.Seed)
	last := time.Now()
	c.Progress = func(r torture.Report) {
		line := fmt.Sprintf("%s, %s acknowledged, %s left", figure.Plural(int64(r.Cycles), "kill"),
			figure.Plural(int64(r.Steps), "operation"), r.Left.Round(time.Second))
		if a.ErrTTY {
			fmt.Fprintf(a.Err, "\r%s\x1b[K", line)
		} else if time.Since(last) >= tortureLineEvery {
			last = time.Now()
			fmt.Fprintln(a.Err, line)
		}
	}
	rep, err := torture.Run(cmd.Context(), c)
	if a.ErrTTY {
		fmt.Fprint(a.Err, "\r\x1b[K")
	}
	if errors.Is(err, torture.ErrNotOwn) {
		return cli.Usage("torture: %s is not empty, and not left over from torture", c.Dir).
			WithHint("nothing in it was changed; name a new directory")
	}
	if err != nil {
		// Not wrapped: whatever is wrong, the verdict has one exit code.
		return cli.Advise(fmt.Errorf("torture: %v", err),
			fmt.Sprintf("%s is left as it is; please report it with the seed", c.Dir))
	}
	_, err = fmt.Fprintf(a.Out, "ok: %s (%d while opening), %s acknowledged, %s, %s checked,"+
		" nothing lost in %s\n", figure.Plural(int64(rep.Cycles), "kill"), rep.Early,
		figure.Plural(int64(rep.Steps), "operation"),
		figure.Plural(int64(rep.Lucky), "operation")+" more found",
		figure.Plural(int64(rep.Copies), "checkpoint"), figure.Duration(rep.Elapsed))
	return err
}
