package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/runner"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// accident is the environment variable that makes workers of tests go wrong.
const accident = "KSTONE_BENCH_ACCIDENT"

// TestMain is a worker when the program of the test is started as one.
func TestMain(m *testing.M) {
	plan := os.Getenv(runner.WorkerEnv)
	switch {
	case plan == "":
		os.Exit(m.Run())
	case os.Getenv(accident) == "crash":
		fmt.Fprintln(os.Stderr, "panic: everything is lost")
		os.Exit(3)
	case os.Getenv(accident) == "hang":
		select {}
	case os.Getenv(accident) == "print":
		fmt.Print("an engine prints")
	}
	if err := runner.Work(plan, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func settings(t *testing.T, engines, chains string) runner.Settings {
	return runner.Settings{
		Kind: "chains", Engines: strings.Split(engines, ","), Chains: strings.Split(chains, ","),
		Repeats: 1, TimeLimit: time.Minute, Progress: io.Discard,
		Size: workload.Size{Records: 2000, ValueBytes: 100, Seconds: 0.02, Dir: t.TempDir(),
			WriteBufferBytes: 4 << 20, CacheBytes: 8 << 20},
	}
}

// run returns the results, after checking that nothing is left in the directory.
func run(t *testing.T, s runner.Settings) []result.Record {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	var all []result.Record
	err := s.Run(t.Context(), func(r result.Record) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
		t.Errorf("%d databases are left behind", len(left))
	}
	return all
}

func TestTinyRun(t *testing.T) {
	s := settings(t, "kstone,bbolt,harness", "seq,batch,reopen")
	s.Repeats, s.Skip = 2, []string{"bbolt/batch", "harness/reopen"}
	var got []string
	for _, r := range run(t, s) {
		if r.Error != "" || r.Figures[result.Ops] <= 0 || r.Figures[result.PerSecond] <= 0 ||
			r.Figures[result.Max] < r.Figures[result.P50] {
			t.Errorf("result %+v", r)
		}
		if r.Figures["lost_records"] != 0 {
			t.Errorf("%s lost %v records in a kill", r.Engine, r.Figures)
		}
		fill := strings.HasPrefix(r.Case, "fill")
		if fill != (r.Figures[result.RestSeconds] > 0.3) ||
			r.Figures[result.RestBytes] > r.Figures[result.WrittenBytes] {
			t.Errorf("what is left to be done: %+v", r)
		}
		got = append(got, fmt.Sprintf("%d %s %s", r.Round, r.Case, r.Engine))
	}
	opened := []string{"reopen-killed", "reopen-clean", "reopen-fulllog"}
	want := []string{
		"0 fillseq kstone", "0 readseq kstone", "0 fillseq bbolt", "0 readseq bbolt",
		"0 fillseq harness", "0 fillbatch kstone", "0 fillbatch harness",
	}
	for _, e := range []string{"kstone", "bbolt"} {
		for _, w := range opened {
			want = append(want, "0 "+w+" "+e)
		}
	}
	want = append(want, "1 fillseq bbolt", "1 readseq bbolt", "1 fillseq harness",
		"1 fillseq kstone", "1 readseq kstone", "1 fillbatch harness", "1 fillbatch kstone")
	for _, e := range []string{"bbolt", "kstone"} {
		for _, w := range opened {
			want = append(want, "1 "+w+" "+e)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("results are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEveryChain runs all workloads once, so that none of them fails its own checks.
func TestEveryChain(t *testing.T) {
	var chains []string
	for _, c := range workload.Chains() {
		chains = append(chains, c.Name)
	}
	seen := map[string]bool{}
	for _, r := range run(t, settings(t, "kstone,goleveldb", strings.Join(chains, ","))) {
		if r.Error != "" {
			t.Errorf("%s, chain %s: %s", r.Engine, r.Table, r.Error)
		}
		seen[fmt.Sprintf("%s %s ×%d", r.Table, r.Case, r.Goroutines)] = true
	}
	for _, want := range []string{
		"point readrandom ×8", "point readzipf ×8", "point readmissing ×1", "point multiget ×1",
		"point scanunordered ×1", "point scanunordered ×2", "point readwhilewriting ×2",
		"point overwrite ×1", "point putifabsent ×1", "point deleterandom ×1",
		"query query ×1", "query querylatest ×2", "sync fillsync ×64", "ycsb ycsb-e ×2",
		"cold readrandom ×1", "cold query ×1", "cold16 query ×1", "growth load ×1",
		"growth readmissing ×1", "growth query ×1", "growth reopen-clean ×1",
		"large readrandom ×1", "stall fillrandom ×1",
	} {
		if !seen[want] {
			t.Errorf("no %s", want)
		}
	}
}

func TestWorkerThatCrashesIsReported(t *testing.T) {
	t.Setenv(accident, "crash")
	got := run(t, settings(t, "kstone,bbolt", "seq"))
	if len(got) != 2 {
		t.Fatalf("results %+v, want one failure for each engine", got)
	}
	for i, engine := range []string{"kstone", "bbolt"} {
		r := got[i]
		if r.Engine != engine || r.Table != "seq" || !strings.Contains(r.Error, "exit status 3") ||
			!strings.Contains(r.Error, "everything is lost") {
			t.Errorf("result %+v", r)
		}
	}
}

// TestNoRecordIsLost: not with an engine that prints, and not when it cannot be written.
func TestNoRecordIsLost(t *testing.T) {
	t.Setenv(accident, "print")
	if got := run(t, settings(t, "kstone", "batch")); len(got) != 1 || got[0].Error != "" {
		t.Errorf("results %+v", got)
	}
	plan, err := json.Marshal(workload.Plan{Chain: "batch", Engine: "kstone",
		Size: settings(t, "kstone", "batch").Size})
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	_ = r.Close() // it never fails
	if err := runner.Work(string(plan), w); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
}

func TestWorkerThatHangsIsStoppedAndReported(t *testing.T) {
	t.Setenv(accident, "hang")
	s := settings(t, "kstone", "seq,batch")
	s.TimeLimit = 200 * time.Millisecond
	got := run(t, s)
	if len(got) != 2 {
		t.Fatalf("results %+v, want a failure for each chain", got)
	}
	for _, r := range got {
		if !strings.Contains(r.Error, context.DeadlineExceeded.Error()) {
			t.Errorf("result %+v", r)
		}
	}
}

func TestCancelledRunEnds(t *testing.T) {
	t.Setenv(accident, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	s := settings(t, "kstone", "seq")
	err := s.Run(ctx, func(r result.Record) error {
		t.Errorf("result %+v", r)
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*runner.Settings){
		"unknown engine":   func(s *runner.Settings) { s.Engines[0] = "punchcards" },
		"unknown chain":    func(s *runner.Settings) { s.Chains[0] = "daisy" },
		"skip of nothing":  func(s *runner.Settings) { s.Skip = []string{"kstone/stall"} },
		"no rounds":        func(s *runner.Settings) { s.Repeats = 0 },
		"torn batches":     func(s *runner.Settings) { s.Records = 2050 },
		"too few records":  func(s *runner.Settings) { s.Records = 100 },
		"no time":          func(s *runner.Settings) { s.Seconds = 0 },
		"skip of a half":   func(s *runner.Settings) { s.Skip = []string{"kstone"} },
		"skip of a quoted": func(s *runner.Settings) { s.Skip = []string{"kstone/seq "} },
	} {
		s := settings(t, "kstone", "seq")
		if change(&s); s.Check() == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestQuickKeepsChainsOfItsKind(t *testing.T) {
	s := settings(t, "kstone", "growth,cold,cold16")
	s.Kind = "growth"
	s.Quick()
	if fmt.Sprint(s.Chains) != "[growth]" || s.Meta().Kind != "growth" {
		t.Errorf("chains %v of %s", s.Chains, s.Meta().Kind)
	}
}
