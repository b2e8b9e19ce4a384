package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/figure"
)

// migrateTables shows what becomes of tables, copies and verifies them.
func migrateTables(ctx context.Context, a *cli.App, f *flags, src Tables, to string) error {
	if f.rule != "" {
		return cli.Usage("--rule is about keys, and tables have columns").
			WithHint("leave it out; --table chooses tables")
	}
	tables := src.Tables()
	for _, name := range f.tables {
		if !slices.ContainsFunc(tables, func(t Table) bool { return t.Name == name }) {
			return cli.Usage("the source has no table %s", name).
				WithHint("it has: %s", names(tables))
		}
	}
	var definitions []string
	tables = slices.DeleteFunc(tables, func(t Table) bool {
		return len(f.tables) > 0 && !slices.Contains(f.tables, t.Name)
	})
	for i := range tables {
		text, err := define(ctx, &tables[i])
		if err != nil {
			return fmt.Errorf("table %s: %w", tables[i].Name, err)
		}
		tables[i].show(a, text)
		definitions = append(definitions, text)
	}
	if len(f.tables) == 0 {
		left(a, src.Left())
	}
	if f.dry {
		return nil
	}
	a.Durability = "process" // and a sync at the end
	return a.WithTables(ctx, to, cli.Create, func(dest *cli.Tables) error {
		r := rejects{app: a, most: f.shown}
		for i := range tables {
			c := &tableCopy{app: a, src: src, table: &tables[i], rejects: &r}
			if err := c.copy(ctx, dest, definitions[i]); err != nil {
				return interrupted(ctx, fmt.Errorf("table %s: %w", tables[i].Name, err))
			}
		}
		if e := local.Engine(dest.DB); e != nil {
			if err := e.Sync(ctx); err != nil {
				return err
			}
		}
		return r.verdict("row", "change these rows in the source, or put them by hand")
	})
}

func names(tables []Table) string {
	var list []string
	for i := range tables {
		list = append(list, tables[i].Name)
	}
	return strings.Join(list, ", ")
}

// show prints what becomes of a table.
func (t *Table) show(a *cli.App, definition string) {
	fmt.Fprintf(a.Err, "table %s, %s:\n", t.Name, figure.Rows(t.Count))
	width, from := 0, 0
	for i := range t.Columns {
		width, from = max(width, len(t.Columns[i].Name)), max(from, len(t.Columns[i].From))
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		line := fmt.Sprintf("  %-*s  %-*s → %s", width, c.Name, from, c.From, c.To)
		if c.Note != "" {
			line += ": " + c.Note
		}
		fmt.Fprintln(a.Err, line)
	}
	fmt.Fprint(a.Err, definition)
	left(a, t.Left)
}

// tableCopy copies the rows of a table.
type tableCopy struct {
	app     *cli.App
	src     Tables
	table   *Table
	rejects *rejects
	bar     *meter.Meter
	late    [][]expr.Value // rows whose unique values others have, which may lose them
}

// copy writes the rows that the database does not have, and compares all in the end.
func (c *tableCopy) copy(ctx context.Context, dest *cli.Tables, definition string) error {
	target, err := bulk.OpenTarget(ctx, c.app, dest, c.table.Name, definition)
	if err == nil { // before the rows, whose numbers would be taken one by one
		err = target.SkipNumbers(ctx, c.table.Next)
	}
	if err == nil {
		err = c.rows(ctx, target)
	}
	if err == nil {
		err = target.Analyze(ctx)
	}
	if err == nil {
		err = target.Verify(ctx)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.app.Out, "%s; verified\n", target.Summary())
	return err
}

func (c *tableCopy) rows(ctx context.Context, target *bulk.Target) error {
	c.bar = meter.New(c.app.Err, c.app.ErrTTY, max(c.table.Count, 1), "copying "+c.table.Name)
	defer c.bar.Done()
	c.rejects.note = c.bar.Note
	var chunk [][]expr.Value
	done, bytes := int64(0), 0
	for values, err := range c.src.Rows(ctx, c.table) {
		if done++; err == nil {
			err = ctx.Err()
		}
		var row []expr.Value
		if err == nil {
			row, err = converted(target.Schema(), values)
		}
		var odd *RowError
		switch {
		case errors.As(err, &odd):
			c.rejects.add(fmt.Sprintf("%s, row %d", c.table.Name, done), odd.Reason)
			continue
		case err != nil:
			return err
		}
		chunk, bytes = append(chunk, row), bytes+bulk.RowBytes(row)
		if len(chunk) == bulk.CopyRows || bytes >= bulk.CopyBytes {
			if err := c.write(ctx, target, chunk, true); err != nil {
				return err
			}
			chunk, bytes = nil, 0
			c.bar.Set(done)
		}
	}
	err := c.write(ctx, target, chunk, true)
	if err == nil {
		err = c.write(ctx, target, c.late, false)
	}
	return err
}

// write writes rows. One whose unique values another row has is written later, if that is possible:
// the other one may have lost them in the source since it was copied.
func (c *tableCopy) write(ctx context.Context, target *bulk.Target, chunk [][]expr.Value,
	later bool) error {
	left := map[*expr.Value]bool{}
	err := target.Write(ctx, chunk, func(row []expr.Value, err error) {
		left[&row[0]] = true
		if later && errors.Is(err, table.ErrUnique) {
			c.late = append(c.late, row)
			return
		}
		c.rejects.add(c.table.Name+", "+target.KeyText(row), cli.PlainText(err))
	})
	target.Take(slices.DeleteFunc(chunk, func(row []expr.Value) bool { return left[&row[0]] }))
	return err
}

// converted returns a row as the table stores it. The error is a *RowError.
func converted(t *schema.Table, values []expr.Value) ([]expr.Value, error) {
	row := make([]expr.Value, len(values))
	for i, v := range values {
		var err error
		if row[i], err = t.Columns[i].Convert(v); err != nil {
			name := t.Columns[i].Name
			return nil, &RowError{fmt.Sprintf("column %s: %s", name, cli.PlainText(err))}
		}
	}
	pk, sk, err := t.AppendRowKey(nil, nil, row)
	if err == nil {
		_, err = t.AppendRow(append(pk, sk...), row)
	}
	if err != nil {
		return nil, &RowError{cli.PlainText(err)}
	}
	return row, nil
}
