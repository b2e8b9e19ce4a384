package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/overview"
)

// Tables is an open database with its tables.
type Tables struct {
	*table.DB
	SQL  *sql.Session
	done func()
}

// shellTxAge bounds the age of a transaction at a prompt: an unattended session keeps no old
// versions.
const shellTxAge = time.Hour

// WithTables runs fn with the tables of a database, in a directory or by URL: see WithDB. What
// takes a while shows how far it is.
func (a *App) WithTables(ctx context.Context, path string, m Mode, fn func(*Tables) error) error {
	return a.with(path, m, nil, func(d *Database) error {
		t, err := a.OpenTables(ctx, d)
		if err != nil {
			return err
		}
		defer t.Done()
		return fn(t)
	})
}

// Done lets go of what is shown, and of tables of the past.
func (t *Tables) Done() { t.done() }

// OpenTables opens the tables of a database, which stay open with it; those of App.AsOf until Done.
func (a *App) OpenTables(ctx context.Context, d *Database) (*Tables, error) {
	if d.Session == nil {
		o := &table.Options{Temp: newTemp}
		if a.Open != nil && a.InTTY && a.OutTTY {
			o.MaxTxAge = shellTxAge
		}
		s := d.remote
		if s == nil {
			s = local.New(d.DB)
		}
		db, err := table.Open(ctx, s, o)
		if err != nil {
			return nil, err
		}
		d.tables, d.Session = db, sql.Open(db)
	}
	if a.AsOf != "" {
		return a.pastTables(ctx, d.tables)
	}
	t := &Tables{DB: d.tables, SQL: d.Session}
	t.SQL.Progress, t.done = a.progress()
	return t, nil
}

// pastTables opens the tables as they were at App.AsOf.
func (a *App) pastTables(ctx context.Context, db *table.DB) (*Tables, error) {
	m, err := Moment("--as-of", a.AsOf)
	if err != nil {
		return nil, err
	}
	then, _, err := db.AsOf(ctx, m)
	if err != nil {
		return nil, err
	}
	return &Tables{DB: then, SQL: sql.Open(then), done: func() {
		_ = then.Close() // what was read is complete
	}}, nil
}

// Moment reads the value of a flag that is a moment.
func Moment(flag, text string) (store.Moment, error) {
	m, err := store.ParseMoment(text, time.Now())
	if err != nil {
		err = Usage("%s: %v", flag, err)
	}
	return m, err
}

// AsOfFlag adds --as-of to a command that reads what Snapshot or OpenTables returns.
func (a *App) AsOfFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.AsOf, "as-of", "",
		"read as of a `MOMENT`: a version, a time such as 2026-11-24T18:00:00Z, or 15m ago")
}

// Snapshot returns a snapshot of the present, or of App.AsOf.
func (a *App) Snapshot(d *Database) (*engine.Snapshot, error) {
	if a.AsOf == "" {
		return d.Snapshot()
	}
	m, err := Moment("--as-of", a.AsOf)
	if err != nil {
		return nil, err
	}
	if m.Time.IsZero() {
		return d.DB.SnapshotAt(m.Version)
	}
	return d.DB.SnapshotAtTime(m.Time)
}

// progress returns a function that shows how far an operation on tables is, and one that
// takes the bar away.
func (a *App) progress() (show func(table.Progress), done func()) {
	set, done := a.bars(false)
	return func(p table.Progress) {
		total := p.Total
		if total == 0 {
			total = -1
		}
		set(strings.TrimSpace(p.What+" "+p.Table+" "+p.Index), p.Done, total)
	}, done
}

// Owners returns what the tables have, of the present or of App.AsOf.
func (a *App) Owners(ctx context.Context, d *Database) (*overview.Owners, error) {
	if a.AsOf == "" {
		return overview.OwnersOf(ctx, d.DB)
	}
	t, err := a.OpenTables(ctx, d)
	if err != nil {
		return nil, err
	}
	defer t.Done()
	return overview.OwnersIn(t.DB), nil
}

// Running is the work of a statement that reads or writes rows: items of the store, of as many as
// the planner expects. What UPDATE and DELETE have found says how far they are, since they write at
// the same time. A store on other machines counts none.
func (t *Tables) Running(ctx context.Context, stmt *sql.Stmt, args []any) Work {
	w := Work{Doing: "running", Total: -1}
	e := local.Engine(t.DB)
	if e == nil {
		return w
	}
	reads, writes, err := stmt.Expected(ctx, args...)
	if err == nil {
		w.Total = max(int64(reads+writes), 1)
	}
	count := func() int64 {
		m := e.Metrics()
		if writes == 0 && !stmt.Returns() {
			return int64(m.Scanned)
		}
		return int64(m.Scanned + m.Gets + m.Operations)
	}
	before := count()
	w.Done = func() int64 { return count() - before }
	return w
}

// Exec runs a statement that returns no rows. If ctx ends, the process does, unless it is a shell,
// and Exec does not wait for the commit under way: it may take longer than a user waits, cannot be
// taken back once it is in the log, and is whole or not there, as after a kill.
func (t *Tables) Exec(ctx context.Context, a *App, stmt *sql.Stmt, args []any) (sql.Result,
	error) {
	if a.Open != nil || t.SQL.InTransaction() {
		return stmt.Exec(ctx, args...)
	}
	return await(ctx, func() (sql.Result, error) { return stmt.Exec(ctx, args...) })
}

// Find returns a table, or an error that names one that may be meant.
func (t *Tables) Find(name string) (*table.Table, error) {
	found, err := t.Table(name)
	if !errors.Is(err, table.ErrNoTable) {
		return found, err
	}
	hint := "there are no tables; table create makes one"
	if names := t.Names(); len(names) > 0 {
		hint = "there are: " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	if _, err := t.View(name); err == nil {
		hint = name + " is a view: SELECT reads it and DROP VIEW removes it, with the command sql"
	}
	return nil, Advise(fmt.Errorf("there is no table %s%w", name, Quiet(err)), hint)
}

// Names returns the names of the tables.
func (t *Tables) Names() (names []string) {
	for _, found := range t.Tables() {
		names = append(names, found.Name())
	}
	return names
}

// ResultOf returns rows in the form that is printed.
func ResultOf(rows *sql.Rows) present.Result {
	r := present.Result{Rows: rows.All()}
	dates := false
	for i, c := range rows.Columns {
		if r.Names = append(r.Names, c.Name); i == 0 || r.Table == c.Table {
			r.Table = c.Table
		} else {
			r.Table = ""
		}
		dates = dates || strings.HasPrefix(c.Type, "DATE")
	}
	if dates {
		r.Rows = withDates(rows)
	}
	return r
}

// withDates returns rows with dates as texts. Why: as values they are times.
func withDates(rows *sql.Rows) iter.Seq2[[]expr.Value, error] {
	return func(yield func([]expr.Value, error) bool) {
		for row, err := range rows.All() {
			row = slices.Clone(row)
			for i := range row {
				if strings.HasPrefix(rows.Columns[i].Type, "DATE") {
					row[i] = dateText(row[i])
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// dateText returns a date, or dates in a list, as a text.
func dateText(v expr.Value) expr.Value {
	if v.Kind() == expr.KindList {
		list := []expr.Value{}
		for e := range v.Elements() {
			list = append(list, dateText(e))
		}
		return expr.List(list)
	}
	if t, ok := v.AsTime(); ok {
		return expr.String(t.Format(time.DateOnly))
	}
	return v
}

// QuoteName returns the name of a table or column for a statement.
func QuoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
