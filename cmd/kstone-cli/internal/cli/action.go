package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
)

// Action is what a command does.
type Action = func(*cobra.Command, []string) error

// OnDB is the action of a command on a database. fn gets the arguments after the database.
func (a *App) OnDB(m Mode, fn func(ctx context.Context, d *Database, args []string) error) Action {
	return func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		return a.WithDB(path, m, func(d *Database) error { return fn(cmd.Context(), d, args) })
	}
}

// OnTables is OnDB for a command on tables.
func (a *App) OnTables(m Mode, fn func(ctx context.Context, t *Tables, args []string) error,
) Action {
	return func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		return a.WithTables(cmd.Context(), path, m, func(t *Tables) error {
			return fn(cmd.Context(), t, args)
		})
	}
}

// Family makes cmd a command that only has others below it.
func Family(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	var names []string
	for _, sub := range subs {
		sub.DisableFlagsInUseLine = true
		cmd.AddCommand(sub)
		names = append(names, sub.Name())
	}
	slices.Sort(names)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := "there are: " + strings.Join(names, ", ")
		if best := Closest(args[0], names); best != "" {
			hint = fmt.Sprintf("did you mean %q? %s", best, hint)
		}
		return Usage("%s: there is no %s %s", cmd.Name(), cmd.Name(), args[0]).WithHint("%s", hint)
	}
	return cmd
}

// Before adds a check of the flags, which runs before the database is opened.
func Before(cmd *cobra.Command, check func() error) {
	earlier := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if earlier != nil {
			if err := earlier(cmd, args); err != nil {
				return err
			}
		}
		return check()
	}
}

// Use returns the usage line of a command: with the database as the first argument,
// unless it is open already.
func (a *App) Use(verb, rest string) string {
	if a.Open == nil {
		verb += " DB"
	}
	return strings.TrimSpace(verb + " " + rest)
}

// Arguments returns a check of the number of arguments without the database.
func (a *App) Arguments(least, most int) cobra.PositionalArgs {
	if a.Open != nil {
		return Words(least, most)
	}
	if most >= 0 {
		most++
	}
	return Words(least+1, most)
}

// Words returns a check of the number of arguments. A negative most means any number.
func Words(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		problem := "too few arguments"
		switch n := len(args); {
		case n >= least && (most < 0 || n <= most):
			return nil
		case n > least:
			problem = "too many arguments"
		}
		return Usage("%s: %s", cmd.Name(), problem).WithHint("usage: %s; %s help %s shows examples",
			strings.TrimSpace(cmd.UseLine()), Program, strings.TrimSpace(CommandOf(cmd)))
	}
}

// Split separates the database from the other arguments.
func (a *App) Split(args []string) (path string, rest []string) {
	if a.Open != nil {
		return "", args
	}
	return args[0], args[1:]
}

// OutputFlag adds -o, which is one of formats or not given.
func (a *App) OutputFlag(cmd *cobra.Command, help string, formats ...string) {
	a.OutputVar(cmd, help, formats)
	Before(cmd, func() error {
		if a.Format == "" || slices.Contains(formats, a.Format) {
			return nil
		}
		if !cmd.Flags().Changed("output") { // of the shell, about other commands
			a.Format = ""
			return nil
		}
		return Usage("%s: -o is %s or nothing, not %q", cmd.Name(), strings.Join(formats, ", "),
			a.Format)
	})
}

// ItemFlag adds -o to a command that prints items, RowFlag to one that prints rows of tables.
func (a *App) ItemFlag(cmd *cobra.Command) { a.listFlag(cmd, present.Formats) }

// RowFlag adds -o to a command that prints rows.
func (a *App) RowFlag(cmd *cobra.Command) { a.listFlag(cmd, present.RowFormats) }

func (a *App) listFlag(cmd *cobra.Command, formats []present.Format) {
	names := present.FormatNames(formats)
	help := "`FORMAT`: " + strings.Join(names[:5], ", ") + ",\n" + strings.Join(names[5:], ", ") +
		"; default: table on a terminal, jsonl in a pipe"
	a.OutputFlag(cmd, help, names...)
}

// OutputVar adds -o without a check of its value.
func (a *App) OutputVar(cmd *cobra.Command, help string, formats []string) {
	cmd.Flags().StringVarP(&a.Format, "output", "o", a.Format, help)
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// SummaryFlag adds -o to a command that prints a summary.
func (a *App) SummaryFlag(cmd *cobra.Command) {
	a.OutputFlag(cmd, "`FORMAT`: json prints the summary as JSON", "json")
}

// JSONFlag adds -o to a command that prints tables.
func (a *App) JSONFlag(cmd *cobra.Command) {
	a.OutputFlag(cmd, "`FORMAT`: table (default) or json", "table", "json")
}

// PrintJSON prints a value as a line of JSON.
func (a *App) PrintJSON(v any) error {
	e := json.NewEncoder(a.Out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Grid prints a table. The first columns, left of them, are never taken for numbers.
func (a *App) Grid(head []string, rows [][]string, left int) error {
	return present.Grid(a.Out, head, rows, left, present.Options{Width: a.Width, Color: a.Color})
}

// UntilStopped returns a context that ends when the system or the user asks the program to
// stop. Why not leave that to the signals' default: what is temporary has to go first.
func UntilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE} // nobody reads on
	if !signal.Ignored(syscall.SIGHUP) {                                   // else started by nohup
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}
