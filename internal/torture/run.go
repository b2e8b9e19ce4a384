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
	r := &runner{c: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), start: time.Now()}
	for w := range c.Workers {
		r.state = append(r.state, newProgress(w))
	}
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
	c     Config
	rng   *rand.Rand
	start time.Time
	ready bool       // some child has said that the database is there, with the accounts
	state []progress // of the workers, as last found
	copy  replica
	rep   Report
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
	s, err := Start(r.c.Command, Order{
		Dir: r.c.Dir, Seed: r.c.Seed, Cycle: r.rep.Cycles, Workers: r.c.Workers, From: r.steps(),
	})
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
	r.ready = r.ready || s.ready
	if _, err := os.Stat(filepath.Join(dbDir(r.c.Dir), "CURRENT")); err != nil {
		if !r.ready {
			return nil // killed before there was a database
		}
		return fmt.Errorf("the database is gone: %w", err)
	}
	for name, floor := range s.copies {
		o := options(r.c.Seed, r.rep.Cycles)
		_, err := check(ctx, filepath.Join(r.c.Dir, name), o, r.c.Seed, r.state, floor, true,
			nil)
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", name, err)
		}
		r.rep.Copies++
	}
	found, err := check(ctx, dbDir(r.c.Dir), options(r.c.Seed, r.rep.Cycles), r.c.Seed, r.state,
		s.acked, r.ready, &r.copy)
	r.rep.Changes = r.copy.read
	if err != nil {
		return err
	}
	for w := range found {
		r.rep.Lucky += found[w].num - s.acked[w]
	}
	r.state = found
	return r.clear()
}

// steps returns how far the workers are.
func (r *runner) steps() []int {
	all := make([]int, len(r.state))
	for w := range r.state {
		all[w] = r.state[w].num
	}
	return all
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
