package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
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
must have the same definition; its last indexes, if they are missing, are made,
rows that are missing or differ are written, and no row is removed. So a copy
that was interrupted is finished by the same command, which writes only what is
missing, and a second copy brings over what has changed meanwhile.

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
					err = errors.Join(err, e.Sync(cmd.Context()))
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
		c := &copier{Target: Target{app: a, dest: dest}, snap: snap}
		if err := c.copy(ctx, name); err != nil {
			return cli.Advise(fmt.Errorf("table %s: %w", name, err),
				"what was written stays; run the same command again to finish it")
		}
		if err := c.Verify(ctx); err != nil {
			return err
		}
		rows += c.read.rows
		fmt.Fprintln(a.Out, c.Summary())
	}
	if all {
		if err := copyViews(ctx, a, src, dest); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.Err, "copied and verified %s with %s\n",
		figure.Plural(int64(len(names)), "table"), figure.Rows(rows))
	return err
}

// copyViews makes the views that are missing, each after those that it reads.
func copyViews(ctx context.Context, a *cli.App, src, dest *cli.Tables) error {
	var missing []string
	for _, v := range src.Views() {
		if _, err := dest.View(v.Name); err != nil {
			missing = append(missing, v.Name)
			continue
		}
		want, err := sql.ViewDefinitions(src.DB, v.Name)
		have, other := sql.ViewDefinitions(dest.DB, v.Name)
		if err = errors.Join(err, other); err != nil {
			return err
		}
		if have != want {
			return cli.Usage("view %s has another definition in DEST:\n%s", v.Name, have).
				WithHint("drop it there, or change it to\n%s", want)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	text, err := sql.ViewDefinitions(src.DB, missing...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) { // of a view that reads what is gone
		if strings.HasPrefix(line, "--") {
			fmt.Fprintf(a.Err, "not copied: %s", strings.TrimPrefix(line, "-- "))
		}
	}
	return create(ctx, dest, text)
}

// copier copies one table from another database.
type copier struct {
	Target
	snap *table.Snapshot
	from *table.Table
	at   []int // the ordinals in to of the columns of from

	moves sync.RWMutex // held by one that writes rows of other chunks, and shared by the others
}

// How much is copied at a time: one commit has rows for several round trips of a slow network, and
// as many of them are under way.
const (
	CopyRows    = 500
	CopyBytes   = 1 << 20
	copyWorkers = 4
)

// RowBytes is about how much memory the texts, bytes and lists of a row take.
func RowBytes(row []expr.Value) (n int) {
	for _, v := range row {
		n += v.Size()
	}
	return n
}

// open finds or makes the table.
func (c *copier) open(ctx context.Context, name string) (err error) {
	if c.from, err = c.snap.Table(name); err != nil {
		return err
	}
	want, err := sql.Definition(c.from.Schema())
	if err != nil {
		return err
	}
	if err := c.Target.open(ctx, name, want); err != nil {
		return err
	}
	src := c.from.Schema()
	for i := range src.Columns {
		if !src.Columns[i].Dropped {
			c.at = append(c.at, c.def.Column(src.Columns[i].Name))
		}
	}
	return nil
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
	err := c.chunks(ctx, func(chunk [][]expr.Value) error {
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
	if err == nil {
		err = c.SkipNumbers(ctx, c.from.NextNumber())
	}
	if err == nil {
		err = c.Analyze(ctx)
	}
	return err
}

// write is Write. A row of DEST with a unique value that SRC has in another row by now is written
// in the same commit, as SRC has it, while no other chunk is: one of them has the row as well, and
// it counts once.
func (c *copier) write(ctx context.Context, chunk [][]expr.Value) error {
	c.moves.RLock()
	err := c.Write(ctx, chunk, nil)
	c.moves.RUnlock()
	var taken *table.UniqueError
	if !errors.As(err, &taken) {
		return err
	}
	c.moves.Lock()
	defer c.moves.Unlock()
	freed := map[string]bool{}
	for errors.As(err, &taken) && !freed[fmt.Sprint(taken.Key)] {
		name := fmt.Sprint(taken.Key)
		freed[name] = true
		row, e := c.from.Get(ctx, taken.Key...)
		if e != nil {
			return fmt.Errorf("%w; SRC: %v", err, e)
		}
		var values []expr.Value
		for i, column := range c.from.Schema().Columns {
			if !column.Dropped {
				values = append(values, row[i])
			}
		}
		moved := c.row(values)
		key := fmt.Sprint(c.key(moved)) // of taken.Key texts are folded
		chunk = slices.DeleteFunc(chunk, func(row []expr.Value) bool {
			return fmt.Sprint(c.key(row)) == key
		})
		chunk = slices.Insert(chunk, 0, moved) // large chunks are several commits
		err = c.Write(ctx, chunk, nil)
	}
	return err
}

// row returns a row of DEST.
func (c *copier) row(values []expr.Value) []expr.Value {
	row := c.def.Row()
	for i, ordinal := range c.at {
		row[ordinal] = values[i].Clone()
	}
	return row
}

// chunks reads the source, and calls f with some rows of DEST at a time, which it may keep.
func (c *copier) chunks(ctx context.Context, f func([][]expr.Value) error) error {
	var chunk [][]expr.Value
	bytes := 0
	err := c.each(ctx, c.snap, c.from, "copying", &c.read, func(values []expr.Value) error {
		chunk, bytes = append(chunk, c.row(values)), bytes+RowBytes(values)
		if len(chunk) < CopyRows && bytes < CopyBytes {
			return nil
		}
		full := chunk
		chunk, bytes = nil, 0
		return f(full)
	})
	if err != nil || len(chunk) == 0 {
		return err
	}
	return f(chunk)
}
