package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/figure"
)

// CopyCommand returns the command copy.
func CopyCommand(a *cli.App) *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "copy SRC DEST [--table TABLE…]",
		Short: "Copy tables to another database",
		Long: `Copy all tables and views, with their indexes, to another database, which is
created if there is none. SRC and DEST are directories, or URLs of stores on
other machines.

The source is read as it was at the beginning. A table that DEST has already
must have the same definition; its rows that are missing or differ are written,
and no row is removed. So a copy that was interrupted is finished by the same
command, which writes only what is missing, and a second copy brings over what
has changed meanwhile.

In the end all rows of DEST are read, and their number and checksum compared with what was
read from SRC. Items that were put by key are not copied: see export.`,
		Example: `  kstone-cli copy shop.db copy.db
  kstone-cli copy shop.db postgres://user@host/shop
  kstone-cli copy tikv://pd1:2379,pd2:2379/shop shop.db --table orders`,
		Args: cli.Words(2, 2),
	}
	cmd.Flags().StringArrayVar(&names, "table", nil, "copy this `TABLE` only (repeatable)")
	a.SetFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] == args[1] {
			return cli.Usage("copy: SRC and DEST are the same database")
		}
		settings := a.Set // of DEST
		a.Set, a.Durability = nil, "process"
		return a.WithTables(cmd.Context(), args[0], cli.ReadOnly, func(src *cli.Tables) error {
			a.Set = settings
			return a.WithTables(cmd.Context(), args[1], cli.Create, func(dest *cli.Tables) error {
				err := copyAll(cmd.Context(), a, src, dest, names)
				if e := local.Engine(dest.DB); e != nil {
					err = errors.Join(err, e.Sync(context.WithoutCancel(cmd.Context())))
				}
				return err
			})
		})
	}
	return cmd
}

// copyAll copies the tables that are named, or everything.
func copyAll(ctx context.Context, a *cli.App, src, dest *cli.Tables, names []string) error {
	for _, name := range names {
		if _, err := src.Find(name); err != nil {
			return err
		}
	}
	snap, err := src.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	all := len(names) == 0
	if all {
		names = src.Names()
	}
	var rows int64
	for _, name := range names {
		c := &copier{app: a, dest: dest, snap: snap}
		if err := c.copy(ctx, name); err != nil {
			return cli.Advise(fmt.Errorf("table %s: %w", name, err),
				"what was written stays; run the same command again to finish it")
		}
		if err := c.verify(ctx); err != nil {
			return err
		}
		rows += c.read.rows
		fmt.Fprintf(a.Out, "%s: %s, %s written, %s were there, checksum %s\n", name,
			figure.Rows(c.read.rows), figure.Count(c.written.Load()),
			figure.Count(c.read.rows-c.written.Load()), c.read)
	}
	if all {
		if err := copyViews(ctx, src, dest); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.Err, "copied and verified %s with %s\n",
		figure.Plural(int64(len(names)), "table"), figure.Rows(rows))
	return err
}

// copyViews makes the views that are missing.
func copyViews(ctx context.Context, src, dest *cli.Tables) error {
	for _, v := range src.Views() {
		if _, err := dest.View(v.Name); err == nil {
			continue
		}
		text, err := sql.ViewDefinitions(src.DB, v.Name)
		if err != nil {
			return err
		}
		if _, err := dest.SQL.Exec(ctx, text); err != nil {
			return fmt.Errorf("view %s: %w", v.Name, err)
		}
	}
	return nil
}

// copier copies one table.
type copier struct {
	app  *cli.App
	dest *cli.Tables
	snap *table.Snapshot

	from, to *table.Table
	def      *schema.Table // of to
	at       []int         // the ordinals in to of the columns of from
	fresh    bool          // to was made by this copier
	read     Checksum
	written  atomic.Int64
	commits  commits
}

// How much is copied at a time: one commit has rows for several round trips of a slow network, and
// as many of them are under way.
const (
	copyRows    = 500
	copyWorkers = 4
)

// open finds or makes the table.
func (c *copier) open(ctx context.Context, name string) (err error) {
	if c.from, err = c.snap.Table(name); err != nil {
		return err
	}
	want, err := sql.Definition(c.from.Schema())
	if err != nil {
		return err
	}
	if c.to, err = c.dest.Table(name); errors.Is(err, table.ErrNoTable) {
		c.fresh = true
		if err = c.create(ctx, want); err == nil {
			c.to, err = c.dest.Table(name)
		}
	}
	if err != nil {
		return err
	}
	c.def = c.to.Schema()
	have, err := sql.Definition(c.def)
	if err != nil {
		return err
	}
	if have != want {
		return cli.Usage("table %s has another definition in DEST:\n%s", name, have).
			WithHint("drop it there, or change it to\n%s", want)
	}
	src := c.from.Schema()
	for i := range src.Columns {
		if !src.Columns[i].Dropped {
			c.at = append(c.at, c.def.Column(src.Columns[i].Name))
		}
	}
	return nil
}

