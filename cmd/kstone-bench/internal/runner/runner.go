// Package runner starts the worker processes, one for each engine, chain and phase,
// engines in turn, and collects their results.
package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// WorkerEnv is the environment variable that makes the program a worker; it holds the
// plan.
const WorkerEnv = "KSTONE_BENCH_PLAN"

// Settings of a whole run.
type Settings struct {
	Kind            string // of the page that the results are for
	Engines, Chains []string
	// Skip holds pairs "engine/chain" that are left out.
	Skip    []string
	Repeats int
	workload.Size
	// TimeLimit of one chain of one engine.
	TimeLimit time.Duration
	Progress  io.Writer
}

// Quick takes few records and the chains with the most targets.
func (s *Settings) Quick() {
	s.Records, s.Repeats, s.Seconds = 200_000, 1, 0.5
	s.Chains = slices.DeleteFunc(s.Chains, func(c string) bool {
		return !slices.Contains([]string{"seq", "batch", "point", "query", "sync", "reopen",
			"growth"}, c)
	})
}

// Check returns an error if an engine or chain is unknown, or a number makes no sense.
func (s *Settings) Check() error {
	var all []error
	for _, e := range s.Engines {
		_, err := store.Find(e)
		all = append(all, err)
	}
	for _, c := range s.Chains {
		_, err := workload.FindChain(c)
		all = append(all, err)
	}
	for _, pair := range s.Skip {
		engine, chain, _ := strings.Cut(pair, "/")
		if !slices.Contains(s.Engines, engine) || !slices.Contains(s.Chains, chain) {
			all = append(all, fmt.Errorf("nothing to skip: this run has no engine/chain %q", pair))
		}
	}
	if s.Records%100 != 0 {
		all = append(all, fmt.Errorf("%d records are not whole batches of 100", s.Records))
	}
	if s.Repeats < 1 || s.Records < leastRecords || s.Seconds <= 0 {
		all = append(all, fmt.Errorf("%d rounds of %d records and %g seconds: want at least 1, %d "+
			"and more than 0", s.Repeats, s.Records, s.Seconds, leastRecords))
	}
	return errors.Join(all...)
}

// Meta describes the machine, the engines and what they survive.
func (s *Settings) Meta() result.Meta {
	m := result.NewMeta(s.Kind)
	for _, name := range s.Engines {
		if e, err := store.Find(name); err == nil {
			if m.Describe(name, e.Module, e.Unsynced); e.Version != nil {
				m.Versions[name] = e.Version()
			}
		}
	}
	m.Rounds, m.Records, m.ValueBytes = s.Repeats, s.Records, s.ValueBytes
	m.Seconds, m.WriteBuffer, m.Cache = s.Seconds, s.WriteBufferBytes, s.CacheBytes
	return m
}

// leastRecords: enough for batches, partitions, and every share of the records.
const leastRecords = 1000

// event is a line from a worker: a result, or the word that the worker may be killed.
type event struct {
	Result *result.Record `json:"result,omitempty"`
	Kill   bool           `json:"kill,omitempty"`
}

// turn is one engine's chain in a round.
type turn struct {
	engine string
	chain  workload.Chain
	round  int
}

// Run does every chain on every engine, as often as asked, and emits every record. Engines
// take turns, starting with another one each time. A worker that fails is reported in a
// record with Error, and the rest goes on.
func (s *Settings) Run(ctx context.Context, emit func(result.Record) error) error {
	turns, err := s.turns()
	start := time.Now()
	for i, t := range turns {
		if err = errors.Join(err, ctx.Err()); err != nil {
			break
		}
		left := "time left unknown"
		if i > 0 {
			d := time.Since(start) / time.Duration(i) * time.Duration(len(turns)-i)
			left = "about " + d.Round(time.Second).String() + " left"
		}
		_, _ = fmt.Fprintf(s.Progress, "[%d/%d] %s: %s %s, round %d\n", i+1, len(turns), left,
			t.engine, t.chain.Name, t.round+1)
		err = s.chain(ctx, t, emit)
	}
	return err
}

// turns lists what runs, in order.
func (s *Settings) turns() (all []turn, err error) {
	for round := range s.Repeats {
		for _, name := range s.Chains {
			chain, err := workload.FindChain(name)
			if err != nil {
				return nil, err
			}
			_ = measure.Rotate(context.Background(), round, len(s.Engines), func(i int) error {
				if e := s.Engines[i]; !slices.Contains(s.Skip, e+"/"+name) {
					all = append(all, turn{e, chain, round})
				}
				return nil
			})
		}
	}
	return all, nil
}

// chain runs all phases of a chain on one engine.
func (s *Settings) chain(ctx context.Context, t turn, emit func(result.Record) error) error {
	dir, err := os.MkdirTemp(s.Dir, "kstone-bench-"+t.engine+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	plan := workload.Plan{Chain: t.chain.Name, Engine: t.engine, Repeat: t.round, Size: s.Size}
	plan.Dir = dir
	for plan.Phase = range t.chain.Phases() {
		work, cancel := context.WithTimeout(ctx, s.TimeLimit)
		err := worker(work, plan, emit)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return emit(result.Record{Table: t.chain.Name, Engine: t.engine, Round: t.round,
				Case: "-", Error: err.Error()})
		}
	}
	return nil
}

// worker runs one process to its end, or until it asks to be killed.
func worker(ctx context.Context, plan workload.Plan, emit func(result.Record) error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), WorkerEnv+"="+string(text))
	tail := &tailWriter{}
	cmd.Stderr = tail
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	killed := false
	var failed error
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			continue // an engine that prints
		}
		switch {
		case ev.Kill:
			killed = true
			failed = errors.Join(failed, cmd.Process.Kill())
		case ev.Result != nil:
			failed = errors.Join(failed, emit(*ev.Result))
		}
	}
	failed = errors.Join(failed, lines.Err())
	err = cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("stopped: %w", ctx.Err())
	}
	if err != nil && !killed {
		return errors.Join(failed, fmt.Errorf("%w: %s", err, tail))
	}
	return failed
}

// tailWriter keeps the last bytes written to it.
type tailWriter struct{ b []byte }

const tailBytes = 600

func (t *tailWriter) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = t.b[len(t.b)-tailBytes:]
	}
	return len(p), nil
}

func (t *tailWriter) String() string { return string(t.b) }

// Work is the life of a worker process: it does the plan in text and writes events to
// w.
func Work(text string, w io.Writer) error {
	var plan workload.Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	send := func(ev event) error { // on a line of its own, whatever an engine has printed
		line, err := json.Marshal(ev)
		if err == nil {
			_, err = fmt.Fprintf(w, "\n%s\n", line)
		}
		return err
	}
	return workload.Run(&workload.Env{
		Plan: plan,
		Emit: func(r result.Record) error { return send(event{Result: &r}) },
		Announce: func() error {
			if err := send(event{Kill: true}); err != nil {
				return err
			}
			select {} // until the parent kills the process
		},
	})
}
