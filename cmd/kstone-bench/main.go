// Command kstone-bench runs the same work on kstone and on other embedded databases,
// one process each, in turns, verifies what they return, and reports the medians.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/keys"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/runner"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

func main() {
	if plan := os.Getenv(runner.WorkerEnv); plan != "" {
		exit(runner.Work(plan, os.Stdout))
	}
	exit(run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "kstone-bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run does what the first argument says: "report" makes a page of raw output, "targets"
// compares it with what is wanted, "keys" measures key codecs, "dedup" sets of keys,
// "tables" tables with indexes, "small" small databases, anything else databases.
func run() error {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "report":
			return makeReport(os.Args[2:], os.Stdout)
		case "targets":
			return checkTargets(os.Args[2:], os.Stdout)
		case "keys":
			return measureKeys(os.Args[2:], os.Stdout)
		case "dedup":
			return measureDedup(os.Args[2:], os.Stdout)
		case "tables":
			return measureTables(os.Args[2:], os.Stdout)
		case "small":
			return measureSmall(os.Args[2:], os.Stdout)
		}
	}
	s := runner.Settings{Progress: os.Stderr}
	var engines, chains, skip, out string
	flag.StringVar(&engines, "engines", strings.Join(store.Names(), ","), "engines, by comma")
	flag.StringVar(&chains, "chains", strings.Join(chainNames(), ","), "chains of workloads")
	flag.StringVar(&skip, "skip", "", "what to leave out: engine/chain, by comma")
	flag.IntVar(&s.Repeats, "repeat", 3, "rounds; reports show medians")
	flag.Uint64Var(&s.Records, "n", 2_000_000, "records")
	flag.IntVar(&s.ValueBytes, "value", 100, "bytes of a value")
	flag.Float64Var(&s.Seconds, "seconds", 4, "duration of a workload that has no fixed length")
	flag.Int64Var(&s.WriteBuffer, "write-buffer", 64<<20, "bytes of write buffer")
	flag.Int64Var(&s.Cache, "cache", 256<<20, "bytes of block cache")
	flag.StringVar(&s.Dir, "dir", os.TempDir(), "where databases are made and deleted")
	flag.StringVar(&s.Profiles, "profiles", "", "directory for processor profiles")
	flag.DurationVar(&s.TimeLimit, "limit", 30*time.Minute, "longest time of a process")
	flag.StringVar(&out, "out", "kstone-bench.jsonl", "file that gets the raw results")
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	s.Engines, s.Chains = strings.Split(engines, ","), strings.Split(chains, ",")
	if skip != "" {
		s.Skip = strings.Split(skip, ",")
	}
	if err := s.Check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return measureTo(ctx, s, out)
}

func usage() {
	w := flag.CommandLine.Output()
	fmt.Fprint(w, `kstone-bench [flags]                 measure
kstone-bench report [flags] FILE...  tables and charts of raw results
kstone-bench targets FILE...         raw results compared with the targets
kstone-bench keys [flags]            key codecs, and composite keys on kstone
kstone-bench dedup [flags]           which keys are new: zone maps and filters
kstone-bench tables [flags]          tables, indexes and queries
kstone-bench small [flags]           what small databases cost

`)
	flag.PrintDefaults()
	fmt.Fprint(w, "\nchains:\n")
	for _, c := range workload.Chains() {
		fmt.Fprintf(w, "  %-8s%s\n", c.Name, c.About)
	}
}

// measureTo runs the benchmark and writes every result through to a file.
func measureTo(ctx context.Context, s runner.Settings, out string) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	meta := report.NewMeta(s.Engines)
	meta.Repeats, meta.Records, meta.ValueBytes = s.Repeats, s.Records, s.ValueBytes
	meta.Seconds, meta.WriteBuffer, meta.Cache = s.Seconds, s.WriteBuffer, s.Cache
	raw, err := report.NewRaw(f, meta)
	if err != nil {
		return err
	}
	return runner.Run(ctx, s, raw.Add)
}

// makeReport writes charts and a page, or the generated part of one.
func makeReport(args []string, w io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	charts := flags.String("charts", "", "directory that gets the charts as SVG")
	page := flags.String("page", "", "Markdown file whose generated part is replaced "+
		"(default: standard output)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	runs, err := readRuns(flags.Args())
	if err != nil {
		return err
	}
	if *charts != "" {
		if err := report.Charts(*charts, report.NewTable(runs)); err != nil {
			return err
		}
	}
	links, err := report.Links(*page, *charts)
	if err != nil {
		return err
	}
	if *page == "" {
		return report.Markdown(w, runs, links)
	}
	var text bytes.Buffer
	if err := report.Markdown(&text, runs, links); err != nil {
		return err
	}
	return report.UpdatePage(*page, text.Bytes())
}

func checkTargets(files []string, w io.Writer) error {
	runs, err := readRuns(files)
	if err != nil {
		return err
	}
	return report.WriteChecks(w, report.NewTable(runs))
}

// measureKeys compares key codecs and prints tables of what they cost.
func measureKeys(args []string, w io.Writer) error {
	var s keys.Settings
	flags := flag.NewFlagSet("keys", flag.ContinueOnError)
	flags.IntVar(&s.Rounds, "rounds", 2001, "rounds of the codecs, a millisecond each")
	flags.IntVar(&s.DatabaseRounds, "db-rounds", 9, "rounds of the database")
	flags.IntVar(&s.Records, "n", 10_000, "records in the database")
	out := flags.String("json", "", "file that gets the results as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	result, err := keys.Run(ctx, s)
	if err != nil {
		return err
	}
	if *out != "" {
		f, err := os.Create(*out)
		if err != nil {
			return err
		}
		if err := errors.Join(result.WriteJSON(f), f.Close()); err != nil {
			return err
		}
	}
	return result.WriteText(w)
}

// readRuns reads raw output, one file or several from the same machine.
func readRuns(files []string) ([]report.Run, error) {
	var all []report.Run
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		runs, err := report.Read(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, runs...)
	}
	return all, report.SameMachine(all)
}

func chainNames() []string {
	var names []string
	for _, c := range workload.Chains() {
		names = append(names, c.Name)
	}
	return names
}
