package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/figure"
)

// Target is a table of DEST that rows are copied to.
type Target struct {
	app  *cli.App
	dest *cli.Tables

	to      *table.Table
	def     *schema.Table // of to
	fresh   bool          // it was made by this copy
	read    Checksum
	written atomic.Int64
	commits commits
}

// OpenTarget finds the table, or makes it by its definition.
func OpenTarget(ctx context.Context, a *cli.App, dest *cli.Tables, name, definition string,
) (*Target, error) {
	t := &Target{app: a, dest: dest}
	return t, t.open(ctx, name, definition)
}

func (t *Target) open(ctx context.Context, name, want string) (err error) {
	if t.to, err = t.dest.Table(name); errors.Is(err, table.ErrNoTable) {
		t.fresh = true
		if err = create(ctx, t.dest, want); err == nil {
			t.to, err = t.dest.Table(name)
		}
	}
	if err != nil {
		return err
	}
	have, err := sql.Definition(t.to.Schema())
	if err != nil {
		return err
	}
	// A copy that was killed may have left a table without its last indexes.
	if rest, ok := strings.CutPrefix(want, have); ok && rest != "" {
		if err := create(ctx, t.dest, rest); err != nil {
			return err
		}
		have = want
	}
	t.def = t.to.Schema()
	if have != want {
		return cli.Usage("table %s has another definition in DEST:\n%s", name, have).
			WithHint("drop it there, or change it to\n%s", want)
	}
	return nil
}

// Schema returns the definition of the table.
func (t *Target) Schema() *schema.Table { return t.def }

// Take notes rows that are read for the table; Write gets all of them.
func (t *Target) Take(rows [][]expr.Value) {
	for _, row := range rows {
		t.read.addRow(row)
	}
}

// Summary says what was done.
func (t *Target) Summary() string {
	return fmt.Sprintf("%s: %s, %s written, %s were there, checksum %s", t.to.Name(),
		figure.Rows(t.read.rows), figure.Count(t.written.Load()),
		figure.Count(t.read.rows-t.written.Load()), t.read)
}

// SkipNumbers makes sure that an identity column, if there is one, gets no number below next.
func (t *Target) SkipNumbers(ctx context.Context, next int64) error {
	if next <= 1 || t.def.IdentityColumn() < 0 {
		return nil
	}
	return t.to.SkipNumbers(ctx, next)
}

// Analyze takes statistics of what was written: commands that only read cannot store them.
func (t *Target) Analyze(ctx context.Context) error {
	_, err := t.dest.Analyze(ctx, t.to.Name(), &table.AnalyzeOptions{SampleRows: importSample})
	return err
}

// create runs the statements of definitions.
func create(ctx context.Context, dest *cli.Tables, definitions string) error {
	parts, err := dest.SQL.PrepareParts(definitions)
	for _, stmt := range parts {
		if err == nil {
			_, err = stmt.Exec(ctx)
		}
	}
	return err
}

// each reads a table, adds its rows to a checksum, and calls f with the values of each.
func (t *Target) each(ctx context.Context, r table.Reader, from *table.Table, doing string,
	sum *Checksum, f func([]expr.Value) error) error {
	total := int64(-1)
	if stats := from.Stats(); stats != nil {
		total = int64(stats.Rows)
	}
	bar := meter.New(t.app.Err, t.app.ErrTTY, total, doing+" "+from.Name())
	defer bar.Done()
	rows, err := r.Query(ctx, &plan.Select{From: []plan.Source{{Table: from.Schema()}}})
	if err != nil {
		return err
	}
	for values, err := range rows.All() {
		if err != nil {
			return err
		}
		sum.addRow(values)
		if err := f(values); err != nil {
			return err
		}
		bar.Set(sum.rows)
	}
	return nil
}

// Write writes those rows that are missing or differ. A row that the table does not take is an
// error, or, if refuse is not nil, handed to it.
func (t *Target) Write(ctx context.Context, chunk [][]expr.Value,
	refuse func(row []expr.Value, err error)) error {
	if !t.fresh {
		var err error
		if chunk, err = t.missing(ctx, chunk); err != nil {
			return err
		}
	}
	return t.commits.write(chunk, func(rows [][]expr.Value) (int, error) {
		n, err := t.upsert(ctx, rows)
		if refuse == nil || !refused(err) && (len(rows) > 1 || !errors.Is(err, table.ErrTooLarge)) {
			return n, err
		}
		for ; n < len(rows); n++ {
			_, err := t.upsert(ctx, rows[n:n+1])
			if refused(err) || errors.Is(err, table.ErrTooLarge) {
				refuse(rows[n], err)
			} else if err != nil {
				return n, err
			}
		}
		return n, nil
	})
}

// upsert writes rows, and returns how many of them.
func (t *Target) upsert(ctx context.Context, rows [][]expr.Value) (int, error) {
	done, err := t.to.Upsert(ctx, slices.Values(rows))
	n := done.New + done.Replaced
	t.written.Add(int64(n))
	return n, err
}

// KeyText returns the primary key of a row for people.
func (t *Target) KeyText(row []expr.Value) string { return rowKeyText(t.def, row) }

// key returns the primary key of a row.
func (t *Target) key(row []expr.Value) []expr.Value {
	var key []expr.Value
	for _, ordinal := range t.def.KeyOrdinals() {
		key = append(key, row[ordinal])
	}
	return key
}

// missing returns the rows that DEST does not have as they are.
func (t *Target) missing(ctx context.Context, chunk [][]expr.Value) ([][]expr.Value, error) {
	keys := make([][]expr.Value, len(chunk))
	for i, row := range chunk {
		keys[i] = t.key(row)
	}
	same := make([]bool, len(chunk))
	var failed error
	err := t.to.MultiGet(ctx, keys, func(i int, there []expr.Value) {
		have, err := t.def.AppendRow(nil, there)
		want, other := t.def.AppendRow(nil, chunk[i])
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

// Verify compares what DEST has with what was read.
func (t *Target) Verify(ctx context.Context) error {
	var have Checksum
	none := func([]expr.Value) error { return nil }
	err := t.each(ctx, t.dest.DB, t.to, "verifying", &have, none)
	if err != nil || have == t.read {
		return err
	}
	err = fmt.Errorf("table %s is not the same: SRC has %s with the checksum %s, DEST %s with %s",
		t.to.Name(), figure.Rows(t.read.rows), t.read, figure.Rows(have.rows), have)
	hint := "another program has written to it meanwhile; copy again"
	switch {
	case have.rows > t.read.rows:
		hint = "copy removes no rows: drop the table in DEST, and copy again"
	case t.def.TTL != nil:
		hint = "rows may have expired meanwhile; copy again"
	}
	return cli.Advise(err, hint)
}

// commits writes rows in commits that are not too large for a store.
type commits struct{ most atomic.Int64 } // rows that were not too many, 0 if all were so

// write calls f with rows, and if they are too many for a commit, with fewer at a time, and then
// with more again: rows differ. f returns how many it has written, also if there is an error.
func (c *commits) write(rows [][]expr.Value, f func([][]expr.Value) (int, error)) error {
	for len(rows) > 0 {
		most := c.most.Load()
		part := rows
		if most > 0 {
			part = rows[:min(int(most), len(rows))]
		}
		done, err := f(part)
		rows = rows[done:]
		switch {
		case len(part) > 1 && errors.Is(err, store.ErrTooLarge):
			c.most.Store(int64(max(1, (len(part)-done)/2)))
		case err != nil:
			return err
		case len(part) == int(most):
			c.most.CompareAndSwap(most, most+most/8+1)
		}
	}
	return nil
}
