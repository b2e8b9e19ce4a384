// Command kstone-bench runs the same work on kstone and on other embedded databases,
// one process each, in turns, verifies what they return, and reports the medians.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

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

// run does what the first argument says: "report" makes a page of raw output, anything
// else is a measurement.
func run() error {
	if len(os.Args) > 1 && os.Args[1] == "report" {
		return makeReport(os.Args[2:])
	}
	s := runner.Settings{Progress: os.Stderr}
	var engines, chains, out string
	flag.StringVar(&engines, "engines", strings.Join(store.Names(), ","), "engines, by comma")
	flag.StringVar(&chains, "chains", strings.Join(chainNames(), ","), "chains of workloads")
	flag.IntVar(&s.Repeats, "repeat", 3, "rounds; reports show medians")
	flag.Uint64Var(&s.Records, "n", 2_000_000, "records")
	flag.IntVar(&s.ValueBytes, "value", 100, "bytes of a value")
	flag.Float64Var(&s.Seconds, "seconds", 4, "duration of a workload that has no fixed length")
	flag.Int64Var(&s.WriteBuffer, "write-buffer", 64<<20, "bytes of write buffer")
	flag.Int64Var(&s.Cache, "cache", 256<<20, "bytes of block cache")
	flag.StringVar(&s.Dir, "dir", os.TempDir(), "where databases are made and deleted")
	flag.StringVar(&s.Profiles, "profiles", "", "directory for processor profiles")
	flag.DurationVar(&s.TimeLimit, "limit", 30*time.Minute, "longest time of a chain")
	flag.StringVar(&out, "out", "kstone-bench.jsonl", "file that gets the raw results")
	flag.Parse()
	s.Engines, s.Chains = strings.Split(engines, ","), strings.Split(chains, ",")
	for _, e := range s.Engines {
		if _, err := store.Find(e); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return measureTo(ctx, s, out)
}

// measureTo runs the benchmark and writes every result through to a file.
func measureTo(ctx context.Context, s runner.Settings, out string) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	meta := report.NewMeta(s.Engines)
	meta.Repeats, meta.Records = s.Repeats, s.Records
	raw, err := report.NewRaw(f, meta)
	if err != nil {
		return err
	}
	return runner.Run(ctx, s, raw.Add)
}

// makeReport reads raw output, one file or several, and writes a page to standard
// output.
func makeReport(files []string) error {
	var all []io.Reader
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		all = append(all, f)
	}
	meta, results, err := report.Read(io.MultiReader(all...))
	if err != nil {
		return err
	}
	return report.Markdown(os.Stdout, meta, report.NewTable(results))
}

func chainNames() []string {
	var names []string
	for _, c := range workload.Chains() {
		names = append(names, c.Name)
	}
	return names
}
