package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

const program = "kstone-cli"

// app is one run of the program, or one line of a shell.
type app struct {
	in       io.Reader
	out, err io.Writer
	// Terminals get tables, colours and progress bars.
	inTTY, outTTY, errTTY bool
	color                 bool
	width                 int

	// Values of flags that several commands have.
	durability string
	input      string
	format     string
	timing     bool

	set []string // settings to choose when the database is opened, as NAME=VALUE

	// open is the database of a shell; nil outside of one.
	open *database
	// more continues the last query or scan of a shell; nil if it was complete.
	more func(ctx context.Context) error

	opened time.Duration // how long opening took, for --timing
}

// Main runs the program with the given arguments and returns its exit code.
func Main(args []string) int {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	a.inTTY = term.IsTerminal(int(os.Stdin.Fd()))
	a.outTTY = term.IsTerminal(int(os.Stdout.Fd()))
	a.errTTY = term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb"
	a.color = a.outTTY && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return a.run(ctx, args)
}

// run executes one command line, reports its error and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int { return exitCode(a.runLine(ctx, args)) }

// runLine executes one command line, reports its error and returns it.
func (a *app) runLine(ctx context.Context, args []string) error {
	if a.outTTY {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			a.width = width
		}
	}
	root := a.root()
	root.SetArgs(args)
	return a.timed(func() error { return root.ExecuteContext(ctx) })
}

// timed runs fn, reports its error, and how long it took if that was asked for.
func (a *app) timed(fn func() error) error {
	start := time.Now()
	err := fn()
	a.report(err)
	if !a.timing {
		return err
	}
	total := time.Since(start)
	text := "time: " + present.Duration(total)
	if a.open == nil {
		text = fmt.Sprintf("time: open %s, run %s", present.Duration(a.opened),
			present.Duration(total-a.opened))
	}
	if a.errTTY && a.color {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(a.err, text)
	return err
}

// report writes an error to standard error.
func (a *app) report(err error) {
	var reported silent
	if err == nil || errors.As(err, &reported) {
		return
	}
	text, hint := message(err)
	if a.open != nil {
		hint = strings.ReplaceAll(hint, program+" help", ".help")
	}
	prefix := program + ": "
	if a.open != nil {
		prefix = "error: "
	}
	if a.errTTY && a.color {
		prefix = "\x1b[31m" + prefix + "\x1b[0m"
	}
	fmt.Fprintf(a.err, "%s%s\n", prefix, strings.ReplaceAll(text, "\n", "\n  "))
	if hint != "" {
		fmt.Fprintf(a.err, "  %s\n", hint)
	}
}

// database is an open database with what the commands know about its keys.
type database struct {
	*engine.DB
	path   string
	schema *layout.Schema
	// Statements run in one session, so that a transaction goes on from one to the next. Both
	// are nil until there is one.
	tables  *table.DB
	session *sql.Session
}

// Close rolls back what is open, and closes the database.
func (d *database) Close() error {
	var err error
	if d.session != nil {
		d.session.Rollback()
		err = d.tables.Close()
	}
	return errors.Join(err, d.DB.Close())
}

// mode says how a command opens the database.
type mode uint8

const (
	readOnly mode = iota
	readWrite
	create // make it if there is none
)

// withDB runs fn with the database: that of the shell, or the one in path, which is
// opened for the time of the call.
func (a *app) withDB(path string, m mode, fn func(*database) error) (err error) {
	if a.open != nil {
		return fn(a.open)
	}
	d, err := a.openDB(path, m, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return fn(d)
}

// openDB opens a database. Options other than those of the command line can be given.
func (a *app) openDB(path string, m mode, o *engine.Options) (*database, error) {
	if path == "" {
		return nil, usage("the name of the database is empty").withHint("name a directory")
	}
	if o == nil {
		o = &engine.Options{}
	}
	if len(a.set) > 0 && m == readOnly {
		return nil, usage("--set changes the database, which would only be read").
			withHint("%s settings %s %s does so", program, path, strings.Join(a.set, " "))
	}
	if err := choose(o, a.set); err != nil {
		return nil, err
	}
	d := &database{path: path}
	o.ReadOnly, o.MustExist, o.Durability = m == readOnly, m != create, a.level()
	start := time.Now()
	var err error
	d.DB, err = engine.Open(path, o)
	a.opened += time.Since(start)
	if err != nil {
		return nil, err
	}
	if err := d.loadSchema(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *database) loadSchema() error {
	data, ok := d.Property(layout.Property)
	if !ok {
		d.schema = nil
		return nil
	}
	var err error
	d.schema, err = layout.DecodeSchema(data)
	return err
}

// options returns how to write items. A limited list is never cut in the middle.
func (a *app) options(s *layout.Schema, limited bool) present.Options {
	o := present.Options{Format: present.Format(a.format), Schema: s, Width: a.width,
		Color: a.color}
	switch {
	case a.format != "":
	case a.outTTY:
		o.Format, o.Brief = present.Table, !limited
	default:
		o.Format = present.JSONL
	}
	return o
}

// root returns the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           program,
		Short:         "Explore and maintain kstone databases",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return a.unknown(cmd, args[0])
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(a.helpCommand(root))
	flags := root.PersistentFlags()
	flags.BoolVar(&a.timing, "timing", a.timing, "print how long the command took")
	for _, group := range a.groups() {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			cmd.DisableFlagsInUseLine = true
			if a.open != nil {
				inShell(cmd)
			}
			root.AddCommand(cmd)
		}
	}
	if a.open != nil { // no name of a program before the command
		root.Use = ""
		root.CompletionOptions.DisableDefaultCmd = true
		root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{.UseLine}}",
			"{{trim .UseLine}}", 1))
	}
	return root
}

const rootHelp = `kstone-cli explores and maintains kstone databases.

A database is a directory. Every item has a partition key (PK), an optional sort
key (SK) and a value. Commands that only read open it read-only, several at a time.

Data goes to standard output, everything else to standard error. Exit codes: 0 ok,
1 error, 2 usage, 3 not found, 4 condition failed, 5 corrupt, 6 locked.`

type group struct {
	title    string
	commands []*cobra.Command
}

// groups lists the commands. Those that only make sense outside of a shell are left
// out inside of one.
func (a *app) groups() []group {
	all := []group{
		{"Items", []*cobra.Command{
			a.getCommand(), a.putCommand(), a.deleteCommand(),
			a.queryCommand(), a.scanCommand(), a.countCommand(),
		}},
		{"Tables", []*cobra.Command{a.sqlCommand(), a.tableCommand(), a.indexCommand()}},
		{"Bulk data", []*cobra.Command{
			a.importCommand(), a.dedupCommand(), a.exportCommand(), a.dumpCommand(),
			a.backupCommand(),
		}},
		{"Look inside", []*cobra.Command{
			a.statsCommand(), a.verifyCommand(), a.inspectCommand(), a.stripeCommand(),
		}},
		{"Upkeep", []*cobra.Command{a.settingsCommand(), a.flushCommand(), a.compactCommand()}},
	}
	if a.open != nil {
		return all
	}
	return append(all,
		group{"Keys", []*cobra.Command{a.keysCommand(), a.segmentCommand()}},
		group{"Prove and rescue", []*cobra.Command{a.repairCommand(), a.tortureCommand()}},
		group{"Start here", []*cobra.Command{a.shellCommand(), a.demoCommand()}})
}
