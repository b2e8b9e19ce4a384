// Command kstone-bench measures kstone beside other databases and libraries, which take turns,
// verifies what they return, and reports medians, and ratios within a round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/runner"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

func main() {
	err := error(nil)
	if plan := os.Getenv(runner.WorkerEnv); plan != "" {
		err = runner.Work(plan, os.Stdout)
	} else {
		err = run(os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "kstone-bench:", err)
		os.Exit(1)
	}
}

// run does what the first argument says; without a command it measures chains.
func run(args []string, stdout, stderr io.Writer) error {
	name := "chains"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	switch name {
	case "report", "targets":
		return reportFiles(name, args, stdout)
	}
	for i := range commands {
		if commands[i].name == name && commands[i].setup != nil {
			return commands[i].run(args, stdout, stderr)
		}
	}
	return fmt.Errorf("no command %q", name)
}

// output says where the report of raw results goes.
type output struct{ page, charts string }

func (o *output) flags(flags *flag.FlagSet) {
	flags.StringVar(&o.page, "page", "", "Markdown file whose generated part is replaced "+
		"(default: standard output)")
	flags.StringVar(&o.charts, "charts", "", "directory that gets the charts as SVG")
}

// reportFiles makes a page of raw results, or compares them with the targets.
func reportFiles(name string, files []string, stdout io.Writer) error {
	flags, o := flag.NewFlagSet(name, flag.ContinueOnError), output{}
	if name == "report" {
		o.flags(flags)
	}
	if err := flags.Parse(files); err != nil {
		return err
	}
	runs, err := result.ReadFiles(flags.Args()...)
	if err != nil {
		return err
	}
	for i := range commands {
		c := &commands[i]
		switch {
		case c.name != runs[0].Meta.Kind:
		case name == "report":
			return report.Write(stdout, c.kind, runs, o.page, o.charts)
		case c.kind.Checks == nil:
			return fmt.Errorf("there are no targets for %s", c.name)
		default:
			return report.WriteChecks(stdout, c.kind, runs)
		}
	}
	return fmt.Errorf("raw results of an unknown kind %q", runs[0].Meta.Kind)
}

// run measures, writes every record through to a file, and reports.
func (c *command) run(args []string, stdout, stderr io.Writer) (err error) {
	flags, o := flag.NewFlagSet(c.name, flag.ContinueOnError), output{}
	flags.SetOutput(stderr)
	flags.Usage = func() { c.usage(flags) }
	out := flags.String("out", "kstone-bench-"+c.name+".jsonl", "file that gets the raw results")
	quick := flags.Bool("quick", false, "a look: "+c.quick+", unless said otherwise")
	o.flags(flags)
	m := c.setup(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quick { // the flags that are given are set again
		m.Quick()
		_ = flags.Parse(args)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if err := m.Check(); err != nil {
		return err
	}
	failed, err := measureTo(*out, m, stderr)
	if err != nil {
		return err
	}
	if err := reportFiles("report", []string{"-page", o.page, "-charts", o.charts, *out},
		stdout); err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%d failures, which the report ends with", failed)
}

// measureTo writes raw results to a file, and counts the failures among them.
func measureTo(out string, m measurement, stderr io.Writer) (failed int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return 0, err
	}
	f, err := os.Create(out)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	raw, err := result.NewWriter(f, m.Meta())
	if err != nil {
		return 0, err
	}
	err = m.Run(ctx, func(r result.Record) error {
		if fmt.Fprintln(stderr, r); r.Error != "" {
			failed++
		}
		return raw.Add(r)
	})
	if err == nil {
		err = raw.End()
	}
	return failed, err
}

func (c *command) usage(flags *flag.FlagSet) {
	w := flags.Output()
	fmt.Fprint(w, `kstone-bench COMMAND [flags]            measure, and report
kstone-bench report [flags] FILE...     report raw results
kstone-bench targets FILE...            compare raw results with the targets

commands:
`)
	for _, c := range commands {
		fmt.Fprintf(w, "  %-8s%s\n", c.name, c.about)
	}
	fmt.Fprintf(w, "\nflags of %s:\n", c.name)
	flags.PrintDefaults()
	if c.name != "chains" {
		return
	}
	fmt.Fprint(w, "\nchains:\n")
	for _, c := range workload.Chains() {
		fmt.Fprintf(w, "  %-8s%s\n", c.Name, c.About)
	}
}
