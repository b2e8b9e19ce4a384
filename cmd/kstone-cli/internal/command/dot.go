package command

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
)

// dotCommands steer the shell itself.
var dotCommands = []struct{ name, args, help string }{
	{".help", "[COMMAND]", "list the commands, or show how one is used"},
	{".format", "auto|table|jsonl|json|csv|raw|hex", "how items are shown from now on"},
	{".timer", "on|off", "show how long commands take"},
	{".durability", "sync|process", "what writes survive from now on: a power cut, or a kill"},
	{".output", "FILE|-", "write results to a file; - is the terminal again"},
	{".once", "FILE", "write the result of the next command to a file"},
	{".read", "FILE", "run the commands in a file"},
	{".dump", "[TABLE…]", "write tables as statements (the command dump)"},
	{".keys", "", "show what the keys are made of"},
	{".clear", "", "clear the screen"},
	{".exit", "", "leave (also .quit, exit, Ctrl-D)"},
}

// dot runs a command that begins with a dot.
func (s *session) dot(name string, args []string) error {
	arg := strings.Join(args, " ")
	switch name {
	case ".exit", ".quit":
		s.left = true
	case ".help":
		return s.help(args)
	case ".format":
		return s.setFormat(arg)
	case ".timer":
		if arg != "on" && arg != "off" {
			return cli.Usage(".timer is on or off, not %q", arg)
		}
		s.timing = arg == "on"
	case ".durability":
		if _, ok := cli.Levels[arg]; !ok || arg == "" {
			return cli.Usage(".durability is sync or process, not %q", arg)
		}
		s.durability = arg
	case ".output", ".once":
		return s.setOutput(arg, name == ".once")
	case ".read":
		return s.read(arg)
	case ".keys":
		return s.showKeys()
	case ".clear":
		if s.app.OutTTY {
			fmt.Fprint(s.app.Out, "\x1b[H\x1b[2J")
		}
	default:
		var names []string
		for _, c := range dotCommands {
			names = append(names, c.name)
		}
		e := cli.Usage("unknown command %q", name).WithHint(".help lists the commands")
		if best := cli.Closest(name, names); best != "" {
			e.WithHint("did you mean %s?", best)
		}
		return e
	}
	return nil
}

func (s *session) setFormat(name string) error {
	if name == "auto" {
		s.format = ""
		return nil
	}
	f, err := present.ParseFormat(name)
	if err != nil {
		return cli.Usage(".format: %v, or auto", err)
	}
	s.format = string(f)
	return nil
}

func (s *session) setOutput(name string, once bool) error {
	if name == "" {
		return cli.Usage("name a file").WithHint(".output - writes to the terminal again")
	}
	s.closeOutput()
	if name == "-" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	s.output, s.once = f, once
	return nil
}

// endOnce goes back to the terminal after the command that .once was for.
func (s *session) endOnce() {
	if s.once {
		s.closeOutput()
	}
}

func (s *session) closeOutput() {
	if s.output != nil {
		s.report(s.output.Close())
	}
	s.output, s.once = nil, false
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
.help COMMAND shows flags and examples. Quote words with spaces: "Città di Castello".
`)
	_, err := fmt.Fprint(s.app.Out, b.String())
	return err
}

func (s *session) helpOn(topic string) error {
	for _, c := range dotCommands {
		if c.name == topic || c.name == "."+topic {
			_, err := fmt.Fprintf(s.app.Out, "%s %s\n  %s\n", c.name, c.args, c.help)
			return err
		}
	}
	if topic == "more" {
		_, err := fmt.Fprintln(s.app.Out, "more\n  continue the query or scan that --limit has cut")
		return err
	}
	cmd := s.command()
	root := root(cmd)
	for _, c := range root.Commands() {
		if c.Name() == topic {
			c.InitDefaultHelpFlag()
			return c.Help()
		}
	}
	return cmd.Unknown(root, topic)
}

var exampleDB = regexp.MustCompile(`kstone-cli (\w+) \S+\.db`)

// inShell rewrites a command's help for the shell, where no database is named.
func inShell(cmd *cobra.Command) {
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
