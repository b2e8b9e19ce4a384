package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
)

// DedupCommand returns the command dedup.
func DedupCommand(a *cli.App) *cobra.Command {
	var f ImportFlags
	insert := false
	cmd := &cobra.Command{
		Use: a.Use("dedup",
			"FILE|- [--format jsonl|csv] [--pk FIELD,… [--sk FIELD,…]] [--insert]"),
		Short: "Report which records of a file are new",
		Long: `Report how many records of a file have keys that are new, how many are stored in the
database already, and how many repeat a new key that came earlier in the file. Nothing
is written; with --insert the new ones are stored, those that exist are left alone, and
of several with one key the first counts. A database that does not exist counts as an
empty one, and --insert creates it.

Files and keys are given as for import. Memory use does not depend on the size of the
file: to find repeats without --insert, the new keys go into a database of their own in
the directory for temporary files (TMPDIR), which is removed at the end.

Records that are malformed are reported with their line numbers and left out; the exit
code is then 1. A dedup --insert that was interrupted can simply be run again: what it has
stored counts as stored then.`,
		Example: `  kstone-cli dedup cities.db cities.jsonl.gz --pk country --sk region,county,city
  kstone-cli dedup cities.db cities.jsonl.gz --insert -o json`,
		Args: a.Arguments(1, 1),
	}
	a.SetFlag(cmd)
	flags := cmd.Flags()
	f.register(flags)
	flags.BoolVar(&insert, "insert", false, "store the new records")
	a.SummaryFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		in, size, err := openRecords(a, &f, args[0])
		if err != nil {
			return err
		}
		defer in.Close()
		return withDedupDB(a, path, insert, func(d *cli.Database) error {
			if err := f.settleSchema(d); err != nil {
				return err
			}
			err := dedup(cmd.Context(), a, d, &f, insert, args[0], in, size)
			return errors.Join(err, d.LoadSchema()) // as it is stored
		})
	}
	return cmd
}

// withDedupDB is WithDB for dedup: without --insert a database that does not exist is an
// empty one, and stays so.
func withDedupDB(a *cli.App, path string, insert bool, fn func(*cli.Database) error) (err error) {
	if insert {
		return a.WithDB(path, cli.Create, fn)
	}
	found := false
	err = a.WithDB(path, cli.ReadOnly, func(d *cli.Database) error {
		found = true
		return fn(d)
	})
	if found || !errors.Is(err, engine.ErrNotExist) {
		return err
	}
	fmt.Fprintf(a.Err, "there is no database %s yet\n", path)
	d := &cli.Database{Path: path}
	if d.DB, err = engine.Open(path, &engine.Options{InMemory: true}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return fn(d)
}

// deduper finds out which records are new.
type deduper struct {
	Intake
	sum dedupSummary

	before uint64     // newest version that the database had at the start
	seen   *engine.DB // new keys of the file, without --insert

	keys    []engine.Key
	fresh   []engine.Item
	results engine.Results
}

// dedupSummary is what a dedup has found. Read is the sum of New, Stored, Repeated,
// Expired and Rejected, blank lines not counted; Inserted is New or, without --insert, 0.
type dedupSummary struct {
	Read     int64   `json:"read"`
	New      int64   `json:"new"`
	Stored   int64   `json:"stored"`
	Repeated int64   `json:"repeated"`
	Inserted int64   `json:"inserted"`
	Expired  int64   `json:"expired"`
	Rejected int64   `json:"rejected"`
	Seconds  float64 `json:"seconds"`
}

func dedup(ctx context.Context, a *cli.App, d *cli.Database, f *ImportFlags, insert bool,
	name string, in io.Reader, size int64) (err error) {
	dd := &deduper{Intake: NewIntake(a, d, f, name, size, "checking")}
	if insert {
		dd.before = d.Metrics().LastVersion
		err = dd.Run(ctx, in, dd.store)
		err = errors.Join(err, d.Sync(ctx))
	} else {
		err = dd.compare(ctx, in)
	}
	r, s := dd.End(a), &dd.sum
	s.Read, s.Rejected, s.Expired, s.Seconds = r.Read, r.Rejected, r.Expired, r.Took.Seconds()
	if printErr := printDedup(a, s, r, insert); err == nil {
		err = printErr
	}
	onInterrupt := "nothing was written"
	if insert {
		onInterrupt = "what was inserted stays; run it again to finish"
	}
	return r.Verdict(err, "all others were handled; correct these lines and run it again",
		onInterrupt)
}

// store inserts what is new of a group. A key that was not inserted is either stored
// since before, or repeats one that this run has inserted; its version shows which.
func (dd *deduper) store(ctx context.Context, items []engine.Item) error {
	stats, err := dd.insertNew(ctx, items)
	if err != nil || len(items) == 0 {
		return err
	}
	dd.sum.New += stats.New
	dd.sum.Inserted += stats.New
	dd.keys = dd.keys[:0]
	for i := range items {
		if !dd.which[i] {
			dd.keys = append(dd.keys, items[i].Key)
		}
	}
	if err := dd.DB.MultiGet(ctx, dd.keys, &dd.results); err != nil {
		return err
	}
	for _, it := range dd.results.All() {
		if it.Version > dd.before {
			dd.sum.Repeated++
		} else {
			dd.sum.Stored++
		}
	}
	// What has expired since it was found there is not counted yet.
	dd.sum.Stored += stats.Keys - stats.New - int64(found(&dd.results))
	return nil
}

// found returns how many keys have an item.
func found(r *engine.Results) (n int) {
	for i := range r.Len() {
		if r.Has(i) {
			n++
		}
	}
	return n
}

// Budgets of the temporary database: a file may be larger than memory, and the database that
// it is compared with has budgets, too.
const (
	seenCache   = 64 << 20
	seenBuffers = 32 << 20
)

// compare looks at all records and writes nothing but a temporary database of the new
// keys.
func (dd *deduper) compare(ctx context.Context, in io.Reader) (err error) {
	ctx, stop := cli.UntilStopped(ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "kstone-dedup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dd.seen, err = engine.Open(filepath.Join(dir, "keys.db"), &engine.Options{
		Durability: engine.Process, CacheBytes: seenCache, MemtableBytes: seenBuffers})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dd.seen.Close()) }()
	return dd.Run(ctx, in, dd.look)
}

// look compares a group with the database and with what came before it.
func (dd *deduper) look(ctx context.Context, items []engine.Item) error {
	dd.keys = keysOf(dd.keys, items)
	var err error
	if dd.which, err = dd.DB.MultiHas(ctx, dd.keys, dd.which); err != nil {
		return err
	}
	dd.fresh = dd.fresh[:0]
	for i, stored := range dd.which {
		if stored {
			dd.sum.Stored++
		} else {
			dd.fresh = append(dd.fresh, engine.Item{Key: items[i].Key})
		}
	}
	_, stats, err := dd.seen.InsertNew(ctx, dd.fresh, dd.which)
	dd.sum.New += stats.New
	dd.sum.Repeated += stats.Keys - stats.New
	return err
}

func printDedup(a *cli.App, s *dedupSummary, r Reading, insert bool) error {
	if a.Format == "json" {
		return a.PrintJSON(s)
	}
	what := "new"
	if insert {
		what = "new and inserted"
	}
	_, err := fmt.Fprintln(a.Out, r.Text(fmt.Sprintf(
		": %s %s, %s already stored, %s repeated in the file", figure.Count(s.New), what,
		figure.Count(s.Stored), figure.Count(s.Repeated)), ""))
	return err
}
