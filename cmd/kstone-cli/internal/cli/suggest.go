package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Unknown returns the error for a command that does not exist.
func (a *App) Unknown(root *cobra.Command, name string) error {
	var names []string
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			names = append(names, cmd.Name())
		}
	}
	help := Program + " help lists the commands"
	if a.Open != nil {
		help = ".help lists the commands"
	}
	e := Usage("unknown command %q", name).WithHint("%s", help)
	if best := Closest(name, names); best != "" {
		e.WithHint("did you mean %q? %s", best, help)
	}
	return e
}

// FlagError turns an error of the flag parser into a usage error with a suggestion.
func FlagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	if before, _, ok := strings.Cut(text, "time: missing unit in duration"); ok {
		text = before + "a time has a unit, as in 30s, 15m or 24h"
	}
	e := Usage("%s: %s", cmd.Name(), text).
		WithHint("%s help %s shows the flags; values that begin with - go after --", Program,
			CommandOf(cmd))
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if strings.HasPrefix(err.Error(), "unknown shorthand flag: 'i'") {
		name, ok = "input", true
	}
	if !ok {
		return e
	}
	name, _, _ = strings.Cut(name, "=")
	if about := elsewhere[name]; about != "" {
		return Usage("%s has no flag --%s", CommandOf(cmd), name).WithHint("%s", about)
	}
	var names []string
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if best := Closest(name, names); best != "" {
		e.WithHint("did you mean --%s?", best)
	}
	return e
}

// CommandOf returns the words that name a command, without the program.
func CommandOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), Program+" ")
}

// Closest returns the name that text was most likely meant to be, or "".
func Closest(text string, names []string) string {
	best, bestDistance := "", max(len(text)/3, 1)+1
	for _, name := range names {
		d := distance(text, name)
		if len(text) >= 3 && (strings.HasPrefix(name, text) || strings.HasPrefix(text, name)) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

// HelpCommand is cobra's, with our errors.
func (a *App) HelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show how a command is used",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == Program {
				return root.Help()
			}
			for _, cmd := range root.Commands() {
				if cmd.Name() == args[0] {
					if sub, _, err := cmd.Find(args[1:]); err == nil {
						cmd = sub
					}
					cmd.InitDefaultHelpFlag()
					return cmd.Help()
				}
			}
			return fmt.Errorf("help: %w", a.Unknown(root, args[0]))
		},
	}
}
