package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
)

type action = func(*cobra.Command, []string) error

// onDB is the action of a command on a database. fn gets the arguments after the database.
func (a *app) onDB(m mode, fn func(ctx context.Context, d *database, args []string) error) action {
	return func(cmd *cobra.Command, args []string) error {
		path, args := a.split(args)
		return a.withDB(path, m, func(d *database) error { return fn(cmd.Context(), d, args) })
	}
}

// onTables is onDB for a command on tables.
func (a *app) onTables(m mode, fn func(ctx context.Context, t *tables, args []string) error,
) action {
	return func(cmd *cobra.Command, args []string) error {
		path, args := a.split(args)
		return a.withTables(cmd.Context(), path, m, func(t *tables) error {
			return fn(cmd.Context(), t, args)
		})
	}
}

// family makes cmd a command that only has others below it.
func family(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
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
		if best := closest(args[0], names); best != "" {
			hint = fmt.Sprintf("did you mean %q? %s", best, hint)
		}
		return usage("%s: there is no %s %s", cmd.Name(), cmd.Name(), args[0]).withHint("%s", hint)
	}
	return cmd
}

// before adds a check of the flags, which runs before the database is opened.
func before(cmd *cobra.Command, check func() error) {
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

// use returns the usage line of a command: with the database as the first argument,
// unless it is open already.
func (a *app) use(verb, rest string) string {
	if a.open == nil {
		verb += " DB"
	}
	return strings.TrimSpace(verb + " " + rest)
}

// arguments returns a check of the number of arguments besides the database.
func (a *app) arguments(least, most int) cobra.PositionalArgs {
	if a.open != nil {
		return words(least, most)
	}
	if most >= 0 {
		most++
	}
	return words(least+1, most)
}

// words returns a check of the number of arguments. A negative most means any number.
func words(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		problem := "too few arguments"
		switch n := len(args); {
		case n >= least && (most < 0 || n <= most):
			return nil
		case n > least:
			problem = "too many arguments"
		}
		return usage("%s: %s", cmd.Name(), problem).withHint("usage: %s; %s help %s shows examples",
			strings.TrimSpace(cmd.UseLine()), program, strings.TrimSpace(commandOf(cmd)))
	}
}

// split separates the database from the other arguments.
func (a *app) split(args []string) (path string, rest []string) {
	if a.open != nil {
		return "", args
	}
	return args[0], args[1:]
}

// outputFlag adds -o, which is one of formats or not given.
func (a *app) outputFlag(cmd *cobra.Command, help string, formats ...string) {
	a.outputVar(cmd, help, formats)
	before(cmd, func() error {
		if a.format == "" || slices.Contains(formats, a.format) {
			return nil
		}
		return usage("%s: -o is %s or nothing, not %q", cmd.Name(), strings.Join(formats, ", "),
			a.format)
	})
}

// itemFlag adds -o to a command that prints items or rows.
func (a *app) itemFlag(cmd *cobra.Command, help string) {
	a.outputVar(cmd, help, formatNames())
	before(cmd, func() error {
		if _, err := present.ParseFormat(a.format); a.format != "" && err != nil {
			return usage("-o: %v", err)
		}
		return nil
	})
}

func (a *app) outputVar(cmd *cobra.Command, help string, formats []string) {
	cmd.Flags().StringVarP(&a.format, "output", "o", a.format, help)
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// summaryFlag adds -o to a command that prints a summary.
func (a *app) summaryFlag(cmd *cobra.Command) {
	a.outputFlag(cmd, "`FORMAT`: json prints the summary as JSON", "json")
}

// jsonFlag adds -o to a command that prints tables.
func (a *app) jsonFlag(cmd *cobra.Command) {
	a.outputFlag(cmd, "`FORMAT`: table (default) or json", "table", "json")
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// grid prints a table. The first columns, left of them, are never taken for numbers.
func (a *app) grid(head []string, rows [][]string, left int) error {
	return present.Grid(a.out, head, rows, left, present.Options{Width: a.width, Color: a.color})
}

// busy runs fn with a spinner.
func (a *app) busy(doing string, fn func() error) error {
	defer meter.New(a.err, a.errTTY, -1, doing).Spin()()
	return fn()
}

// gauge returns a function that shows how many bytes are done, and one that takes the bar
// away. The total is that of the first call.
func (a *app) gauge(doing string) (set func(done, total int64), stop func()) {
	var m *meter.Meter
	set = func(done, total int64) {
		if m == nil {
			m = meter.New(a.err, a.errTTY, total, doing)
		}
		m.Set(done)
	}
	return set, func() {
		if m != nil {
			m.Done()
		}
	}
}
