package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/figure"
)

// Program is the name of the program in messages.
const Program = "kstone-cli"

// App is one run of the program, or one line of a shell.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminals get tables, colours and progress bars.
	InTTY, OutTTY, ErrTTY bool
	Color                 bool
	Width                 int

	// Context ends when the user stops the program; nil: never.
	Context context.Context //nolint:containedctx // of the program

	// Values of flags that several commands have.
	Durability string
	Input      string
	Format     string
	Timing     bool

	// Settings of a shell: how many rows of a list are shown, 0 for the usual number and negative
	// for all, and whether tables leave their headings out.
	MaxRows int
	Plain   bool

	Set []string // settings to choose when the database is opened, as NAME=VALUE

	// AsOf is the moment that is read, as store.ParseMoment takes it; empty: the present.
	AsOf string

	// Open is the database of a shell; nil outside of one.
	Open *Database
	// More continues the last query or scan of a shell; nil if it was complete.
	More func(ctx context.Context) error

	opened time.Duration // how long opening took, for --timing
}

// Timed runs fn, reports its error, and how long it took if that was asked for.
func (a *App) Timed(fn func() error) error {
	start := time.Now()
	err := fn()
	a.Report(err)
	if !a.Timing {
		return err
	}
	total := time.Since(start)
	text := "time: " + figure.Duration(total)
	if a.Open == nil {
		text = fmt.Sprintf("time: open %s, run %s", figure.Duration(a.opened),
			figure.Duration(total-a.opened))
	}
	if a.ErrTTY && a.Color {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(a.Err, text)
	return err
}

// Report writes an error to standard error.
func (a *App) Report(err error) {
	var reported silent
	if err == nil || errors.As(err, &reported) {
		return
	}
	text, hint := message(err)
	text, hint = Shown(text), Shown(hint)
	prefix := Program + ": "
	if a.Open != nil {
		prefix, hint = "error: ", strings.ReplaceAll(hint, Program+" help", ".help")
	}
	if a.ErrTTY && a.Color {
		prefix = "\x1b[31m" + prefix + "\x1b[0m"
	}
	fmt.Fprintf(a.Err, "%s%s\n", prefix, strings.ReplaceAll(text, "\n", "\n  "))
	if hint != "" {
		fmt.Fprintf(a.Err, "  %s\n", hint)
	}
}

// Database is an open database with what the commands know about its keys. Of one that was opened
// by URL, DB is nil: it has tables only.
type Database struct {
	*engine.DB
	remote store.Store // of a URL, or nil
	writes bool        // it was not opened read-only
	Path   string
	Schema *layout.Schema
	// Statements run in one session, so that a transaction goes on from one to the next. Both
	// are nil until there is one.
	tables  *table.DB
	Session *sql.Session
}

// flushAtClose is from how many bytes in memtables on Close flushes them: the next command would
// read the log again, which takes 4 ms a MiB.
const flushAtClose = 4 << 20

// Close rolls back what is open, and closes the database.
func (d *Database) Close() error {
	var err error
	if d.Session != nil {
		d.Session.Rollback()
		err = d.tables.Close()
	}
	if d.remote != nil {
		return errors.Join(err, d.remote.Close())
	}
	if d.writes && d.Metrics().MemtableBytes > flushAtClose {
		_ = d.Flush(context.Background()) // without it all is in the log
	}
	return errors.Join(err, d.DB.Close())
}

// Retained returns an error if the database has the setting without which there are no changes to
// read.
func (d *Database) Retained() error {
	for _, s := range d.Settings() {
		if s.Name == "retain-bytes" && s.Value == "none" {
			return Usage("%s retains no log: the changes so far are gone", d.Path).WithHint(
				"%s settings %s %s=64MiB retain-age=24h retains those from now on", Program, d.Path,
				s.Name)
		}
	}
	return nil
}

// Mode says how a command opens the database.
type Mode uint8

const (
	ReadOnly  Mode = iota // it changes nothing
	ReadWrite             // it writes to one that is there
	Create                // it makes one if there is none
)

// WithDB runs fn with the database: that of the shell, or the one in path, which is
// opened for the time of the call. It takes no URL.
func (a *App) WithDB(path string, m Mode, fn func(*Database) error) error {
	return a.WithOptions(path, m, nil, fn)
}

// WithOptions is WithDB with options of the engine, unless the database is that of the shell.
func (a *App) WithOptions(path string, m Mode, o *engine.Options, fn func(*Database) error) error {
	if a.Open != nil {
		path = a.Open.Path
	}
	if IsURL(path) {
		return engineOnly(path)
	}
	return a.with(path, m, o, fn)
}

// with is WithOptions of directories and URLs.
func (a *App) with(path string, m Mode, o *engine.Options, fn func(*Database) error) (err error) {
	if a.Open != nil {
		return fn(a.Open)
	}
	d, err := a.OpenDB(path, m, o)
	if err != nil {
		return err
	}
	defer func() {
		// Why not after Ctrl-C: Close may flush for a second. The program ends now, and what was
		// written is in the log, as after a kill.
		if m == ReadOnly || d.remote != nil || !errors.Is(err, context.Canceled) {
			err = errors.Join(err, d.Close())
		}
	}()
	return fn(d)
}

// OnEither runs fn with the database in path, a directory or a URL, to look something up.
func (a *App) OnEither(path string, fn func(*Database) error) error {
	return a.with(path, ReadOnly, nil, fn)
}

// OpenDB opens a database, in a directory or by URL. Options of the engine other than those of the
// command line can be given.
func (a *App) OpenDB(path string, m Mode, o *engine.Options) (*Database, error) {
	switch {
	case path == "":
		return nil, Usage("the name of the database is empty").WithHint("name a directory")
	case IsURL(path):
		return a.openURL(path)
	}
	if o == nil {
		o = &engine.Options{}
	}
	if len(a.Set) > 0 && m == ReadOnly {
		return nil, Usage("--set changes the database, which would only be read").
			WithHint("%s settings %s %s does so", Program, path, strings.Join(a.Set, " "))
	}
	if err := Choose(o, a.Set); err != nil {
		return nil, err
	}
	d := &Database{Path: path, writes: m != ReadOnly}
	o.ReadOnly, o.MustExist, o.Durability = m == ReadOnly, m != Create, a.Level()
	start := time.Now()
	// Why it does not wait if the program ends: reading the log again may take seconds, and a
	// database that was being opened is as it was.
	db, err := await(a.untilStopped(), func() (*engine.DB, error) { return engine.Open(path, o) })
	d.DB = db
	a.opened += time.Since(start)
	if err != nil {
		return nil, err
	}
	if err := d.LoadSchema(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// await returns what fn does, or without it if ctx ends.
func await[T any](ctx context.Context, fn func() (T, error)) (v T, err error) {
	done := make(chan func(), 1)
	go func() {
		got, failed := fn()
		done <- func() { v, err = got, failed }
	}()
	select {
	case set := <-done:
		set()
		return v, err
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// untilStopped returns Context, or one that does not end.
func (a *App) untilStopped() context.Context {
	if a.Context == nil {
		return context.Background()
	}
	return a.Context
}

// LoadSchema reads the layout of the keys again.
func (d *Database) LoadSchema() error {
	data, ok := d.Property(layout.Property)
	if !ok {
		d.Schema = nil
		return nil
	}
	var err error
	d.Schema, err = layout.DecodeSchema(data)
	return err
}

// BriefRows is how many rows a list on a terminal shows unless .maxrows says otherwise.
const BriefRows = 40

// Options returns how to write items or rows. On a terminal the middle of a long list is left
// out; of a limited list it never is.
func (a *App) Options(s *layout.Schema, limited bool) present.Options {
	o := present.Options{Format: present.Format(a.Format), Schema: s, Width: a.Width,
		Color: a.Color, Plain: a.Plain, Auto: a.Format == ""}
	switch {
	case a.Format == "" && a.OutTTY:
		o.Format = present.Table
	case a.Format == "":
		o.Format = present.JSONL
	}
	if a.OutTTY && !limited && a.MaxRows >= 0 {
		if o.Brief = a.MaxRows; o.Brief == 0 {
			o.Brief = BriefRows
		}
	}
	return o
}
