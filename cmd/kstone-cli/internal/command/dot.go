package command

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
)

// dotCommands steer the shell itself, or are short for a command.
var dotCommands = []struct{ name, args, help string }{
	{".help", "[COMMAND]", "list the commands, or show how one is used"},
	{".tables", "", "list tables and views"},
	{".schema", "[TABLE]", "show the statements that make tables, or one table"},
	{".indexes", "[TABLE]", "list indexes"},
	{".import", "FILE [TABLE]", "import a file, into a table if one is named"},
	{".dump", "[TABLE…]", "write tables as statements (the command dump)"},
	{".read", "FILE", "run the commands in a file"},
	{".once", "FILE | '|' COMMAND", "write the next result to a file, or to a program"},
	{".output", "[FILE | '|' COMMAND]", "write results to a file or program; alone it ends that"},
	{".mode", "[FORMAT | auto]", "how items and rows are shown from now on (also .format)"},
	{".headers", "[on|off]", "show the names of columns above tables"},
	{".maxrows", "[N | all]", "how many rows of a long list are shown"},
	{".pager", "[on|off]", "show long results whole, in the program that PAGER names"},
	{".timer", "[on|off]", "show how long commands take"},
	{".durability", "[sync|process]", "what writes survive from now on: a power cut, or a kill"},
	{".keys", "", "show what the keys are made of"},
	{".clear", "", "clear the screen"},
	{".exit", "", "leave (also .quit, exit, Ctrl-D)"},
}

// aliases are names that other shells have for dot commands.
var aliases = map[string]string{
	".format": ".mode", ".quit": ".exit", ".indices": ".indexes", ".timing": ".timer",
	".header": ".headers", `\q`: ".exit", `\?`: ".help", `\dt`: ".tables", `\di`: ".indexes",
	`\timing`: ".timer",
}

// short returns the words of the command that a dot command is short for; nil for others.
func short(name string, args []string) []string {
	switch {
	case name == ".tables" && len(args) == 0:
		return []string{"table", "list"}
	case name == ".schema" && len(args) == 0:
		return []string{"table", "list", "-o", "sql"}
	case name == ".schema" && len(args) == 1:
		return []string{"table", "describe", "-o", "sql", args[0]}
	case name == `\d` && len(args) == 1:
		return []string{"table", "describe", args[0]}
	case name == `\d` && len(args) == 0:
		return []string{"table", "list"}
	case name == ".indexes" && len(args) <= 1:
		return append([]string{"index", "list"}, args...)
	case name == ".import" && len(args) == 1:
		return []string{"import", args[0]}
	case name == ".import" && len(args) == 2:
		return []string{"import", args[0], "--table", args[1]}
	case name == ".dump":
		return append([]string{"dump"}, args...)
	}
	return nil
}

// dot runs a command that begins with a dot.
func (s *session) dot(name string, args []string) error {
	if _, ok := preferenceList[name]; ok {
		return s.prefer(name, args)
	}
	arg := strings.Join(args, " ")
	switch name {
	case ".exit":
		if len(args) > 0 {
			return cli.Usage("%s and .quit take no argument", name)
		}
		s.left = true
	case ".help":
		return s.help(args)
	case `\x`:
		return s.toggleVertical()
	case ".output", ".once":
		return s.setOutput(arg, name == ".once")
	case ".read":
		return s.read(arg)
	case ".import":
		if len(args) == 0 {
			return cli.Usage("name a file of records").WithHint("usage: .import FILE [TABLE]")
		}
		return unknownDot(name)
	case ".keys":
		return s.showKeys()
	case ".clear":
		if s.app.OutTTY {
			fmt.Fprint(s.app.Out, "\x1b[H\x1b[2J")
		}
	default:
		return unknownDot(name)
	}
	return nil
}

func unknownDot(name string) error {
	names := slices.Collect(maps.Keys(aliases))
	for _, c := range dotCommands {
		if c.name == name {
			return cli.Usage("%s: too many arguments", name).
				WithHint("usage: %s %s", c.name, c.args)
		}
		names = append(names, c.name)
	}
	e := cli.Usage("unknown command %q", name).WithHint(".help lists the commands")
	if best := cli.Closest(name, names); best != "" {
		e.WithHint("did you mean %s?", best)
	}
	return e
}

// maxReadDepth stops files that read each other.
const maxReadDepth = 8

func (s *session) read(name string) error {
	if name == "" {
		return cli.Usage("name a file of commands")
	}
	if s.depth == maxReadDepth {
		return cli.Usage(".read: files read each other more than %d deep", maxReadDepth)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	s.depth++
	defer func() { s.depth-- }()
	s.script(f, name)
	return nil
}

func (s *session) showKeys() error {
	text := "plain: one partition key, one optional sort key, both any bytes\n"
	if flags := s.db.Schema.Flags(); flags != "" {
		text = "made by import with " + flags + "\n"
	}
	_, err := fmt.Fprint(s.app.Out, text)
	return err
}

// help lists the commands, or shows how one is used.
func (s *session) help(topic []string) error {
	if len(topic) > 0 {
		return s.helpOn(topic[0])
	}
	var b strings.Builder
	for _, group := range groups(s.command()) {
		fmt.Fprintf(&b, "%s\n", group.title)
		for _, cmd := range group.commands {
			fmt.Fprintf(&b, "  %-12s %s\n", cmd.Name(), cmd.Short)
		}
	}
	fmt.Fprintf(&b, "Shell\n  %-12s %s\n", "more", "Continue the list that --limit has cut")
	for _, c := range dotCommands {
		fmt.Fprintf(&b, "  %-12s %s\n", c.name, strings.ToUpper(c.help[:1])+c.help[1:])
	}
	b.WriteString(`
.help COMMAND shows flags and examples. Words with spaces are in "quotes".
`)
	_, err := fmt.Fprint(s.app.Out, b.String())
	return err
}

func (s *session) helpOn(topic string) error {
	if name, ok := aliases[topic]; ok {
		topic = name
	}
	for _, c := range dotCommands {
		if c.name == topic || c.name == "."+topic && c.name != ".import" && c.name != ".dump" {
			_, err := fmt.Fprintf(s.app.Out, "%s\n  %s\n", strings.TrimSpace(c.name+" "+c.args),
				c.help)
			return err
		}
	}
	if topic == "more" {
		_, err := fmt.Fprintln(s.app.Out, "more\n  continue the query or scan that --limit has cut")
		return err
	}
	cmd := s.command()
	root := Root(cmd)
	for _, c := range root.Commands() {
		if c.Name() == topic {
			c.InitDefaultHelpFlag()
			return c.Help()
		}
	}
	return cmd.Unknown(root, topic)
}

var exampleDB = regexp.MustCompile(`kstone-cli (\w+(?: \w+)*?) \S+\.db`)

// inShell rewrites the help of a command and of those below it for the shell, where no database is
// named.
func inShell(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		inShell(sub)
	}
	var kept []string
	for line := range strings.SplitSeq(cmd.Example, "\n") {
		if strings.ContainsAny(line, "|>") {
			continue // a pipeline of the system's shell
		}
		line = exampleDB.ReplaceAllString(line, "$1")
		kept = append(kept, strings.ReplaceAll(line, "kstone-cli ", ""))
	}
	if len(kept) == 0 {
		kept = append(kept, "  "+strings.TrimSpace(cmd.Use))
	}
	cmd.Example = strings.Join(kept, "\n")
}
