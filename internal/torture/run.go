package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Config says what Run does.
type Config struct {
	// Dir is the place for database and checkpoints. It must not exist, be empty, or be
	// left over from an earlier run, which is removed.
	Dir string
	// For is how long new cycles begin.
	For time.Duration
	// Seed of the workers' programs and of the moments of the kills.
	Seed uint64
	// Workers is the number of goroutines that write.
	Workers int
	// Command is the program with its arguments that calls Child if Env is set.
	Command []string
	// Progress, if not nil, is called after each cycle.
	Progress func(Report)
	// Started, if not nil, is called with each child. For tests.
	Started func(*os.Process)
}

// Report counts what has happened.
type Report struct {
	Cycles  int // a child started, killed, and everything checked
	Early   int // of them killed before the database was open
	Steps   int // acknowledged
	Lucky   int // steps found that had not been acknowledged yet
	Copies  int // checkpoints opened and checked
	Changes int // read, and found to make what the database has
	Elapsed time.Duration
	Left    time.Duration
}

// ErrNotOwn: the directory holds something that no run of torture has put there.
var ErrNotOwn = errors.New("torture: the directory holds something else")

const markName = "TORTURE"

// mark identifies a directory of ours, and how to repeat the run.
type mark struct {
	Torture int // format of this file
	Seed    uint64
	Workers int
}

// Run kills and checks until the time is over or ctx ends. An error that is not about
// the arguments means that a promise is broken; the directory is then left as it is. The
// cycle during which ctx ends is not judged: the signal that interrupts a run may have gone
// to the child, too.
func Run(ctx context.Context, c Config) (Report, error) {
	var rep Report
	if err := prepare(&c); err != nil {
		return rep, err
	}
	r := &runner{c: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), start: time.Now(),
		tester: NewTester(c.Seed, c.Workers)}
	for ctx.Err() == nil && (r.rep.Cycles == 0 || time.Since(r.start) < c.For) {
		err := r.cycle(ctx)
		if ctx.Err() != nil || errors.Is(err, errInterrupted) {
			break
		}
		if err != nil {
			return r.report(), fmt.Errorf("cycle %d, seed %d: %w", r.rep.Cycles+1, c.Seed, err)
		}
		r.rep.Cycles++
		if c.Progress != nil {
			c.Progress(r.report())
		}
	}
	return r.report(), nil
}

// prepare takes possession of the directory.
func prepare(c *Config) error {
	names, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	path := filepath.Join(c.Dir, markName)
	if len(names) > 0 {
		var m mark
		b, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(b, &m) != nil || m.Torture != 1 {
			return fmt.Errorf("%w: %s", ErrNotOwn, c.Dir)
		}
		for _, e := range names {
			if err := os.RemoveAll(filepath.Join(c.Dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	b, err := json.Marshal(mark{Torture: 1, Seed: c.Seed, Workers: c.Workers})
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

type runner struct {
	c      Config
	rng    *rand.Rand
	start  time.Time
	tester *Tester
	rep    Report
}

func (r *runner) report() Report {
	r.rep.Elapsed = time.Since(r.start)
	r.rep.Left = max(0, r.c.For-r.rep.Elapsed)
	return r.rep
}

// delay is how long a child lives: a third are killed while they open the database.
func (r *runner) delay() time.Duration {
	if r.rng.IntN(3) == 0 {
		return time.Duration(r.rng.IntN(30_000)) * time.Microsecond
	}
	return time.Duration(30_000+r.rng.IntN(500_000)) * time.Microsecond
}

// cycle is one child, one kill, one check.
func (r *runner) cycle(ctx context.Context) error {
	s, err := Start(r.c.Command, r.tester.Order(r.c.Dir))
	if err != nil {
		return err
	}
	if r.c.Started != nil {
		r.c.Started(s.cmd.Process)
	}
	if err := s.kill(ctx, r.delay()); err != nil {
		return err
	}
	r.rep.Steps += s.steps
	if !s.ready {
		r.rep.Early++
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	r.tester.ready = r.tester.ready || s.ready
	if _, err := os.Stat(filepath.Join(dbDir(r.c.Dir), "CURRENT")); err != nil {
		if !r.tester.ready {
			return nil // killed before there was a database
		}
		return fmt.Errorf("the database is gone: %w", err)
	}
	for name, floor := range s.copies {
		if err := r.tester.checkCopy(ctx, filepath.Join(r.c.Dir, name), floor); err != nil {
			return fmt.Errorf("checkpoint %s: %w", name, err)
		}
		r.rep.Copies++
	}
	found, err := r.tester.Check(ctx, r.c.Dir, s.acked)
	r.rep.Changes = r.tester.copy.read
	if err != nil {
		return err
	}
	r.rep.Lucky += found - s.steps
	return r.clear()
}

// errInterrupted ends a run without a verdict on its last cycle.
var errInterrupted = errors.New("torture: interrupted")

// clear removes the checkpoints, complete or not.
func (r *runner) clear() error {
	names, err := filepath.Glob(filepath.Join(r.c.Dir, "copy-*"))
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}
