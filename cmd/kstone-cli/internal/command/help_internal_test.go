package command

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Every command explains itself, with examples that name it; in a shell these do not
// name a database.
func TestHelpOfEveryCommand(t *testing.T) {
	for _, open := range []*cli.Database{nil, {}} {
		a := &cli.App{Open: open}
		for _, cmd := range allCommands(Root(a)) {
			name := cmd.Name()
			if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, name) {
				t.Errorf("%s: no help or no example", name)
			}
			if open != nil && strings.Contains(cmd.Example, cli.Program) {
				t.Errorf("%s: examples of the shell begin with the program:\n%s", name, cmd.Example)
			}
			for line := range strings.SplitSeq(cmd.Long, "\n") {
				if strings.HasPrefix(line, " ") && len([]rune(line)) > 80 { // others are wrapped
					t.Errorf("%s: %q is too long for a terminal", name, line)
				}
			}
		}
	}
}

// TestNoFlagIsIgnored: a command has the flags that it heeds. Only --timing is for all.
func TestNoFlagIsIgnored(t *testing.T) {
	a := &cli.App{}
	root := Root(a)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "timing" {
			t.Errorf("--%s is a flag of all commands", f.Name)
		}
	})
	reads, writes := "", ""
	for _, cmd := range allCommands(root) {
		if cmd.Flags().Lookup("input") != nil {
			reads += cli.CommandOf(cmd) + ", "
		}
		if cmd.Flags().Lookup("durability") != nil {
			writes += cli.CommandOf(cmd) + ", "
		}
	}
	if want := "changes, count, delete, get, keys decode, keys encode, keys explain, put, query, " +
		"scan, segment ask, segment build, segment info, stripe, "; reads != want {
		t.Errorf("-i is a flag of %s", reads)
	}
	if want := "delete, index create, index drop, put, shell, sql, table create, " +
		"table drop, "; writes != want {
		t.Errorf("--durability is a flag of %s", writes)
	}
}

// allCommands returns the commands below cmd, without those of cobra.
func allCommands(cmd *cobra.Command) (list []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if name := sub.Name(); name != "help" && name != "completion" {
			list = append(append(list, sub), allCommands(sub)...)
		}
	}
	return list
}

// No text given to --after makes the program panic, and cursors come back as they were.
func FuzzCursorText(f *testing.F) {
	q := engine.Query{PK: []byte("p")}
	f.Add(q.CursorAfter(engine.Item{Key: engine.Key{PK: []byte("p"), SK: []byte("s")}}).String())
	f.Add("")
	f.Add("AQPGrdNJVAAA")
	f.Fuzz(func(t *testing.T, text string) {
		defer testutil.Watch(text)()
		c, err := engine.ParseCursor(text)
		if err != nil {
			if cli.ExitCode(err) != cli.ExitUsage {
				t.Fatalf("exit code %d of %v", cli.ExitCode(err), err)
			}
			return
		}
		if c.String() != text {
			t.Fatalf("%q came back as %q", text, c)
		}
	})
}
