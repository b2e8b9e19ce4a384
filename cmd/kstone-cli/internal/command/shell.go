package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
)

func shellCommand(a *cli.App) *cobra.Command {
	var commands []string
	var readonly, newDB, bail bool
	cmd := &cobra.Command{
		Use:   "shell [DB]",
		Short: "Type commands, with history and completion",
		Long: `Open a database and run commands typed at a prompt, or read from standard input if
that is no terminal. The commands are those of kstone-cli without the name of the
database; .help lists them. Without DB the database lives in memory.

Words are separated by spaces. 'Single quotes' take everything literally, "double
quotes" know the escapes \n, \x00, \u00e9. Statements of the query language (see help
sql) are typed as they are and end with a semicolon, perhaps some lines later.

Lines that begin with a space are kept out of the history, which is in the file that
KSTONE_HISTORY names, or else in the user's state directory.

A script goes on after an error; the exit code is that of the first one. Ctrl-C, an error after
BEGIN, or an end without COMMIT, rolls the transaction back and ends the script.`,
		Example: `  kstone-cli shell cities.db
  kstone-cli shell cities.db -c 'count IT' -c 'query IT -p Lombardy -n 3'
  kstone-cli shell my.db --create < commands.txt`,
		Args: cli.Words(0, 1),
	}
	cmd.Flags().StringArrayVarP(&commands, "command", "c", nil,
		"run this `COMMAND` and leave (repeatable)")
	a.SetFlag(cmd)
	cmd.Flags().BoolVar(&readonly, "read-only", false,
		"open the database read-only, beside readers and a writer")
	cmd.Flags().BoolVar(&newDB, "create", false, "create the database if there is none")
	cmd.Flags().BoolVar(&bail, "bail", false, "stop a script at the first error")
	a.DurabilityFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s := &session{app: a, bail: bail, ctx: context.WithoutCancel(cmd.Context()),
			preferences: preferences{".durability": a.Durability}}
		if err := s.open(args, readonly, newDB); err != nil {
			return err
		}
		switch {
		case len(commands) > 0:
			s.script(scriptOf(commands), "")
		case a.InTTY && a.OutTTY:
			s.preferences[".timer"] = "on"
			s.startUp()
			s.interactive()
		default:
			s.script(a.In, "")
		}
		s.abandon("the shell ends")
		s.closeOutput()
		return errors.Join(s.failed, s.db.Close())
	}
	return cmd
}

// session is a running shell.
type session struct {
	app *cli.App
	db  *cli.Database
	ctx context.Context

	preferences preferences
	bail        bool
	output      *output        // where results go instead of standard output
	once        bool           // only those of the next command
	last        *cli.App       // the command whose list can be continued
	depth       int            // of .read
	failed      error          // what decides the exit code
	failures    int            // errors so far
	stopped     bool           // the last of them was Ctrl-C
	left        bool           // .exit was given
	tree        *cobra.Command // the commands, once they were asked for
}

func (s *session) open(args []string, readonly, newDB bool) (err error) {
	if len(args) == 0 {
		s.db, err = s.app.OpenDB("memory", cli.Create, &engine.Options{InMemory: true})
		return err
	}
	m := cli.ReadWrite
	switch {
	case readonly && cli.IsURL(args[0]):
		return cli.Usage("--read-only is about directories: the store at a URL takes what its " +
			"user may write").WithHint("open it as a user that may only read")
	case readonly:
		m = cli.ReadOnly
	case newDB:
		m = cli.Create
	}
	s.db, err = s.app.OpenDB(args[0], m, nil)
	if errors.Is(err, engine.ErrNotExist) {
		return cli.Advise(err, "check the path, or add --create to start a new database")
	}
	return err
}

// script runs the lines of r. A name is shown with errors. An error in a transaction, or of its
// BEGIN, ends it: what follows counts on the transaction. Ctrl-C ends it as well, and scripts that
// read it.
func (s *session) script(r io.Reader, name string) {
	defer func(ctx context.Context) { s.ctx = ctx }(s.ctx)
	var stop func()
	s.ctx, stop = signal.NotifyContext(s.ctx, os.Interrupt)
	defer stop()
	in, outer := bufio.NewReader(cli.Interruptible(s.ctx, r)), s.inTransaction()
	var pending unfinished
	n, start := 0, 0
	s.stopped = false
	for !s.left && !s.stopped && (s.failed == nil || !s.bail) {
		line, err := in.ReadString('\n')
		if s.ctx.Err() != nil {
			pending.text = nil
			s.report(s.ctx.Err())
			break
		}
		if line == "" && err != nil {
			if !errors.Is(err, io.EOF) {
				s.report(err)
			}
			break
		}
		if n++; len(pending.text) == 0 {
			start = n
		}
		if pending.add(line) {
			continue
		}
		before, text := s.failures, string(pending.text)
		err = s.input(text)
		if err != nil && name != "" {
			fmt.Fprintf(s.app.Err, "  (%s, line %d)\n", name, start)
		}
		if s.failures > before && (s.inTransaction() || begins(text)) {
			if !outer {
				s.abandon("the script ends")
			}
			return
		}
		pending.text = pending.text[:0]
	}
	switch {
	case len(pending.text) == 0 || s.left || s.failed != nil && s.bail:
	case pending.sql:
		_ = s.statement(string(pending.text)) // the last one needs no semicolon
	default:
		s.report(cli.Usage("line %d: %v", start, shell.ErrOpenQuote))
	}
	if !outer && s.abandon("the script ends without COMMIT") {
		s.fail(cli.Usage("no COMMIT"))
	}
}

