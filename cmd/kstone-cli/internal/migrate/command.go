package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/internal/figure"
)

// withReaders is the program that has the readers of other engines.
const withReaders = "kstone-cli-migrate"

const help = `Copy what another engine stores into a database: the buckets of bbolt, the keys
of Badger, goleveldb and Pebble as items, the tables of SQLite as tables. The rule and
some keys are shown first; --dry-run shows only them. The database is created if there
is none.

--rule says how a key becomes a PK and an SK:
  bucket      a bucket is a partition: PK = bucket, SK = key (default for bbolt)
  key         PK = key, without SK (default for the others), in all stripes
  prefix=TEXT PK = TEXT and the key, without SK
  split=TEXT  the PK is what comes before TEXT, the SK what comes after it
  first=N     the PK is the first N bytes
  one=NAME    one partition has all keys in their order, in one stripe

The source is opened read-only: it is not created, repaired or changed. One that another
process has open for writing is refused, or, with SQLite, read as it was at one moment.

A migration that was interrupted is finished by the same command: what is there already
is compared and not written again. In the end every pair or row is read back and
compared. Pairs and rows that cannot be carried over are listed; the exit code is then 1.`

// flags are those of the command.
type flags struct {
	rule   string
	dry    bool
	tables []string
	shown  int
}

// Command returns the command migrate.
func Command(a *cli.App) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "migrate " + strings.Join(kinds, "|") + " FILE DB [--rule RULE] [--dry-run]",
		Short: "Copy the data of another engine into a database",
		Long:  help,
		Example: `  kstone-cli migrate bbolt old.bolt new.db --dry-run
  kstone-cli migrate badger old/ new.db --rule split=:
  kstone-cli migrate sqlite shop.sqlite shop.db --table orders --table towns`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.dry && len(args) == 2 {
				return nil
			}
			return cli.Words(3, 3)(cmd, args)
		},
		ValidArgs: kinds,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.rule, "rule", "", ruleHelp)
	flags.BoolVar(&f.dry, "dry-run", false, "show the rule and some keys, and copy nothing")
	flags.StringArrayVar(&f.tables, "table", nil, "copy this `TABLE` only (repeatable; sqlite)")
	flags.IntVar(&f.shown, "show-rejected", 10, "print the first `N` pairs or rows left out")
	a.SetFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !f.dry && cli.IsURL(args[2]) && args[0] != "sqlite" {
			return cli.Usage("migrate: %s is not a directory, and only a directory has items by "+
				"key", cli.Shown(args[2]))
		}
		return open(args[0], args[1], func(p Pairs, t Tables) error {
			to := append(args, "")[2]
			if t != nil {
				return migrateTables(cmd.Context(), a, &f, t, to)
			}
			if len(f.tables) > 0 {
				return cli.Usage("--table is about sqlite, and %s has no tables", args[0])
			}
			return migratePairs(cmd.Context(), a, &f, p, to)
		})
	}
	return cmd
}

// open runs fn with a source.
func open(kind, path string, fn func(Pairs, Tables) error) (err error) {
	opener := openers[kind]
	switch {
	case !slices.Contains(kinds, kind):
		return cli.Usage("migrate: there is no reader for %q", kind).
			WithHint("there are: %s", strings.Join(kinds, ", "))
	case opener == nil:
		return cli.Usage("migrate: this program has no code of %s", kind).
			WithHint("%[1]s has it, with all other commands; in the source of kstone:\n"+
				"  go -C cmd/kstone-cli/%[1]s install .", withReaders)
	}
	if _, err := os.Stat(path); err != nil {
		return cli.Advise(err, "name what the other engine wrote; it is not created")
	}
	p, t, err := opener(path)
	switch {
	case errors.Is(err, ErrBusy):
		return cli.Advise(err, "end that program, or migrate a copy of the files")
	case err != nil:
		return fmt.Errorf("%s as %s: %w", path, kind, err)
	case t != nil:
		defer func() { err = errors.Join(err, t.Close()) }()
	default:
		defer func() { err = errors.Join(err, p.Close()) }()
	}
	return fn(p, t)
}

// rejects counts what is left out, and prints the first few.
type rejects struct {
	app   *cli.App
	note  func(string)
	most  int
	count int64
}

func (r *rejects) add(what, reason string) {
	if r.count++; r.count <= int64(r.most) {
		r.note(fmt.Sprintf("left out: %s: %s", what, reason))
	}
}

// verdict returns the error of a command that has left something out.
func (r *rejects) verdict(what, remedy string) error {
	if r.count == 0 {
		return nil
	}
	if n := r.count - int64(r.most); n > 0 {
		fmt.Fprintf(r.app.Err, "… and %s (--show-rejected shows more)\n", figure.Plural(n, "more"))
	}
	return cli.Advise(fmt.Errorf("%s left out, everything else was copied and verified",
		figure.Plural(r.count, what)), remedy)
}

// left prints what a source has that is not carried over.
func left(a *cli.App, list []string) {
	for _, text := range list {
		fmt.Fprintf(a.Err, "not carried over: %s\n", text)
	}
}

// interrupted gives the error of a copy its advice.
func interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted%w", cli.Quiet(err))
	}
	return cli.Advise(err, "what was written stays; run the same command again to finish it")
}
