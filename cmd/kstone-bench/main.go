// Command kstone-bench runs the same work on kstone and on other embedded databases,
// one process each, in turns, verifies what they return, and reports the medians.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

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

func run() error {
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
	flag.StringVar(&s.Dir, "dir", os.TempDir(), "where the databases are made and deleted")
	flag.StringVar(&s.Profiles, "profiles", "", "directory for processor profiles of every workload")
	flag.DurationVar(&s.TimeLimit, "limit", 30*time.Minute, "longest time of one chain of one engine")
	flag.StringVar(&out, "out", "kstone-bench.jsonl", "file that gets the results, a line each")
	flag.Parse()
	s.Engines, s.Chains = strings.Split(engines, ","), strings.Split(chains, ",")
	for _, e := range s.Engines {
		if _, err := store.Find(e); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	err = runner.Run(ctx, s, func(r workload.Result) error {
		if err := enc.Encode(r); err != nil {
			return err
		}
		return w.Flush()
	})
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func chainNames() []string {
	var names []string
	for _, c := range workload.Chains() {
		names = append(names, c.Name)
	}
	return names
}
