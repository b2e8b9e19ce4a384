package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help texts are wrapped to the terminal, between these bounds.
const (
	minHelpCols = 40
	maxHelpCols = 100 // longer lines are hard to read
)

// WrapHelp makes a command and those below it show their help as wide as the terminal.
func (a *App) WrapHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		h := &helpPage{w: a.Out, cols: maxHelpCols, shell: a.Open != nil}
		if a.OutTTY && a.Width > 0 {
			h.cols = min(max(a.Width, minHelpCols), maxHelpCols)
		}
		h.write(cmd)
	})
}

// helpPage is the help of one command.
type helpPage struct {
	w     io.Writer
	cols  int
	shell bool // it is shown in a shell, where lines cannot go on with a backslash
}

func (h *helpPage) write(cmd *cobra.Command) {
	h.prose(cmd.Long)
	if cmd.Runnable() && cmd.HasParent() && !cmd.HasAvailableSubCommands() {
		h.title("Usage")
		for _, line := range wrapText(strings.TrimSpace(cmd.UseLine()), h.cols-2, 4) {
			fmt.Fprintln(h.w, "  "+line)
		}
	}
	if cmd.Example != "" {
		h.title("Examples")
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			h.example(line)
		}
	}
	h.commands(cmd)
	h.flags(cmd)
	if cmd.HasAvailableSubCommands() && !h.shell {
		path := ""
		if cmd.HasParent() {
			path = strings.TrimSpace(CommandOf(cmd)) + " "
		}
		fmt.Fprintf(h.w, "\n%s help %sCOMMAND shows flags and examples.\n", Program, path)
	}
}

func (h *helpPage) title(text string) { fmt.Fprintf(h.w, "\n%s:\n", text) }

// prose writes paragraphs. A line that begins with a space stays as it is.
func (h *helpPage) prose(text string) {
	var words []string
	flush := func() {
		if len(words) > 0 {
			for _, line := range wrapText(strings.Join(words, " "), h.cols, 0) {
				fmt.Fprintln(h.w, line)
			}
		}
		words = nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		switch {
		case line == "", strings.HasPrefix(line, " "):
			flush()
			fmt.Fprintln(h.w, line)
		default:
			words = append(words, line)
		}
	}
	flush()
}

// example writes a command, which can be copied: in the system's shell a long one goes on after a
// backslash.
func (h *helpPage) example(line string) {
	const indent = "    "
	for !h.shell && runewidth.StringWidth(line) > h.cols {
		cut := commandBreak(line, h.cols-2)
		if cut < 0 {
			break
		}
		fmt.Fprintln(h.w, line[:cut]+" \\")
		line = "  " + indent + line[cut+1:]
	}
	fmt.Fprintln(h.w, line)
}

// commandBreak returns the last space within so many columns that is in no quotes and not part of
// the indent, -1 if there is none.
func commandBreak(line string, cols int) int {
	cut, quote, begun, width := -1, rune(0), false, 0
	for i, c := range line {
		if width += runewidth.RuneWidth(c); width > cols {
			break
		}
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == ' ' && quote == 0 && begun:
			cut = i
		}
		begun = begun || c != ' '
	}
	if strings.TrimSpace(line[:max(cut, 0)]) == "" {
		return -1
	}
	return cut
}

// commands lists the commands below one, by their groups.
func (h *helpPage) commands(cmd *cobra.Command) {
	for _, g := range append(slices.Clone(cmd.Groups()), &cobra.Group{Title: "Commands"}) {
		var rows [][2]string
		for _, sub := range cmd.Commands() {
			if sub.GroupID == g.ID && sub.IsAvailableCommand() {
				rows = append(rows, [2]string{sub.Name(), sub.Short})
			}
		}
		h.table(strings.TrimSuffix(g.Title, ":"), rows)
	}
}

// flags lists the flags of a command. Those of all commands come last.
func (h *helpPage) flags(cmd *cobra.Command) {
	var rows [][2]string
	add := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		usage = strings.TrimPrefix(strings.ReplaceAll(usage, "\n", " "), name+": ")
		left := "    --" + f.Name
		if f.Shorthand != "" {
			left = "-" + f.Shorthand + ", --" + f.Name
		}
		if f.NoOptDefVal == "" && name != "" {
			left += " " + name
		}
		switch f.DefValue {
		case "", "0", "0s", "false", "[]":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		rows = append(rows, [2]string{left, usage})
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	h.table("Flags", rows)
}

// maxLeftCols is how wide the left column of a table gets; what is wider has a line of its own.
const maxLeftCols = 28

// table writes names on the left and texts on the right.
func (h *helpPage) table(title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	h.title(title)
	left := 0
	for _, r := range rows {
		if n := len(r[0]); n <= maxLeftCols {
			left = max(left, n)
		}
	}
	for _, r := range rows {
		lines := wrapText(r[1], h.cols-left-4, 0)
		if len(r[0]) > left {
			fmt.Fprintf(h.w, "  %s\n", r[0])
			r[0] = ""
		}
		for i, line := range lines {
			if i > 0 {
				r[0] = ""
			}
			fmt.Fprintf(h.w, "  %-*s  %s\n", left, r[0], line)
		}
	}
}

// wrapText breaks a text between words after so many columns; the lines after the first begin with
// indent spaces. A longer word has a line of its own.
func wrapText(text string, cols, indent int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case runewidth.StringWidth(line+" "+word) > cols:
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