// create makes the table.
func (c *copier) create(ctx context.Context, definition string) error {
	parts, err := c.dest.SQL.PrepareParts(definition)
	for _, stmt := range parts {
		if err == nil {
			_, err = stmt.Exec(ctx)
		}
	}
	return err
}

// copy writes the rows that DEST does not have.
func (c *copier) copy(ctx context.Context, name string) error {
	if err := c.open(ctx, name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chunks := make(chan [][]expr.Value)
	var group sync.WaitGroup
	for range copyWorkers {
		group.Go(func() {
			for chunk := range chunks {
				if err := c.write(ctx, chunk); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := c.each(ctx, c.snap, c.from, "copying", &c.read, func(chunk [][]expr.Value) error {
		select {
		case chunks <- chunk:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(chunks)
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil { // what only reads later cannot keep them
		_, err = c.dest.Analyze(ctx, name, &table.AnalyzeOptions{SampleRows: importSample})
	}
	return err
}

// each reads a table, as rows of to, and calls f with some at a time, which may keep them.
func (c *copier) each(ctx context.Context, r table.Reader, t *table.Table, doing string,
	sum *Checksum, f func([][]expr.Value) error) error {
	bar := meter.New(c.app.Err, c.app.ErrTTY, -1, doing+" "+t.Name())
	defer bar.Done()
	rows, err := r.Query(ctx, &plan.Select{From: []plan.Source{{Table: t.Schema()}}})
	if err != nil {
		return err
	}
	var chunk [][]expr.Value
	for values, err := range rows.All() {
		if err != nil {
			return err
		}
		row := c.def.Row()
		for i, ordinal := range c.at {
			row[ordinal] = values[i].Clone()
		}
		sum.addRow(values)
		if chunk = append(chunk, row); len(chunk) == copyRows {
			if err := f(chunk); err != nil {
				return err
			}
			chunk = nil
		}
		bar.Set(sum.rows)
	}
	if len(chunk) == 0 {
		return nil
	}
	return f(chunk)
}

// write writes those rows of a chunk that are missing or differ.
func (c *copier) write(ctx context.Context, chunk [][]expr.Value) error {
	if !c.fresh {
		var err error
		if chunk, err = c.missing(ctx, chunk); err != nil {
			return err
		}
	}
	return c.commits.write(chunk, func(rows [][]expr.Value) error {
		done, err := c.to.Upsert(ctx, slices.Values(rows))
		c.written.Add(int64(done.New + done.Replaced))
		return err
	})
}

// missing returns the rows that DEST does not have as they are.
func (c *copier) missing(ctx context.Context, chunk [][]expr.Value) ([][]expr.Value, error) {
	keys := make([][]expr.Value, len(chunk))
	for i, row := range chunk {
		for _, ordinal := range c.def.KeyOrdinals() {
			keys[i] = append(keys[i], row[ordinal])
		}
	}
	same := make([]bool, len(chunk))
	var failed error
	err := c.to.MultiGet(ctx, keys, func(i int, there []expr.Value) {
		have, err := c.def.AppendRow(nil, there)
		want, other := c.def.AppendRow(nil, chunk[i])
		failed = errors.Join(failed, err, other)
		same[i] = bytes.Equal(have, want)
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	var out [][]expr.Value
	for i, row := range chunk {
		if !same[i] {
			out = append(out, row)
		}
	}
	return out, nil
}

// verify compares what DEST has with what was read.
func (c *copier) verify(ctx context.Context) error {
	var have Checksum
	none := func([][]expr.Value) error { return nil }
	err := c.each(ctx, c.dest.DB, c.to, "verifying", &have, none)
	if err != nil || have == c.read {
		return err
	}
	err = fmt.Errorf("table %s is not the same: SRC has %s with the checksum %s, DEST %s with %s",
		c.to.Name(), figure.Rows(c.read.rows), c.read, figure.Rows(have.rows), have)
	hint := "another program has written to it meanwhile; copy again"
	switch {
	case have.rows > c.read.rows:
		hint = "copy removes no rows: drop the table in DEST, and copy again"
	case c.def.TTL != nil:
		hint = "rows may have expired meanwhile; copy again"
	}
	return cli.Advise(err, hint)
}

// commits writes rows in commits that are not too large for a store.
type commits struct{ most atomic.Int64 } // rows that were not too many, 0 if none were

// write calls f with rows, and if they are too many for a commit, with fewer at a time.
func (c *commits) write(rows [][]expr.Value, f func([][]expr.Value) error) error {
	if most := int(c.most.Load()); most > 0 && len(rows) > most {
		for part := range slices.Chunk(rows, most) {
			if err := c.write(part, f); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		return nil
	}
	err := f(rows)
	if len(rows) == 1 || !errors.Is(err, store.ErrTooLarge) {
		return err
	}
	c.most.Store(int64(len(rows) / 2))
	return c.write(rows, f)
}
