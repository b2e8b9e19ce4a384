package command

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
)

// preferences are the values that dot commands have set for the commands that follow, as far as
// these have such a thing, by the name of the dot command.
type preferences map[string]string

// preference is what one may be.
type preference struct {
	usual  string   // until it is set
	values []string // "" stands for a number
}

var (
	onOff          = []string{"on", "off"}
	preferenceList = map[string]preference{
		".mode": {"auto", append([]string{"auto", string(present.Insert)},
			present.FormatNames(present.Formats)...)},
		".headers":    {"on", onOff},
		".timer":      {"off", onOff},
		".pager":      {"off", onOff},
		".durability": {"sync", []string{"sync", "process"}},
		".maxrows":    {strconv.Itoa(cli.BriefRows), []string{"all", ""}},
	}
)

// apply sets what a command knows of the preferences.
func (p preferences) apply(cmd *cli.App) {
	cmd.Format = strings.TrimPrefix(p[".mode"], "auto")
	cmd.Timing, cmd.Plain = p[".timer"] == "on", p[".headers"] == "off"
	cmd.Durability = p[".durability"]
	if cmd.MaxRows, _ = strconv.Atoi(p[".maxrows"]); p[".maxrows"] == "all" {
		cmd.MaxRows = -1
	}
}

// prefer shows a preference, or sets it.
func (s *session) prefer(name string, args []string) error {
	p := preferenceList[name]
	if len(args) == 0 {
		_, err := fmt.Fprintf(s.app.Out, "%s %s\n", name, cmp.Or(s.preferences[name], p.usual))
		return err
	}
	value := strings.Join(args, " ")
	n, err := strconv.Atoi(value)
	number := err == nil && n > 0 && slices.Contains(p.values, "")
	if value == "" || !number && !slices.Contains(p.values, value) {
		choices := strings.Join(p.values, ", ")
		return cli.Usage("%s is %s, not %q", name,
			strings.TrimSuffix(strings.ReplaceAll(choices+"$", ", $", " or a number"), "$"), value)
	}
	s.preferences[name] = value
	return nil
}

// toggleVertical changes between vertical and what suits the result.
func (s *session) toggleVertical() error {
	mode := string(present.Vertical)
	if s.preferences[".mode"] == mode {
		mode = "auto"
	}
	s.preferences[".mode"] = mode
	return s.prefer(".mode", nil)
}

// startUpFile returns the file with the preferences of a user, "" for none: KSTONE_SHELLRC names
// another one, or nothing.
func startUpFile() string {
	if name, set := os.LookupEnv("KSTONE_SHELLRC"); set {
		return name
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "kstone", "shellrc")
}

// startUp sets what the user's file says. Why only preferences: what is typed at a prompt stays
// the same command whatever a file says.
func (s *session) startUp() {
	name := startUpFile()
	f, err := os.Open(name)
	if err != nil {
		if name != "" && !errors.Is(err, fs.ErrNotExist) {
			s.report(err)
		}
		return
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		words, err := shell.Split(in.Text())
		if err == nil && len(words) == 0 {
			continue
		}
		if err == nil {
			err = s.startUpLine(textsOf(words))
		}
		if err != nil {
			s.report(fmt.Errorf("%s:%d: %w", name, n, err))
		}
	}
	s.failed = nil
}

func (s *session) startUpLine(args []string) error {
	name := args[0]
	if long, ok := aliases[name]; ok {
		name = long
	}
	if _, ok := preferenceList[name]; !ok || len(args) < 2 {
		return cli.Usage("%q sets nothing", strings.Join(args, " ")).
			WithHint("this file has lines such as: .mode box")
	}
	return s.prefer(name, args[1:])
}
