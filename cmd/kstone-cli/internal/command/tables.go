package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

// tables is an open database with its tables.
type tables struct {
	*table.DB
	sql  *sql.Session
	done func()
}

// withTables runs fn with the tables of a database: see withDB. What takes a while shows
// how far it is.
func (a *app) withTables(ctx context.Context, path string, m mode, fn func(*tables) error) error {
	return a.withDB(path, m, func(d *database) error {
		t, err := a.openTables(ctx, d)
		if err != nil {
			return err
		}
		defer t.done()
		return fn(t)
	})
}

func (a *app) openTables(ctx context.Context, d *database) (*tables, error) {
	if d.session == nil {
		db, err := table.Open(ctx, d.DB, nil)
		if err != nil {
			return nil, err
		}
		d.tables, d.session = db, sql.Open(db)
	}
	t := &tables{DB: d.tables, sql: d.session}
	t.sql.Progress, t.done = a.progress()
	return t, nil
}

// progress returns a function that shows how far an operation on tables is, and one that
// takes the bar away.
func (a *app) progress() (show func(table.Progress), done func()) {
	var bar *meter.Meter
	what := ""
	done = func() {
		if bar != nil {
			bar.Done()
		}
	}
	show = func(p table.Progress) {
		name := strings.TrimSpace(p.What + " " + p.Table + " " + p.Index)
		if bar == nil || name != what {
			done()
			total := p.Total
			if total == 0 {
				total = -1
			}
			bar, what = meter.New(a.err, a.errTTY, total, name), name
		}
		bar.Set(p.Done)
	}
	return show, done
}

// find returns a table, or an error that names one that may be meant.
func (t *tables) find(name string) (*table.Table, error) {
	found, err := t.Table(name)
	if !errors.Is(err, table.ErrNoTable) {
		return found, err
	}
	hint := "there are no tables; table create makes one"
	if names := t.names(); len(names) > 0 {
		hint = "there are: " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	return nil, &advice{fmt.Errorf("there is no table %s%w", name, quiet{err}), hint}
}

// names returns the names of the tables.
func (t *tables) names() (names []string) {
	for _, found := range t.Tables() {
		names = append(names, found.Name())
	}
	return names
}

// completeTable completes the argument after the database with the names of tables.
func (a *app) completeTable(_ *cobra.Command, args []string, prefix string) ([]string,
	cobra.ShellCompDirective) {
	return a.completeFirst(args, func(path string) (found []string) {
		_ = a.withTables(context.Background(), path, readOnly, func(t *tables) error {
			for _, name := range t.names() {
				if strings.HasPrefix(name, prefix) {
					found = append(found, name)
				}
			}
			return nil
		})
		return found
	})
}

// keyColumnsText describes columns of a key: "at desc, id".
func keyColumnsText(t *schema.Table, columns []schema.KeyColumn) string {
	var parts []string
	for _, k := range columns {
		parts = append(parts, keyColumnText(t, k))
	}
	return strings.Join(parts, ", ")
}

func keyColumnText(t *schema.Table, k schema.KeyColumn) string {
	text := t.Columns[k.Ordinal].Name
	if k.Desc {
		text += " desc"
	}
	if k.NullsLast && !k.Desc {
		text += " nulls last"
	}
	return text
}

// indexText describes an index after its name: "(country, population desc) unique".
func indexText(t *schema.Table, x *schema.Index) string {
	var parts []string
	for _, c := range x.Columns {
		text := keyColumnText(t, c.KeyColumn)
		if c.Each {
			text = "each " + text
		}
		parts = append(parts, text)
	}
	out := "(" + strings.Join(parts, ", ") + ")"
	if x.Unique {
		out += " unique"
	}
	if len(x.Include) > 0 {
		var names []string
		for _, i := range x.Include {
			names = append(names, t.Columns[i].Name)
		}
		out += " include (" + strings.Join(names, ", ") + ")"
	}
	if x.Sharded() {
		out += " shard " + x.Shard.String()
	}
	if x.Placement == schema.Local {
		out += " local"
	}
	if x.Where != nil {
		out += " where " + x.Where.String()
	}
	if x.State != schema.Ready {
		out += ", " + x.State.String()
	}
	return out
}
