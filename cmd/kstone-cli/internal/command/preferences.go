package command

import (
	"bufio"
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

// preferences are what dot commands set for the commands that follow, as far as these have it.
type preferences struct {
	durability string
	format     string // of items and rows; "" chooses by where they go
	timing     bool
	plain      bool // tables have no headings
	pager      bool
	maxRows    int // 0 for the usual number, negative for all
}

// preference is one of them, by the dot command that shows and sets it.
type preference struct {
	name   string
	values []string // "" stands for a number
	get    func(*preferences) string
	set    func(*preferences, string)
}

var onOff = []string{"on", "off"}

// preferenceList lists all. Why a function: formats are known to the package present.
var preferenceList = []preference{
	{".mode", append([]string{"auto", string(present.Insert)},
		present.FormatNames(present.Formats)...),
		func(p *preferences) string { return orWord(p.format, "auto") },
		func(p *preferences, v string) { p.format = strings.TrimPrefix(v, "auto") }},
	{".headers", onOff, func(p *preferences) string { return onWord(!p.plain) },
		func(p *preferences, v string) { p.plain = v == "off" }},
	{".timer", onOff, func(p *preferences) string { return onWord(p.timing) },
		func(p *preferences, v string) { p.timing = v == "on" }},
	{".pager", onOff, func(p *preferences) string { return onWord(p.pager) },
		func(p *preferences, v string) { p.pager = v == "on" }},
	{".durability", []string{"sync", "process"},
		func(p *preferences) string { return orWord(p.durability, "sync") },
		func(p *preferences, v string) { p.durability = v }},
	{".maxrows", []string{"all", ""}, func(p *preferences) string {
		switch {
		case p.maxRows < 0:
			return "all"
		case p.maxRows == 0:
			return strconv.Itoa(cli.BriefRows)
		}
		return strconv.Itoa(p.maxRows)
	}, func(p *preferences, v string) {
		if p.maxRows = -1; v != "all" {
			p.maxRows, _ = strconv.Atoi(v)
		}
	}},
}

func orWord(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func onWord(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// preferenceOf returns the preference of a dot command, or nil.
func preferenceOf(name string) *preference {
	for i := range preferenceList {
		if preferenceList[i].name == name {
			return &preferenceList[i]
		}
	}
	return nil
}

// prefer shows a preference, or sets it.
func (s *session) prefer(p *preference, args []string) error {
	if len(args) == 0 {
		_, err := fmt.Fprintf(s.app.Out, "%s %s\n", p.name, p.get(&s.preferences))
		return err
	}
	value := strings.Join(args, " ")
	n, err := strconv.Atoi(value)
	number := err == nil && n > 0 && slices.Contains(p.values, "")
	if value == "" || !number && !slices.Contains(p.values, value) {
		choices := strings.Join(p.values, ", ")
		return cli.Usage("%s is %s, not %q", p.name,
			strings.TrimSuffix(strings.ReplaceAll(choices+"$", ", $", " or a number"), "$"), value)
	}
	p.set(&s.preferences, value)
	return nil
}

// toggleVertical changes between vertical and what suits the result.
func (s *session) toggleVertical() error {
	if s.format != string(present.Vertical) {
		s.format = string(present.Vertical)
	} else {
		s.format = ""
	}
	_, err := fmt.Fprintf(s.app.Out, ".mode %s\n", orWord(s.format, "auto"))
	return err
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
		var args []string
		for _, w := range words {
			args = append(args, w.Text)
		}
		if err == nil {
			err = s.startUpLine(args)
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
	p := preferenceOf(name)
	if p == nil || len(args) < 2 {
		return cli.Usage("%q sets nothing", strings.Join(args, " ")).
			WithHint("this file has lines such as: .mode box")
	}
	return s.prefer(p, args[1:])
}