// input runs a command or statement. It returns the error after having reported it.
func (s *session) input(text string) error {
	if isSQL(text) {
		return s.statement(text)
	}
	if statement, ok := sqlWord(text); ok {
		return s.statement(statement)
	}
	if strings.HasPrefix(text, `\`) { // a command such as \x, not an escape
		text = `\` + text
	}
	words, err := shell.Split(text)
	if err != nil {
		err = cli.Usage("%v", err)
		s.report(err)
		return err
	}
	return s.execute(words)
}

// interactive reads commands from the terminal until the end of the input or .exit.
func (s *session) interactive() {
	s.banner()
	o := shell.EditorOptions{
		Prompt:   s.prompt,
		History:  shell.OpenHistory(shell.HistoryFile()),
		Whole:    func(text string) bool { return !goesOn(text) },
		Complete: s.complete,
		Hint:     s.hint,
	}
	if s.app.Color {
		o.Highlight = s.highlight
	}
	// Ctrl-C after the last moment of a command is for nobody.
	late := make(chan os.Signal, 1)
	signal.Notify(late, os.Interrupt)
	defer signal.Stop(late)
	editor := shell.NewEditor(o)
	for !s.left {
		text, err := editor.Read()
		switch {
		case errors.Is(err, shell.ErrAborted):
			if strings.TrimSpace(text) == "" {
				fmt.Fprintln(s.app.Err, "(Ctrl-D or .exit leaves)")
			}
			continue
		case err != nil:
			fmt.Fprintln(s.app.Out)
			return
		}
		_ = s.input(text)
		s.failed = nil // a typo does not make a session fail
	}
}

// prompt returns the name of the database, with a mark while a transaction is open.
func (s *session) prompt() string {
	mark := ""
	if s.inTransaction() {
		mark = "*"
	}
	return s.db.ShortName() + mark + "> "
}

func (s *session) banner() {
	out := s.app.Out
	if s.db.DB == nil {
		fmt.Fprintf(out, "%s: tables on other machines\n%s", cli.Shown(s.db.Path), bannerHelp)
		return
	}
	m := s.db.Metrics()
	if s.db.Path == "memory" && m.Total.Records == 0 {
		fmt.Fprintln(out, "a database in memory, gone when you leave")
	} else {
		about := "empty"
		if m.Total.Records > 0 {
			about = fmt.Sprintf("%s in %d stripes%s", figure.Plural(int64(m.Total.Records),
				"record"), m.StripesUsed, s.tablesText())
		}
		if s.db.Schema != nil {
			about += ", keys " + strings.Join(s.db.Schema.PKFields(), " / ")
			if fields := s.db.Schema.SKFields(); len(fields) > 0 {
				about += " · " + strings.Join(fields, " / ")
			}
		}
		fmt.Fprintf(out, "%s: %s\n", s.db.Path, about)
	}
	fmt.Fprint(out, bannerHelp)
}

// tablesText says how many tables the records belong to, too.
func (s *session) tablesText() string {
	t, err := s.app.OpenTables(s.ctx, s.db)
	if err != nil {
		return "" // the first statement returns it
	}
	defer t.Done()
	if names := t.Names(); len(names) > 0 {
		return ", those of " + figure.Plural(int64(len(names)), "table") + " included"
	}
	return ""
}

const bannerHelp = ".help lists the commands, Tab completes, Ctrl-C stops a command, " +
	"Ctrl-D leaves\n"

// execute runs one command. It returns the error after having reported it.
func (s *session) execute(words []shell.Word) error {
	if len(words) == 0 {
		return nil
	}
	args := textsOf(words)
	if name, ok := aliases[args[0]]; ok {
		args[0] = name
	}
	if long := short(args[0], args[1:]); long != nil {
		args = long
	}
	switch name := args[0]; {
	case strings.HasPrefix(name, "."), strings.HasPrefix(name, `\`):
		if err := s.dot(name, args[1:]); err != nil {
			s.report(err)
			return err
		}
		return nil
	case name == "exit" || name == "quit":
		s.left = true
		return nil
	case name == "help" || name == "?":
		s.report(s.help(args[1:]))
		return nil
	}
	ctx, stop := signal.NotifyContext(s.ctx, os.Interrupt)
	defer stop()
	if args[0] == "more" {
		return s.more(ctx)
	}
	defer s.page()()
	cmd := s.command()
	err := runLine(ctx, cmd, args)
	s.last = nil
	if cmd.More != nil {
		s.last = cmd
	}
	s.fail(err)
	s.endOnce(err)
	return err
}

func textsOf(words []shell.Word) []string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}
	return texts
}

// command returns an app for one line.
func (s *session) command() *cli.App {
	cmd := *s.app
	cmd.Open, cmd.More, cmd.Input = s.db, nil, "text"
	s.preferences.apply(&cmd)
	if s.output != nil {
		cmd.Out, cmd.OutTTY, cmd.Color = s.output, s.output.shown, s.output.shown && cmd.Color
		if s.output.shown { // the pager cuts nothing
			cmd.MaxRows = -1
		}
	}
	return &cmd
}

// more continues the last list.
func (s *session) more(ctx context.Context) error {
	if s.last == nil {
		err := cli.Usage("there is nothing more to show").
			WithHint("more continues a query or scan that --limit has cut")
		s.report(err)
		return err
	}
	err := s.last.Timed(func() error { return s.last.More(ctx) })
	if s.last.More == nil {
		s.last = nil
	}
	s.fail(err)
	return err
}

func (s *session) report(err error) {
	if err != nil {
		s.command().Report(err)
		s.fail(err)
	}
}

// fail keeps the first error for the exit code.
func (s *session) fail(err error) {
	if err == nil {
		return
	}
	s.failures++
	s.stopped = errors.Is(err, context.Canceled)
	if s.failed == nil {
		s.failed = cli.Silent(err)
	}
}
