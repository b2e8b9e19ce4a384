// Command mutants changes packages in one place at a time, runs their tests, and lists the
// changes that no test notices. `make mutants` runs it; docs/testing.md says how to read it.
//
// The naive way counts lines that tests run. A line that runs is not a line whose effect is
// checked: an error that is swallowed runs, too. So the code is broken on purpose, in places
// that a seed draws, and a test has to fail for each.
//
// A mutant is an overlay of one file: the tree stays as it is. The tests of the mutant's own
// package run first, those that take no time before the others; then, if none fails, those of
// the packages above it (nets). Every verdict is a line of the results file. A run with the
// same file goes on after the last line; a source that has changed draws other mutants.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
)

// core is what mutants are drawn from if no package is named.
var core = []string{
	"./internal/rangedel", "./internal/manifest", "./compaction", "./wal", "./stripe",
	"./memtable", "./sst", "./keycodec", "./engine/schema", "./engine/plan/spans", "./zonemap",
	"./zonemap/keyset", "./engine", "./engine/internal/commit", "./engine/internal/history",
	"./engine/internal/read", "./engine/internal/upkeep",
}

const workers = 2

func main() {
	seed := flag.Uint64("seed", 1, "the seed that draws the mutants")
	n := flag.Int("n", 60, "how many mutants that compile")
	out := flag.String("out", "mutants.jsonl", "the results file; one that exists is continued")
	flag.Parse()
	args := flag.Args()
	if len(args) == 0 {
		args = core
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *seed, *n, *out, args); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, seed uint64, n int, out string, args []string) error {
	var groups [][]mutant
	for _, arg := range args {
		ms, err := mutantsOf(ctx, arg)
		if err != nil {
			return err
		}
		groups = append(groups, ms)
	}
	res, err := openResults(out)
	if err != nil {
		return err
	}
	defer res.close()
	lab, err := newLab()
	if err != nil {
		return err
	}
	defer lab.close()
	d := &dispatch{order: draw(groups, seed), wanted: n, res: res}
	if err := d.run(ctx, lab); err != nil {
		return err
	}
	d.report(os.Stdout)
	return nil
}

// dispatch hands the mutants to the workers, in their order.
//
// Invariant: a mutant is handed out only while fewer than wanted of those before it may
// compile. So the mutants that are tried depend on the seed and not on the workers' speed.
type dispatch struct {
	order  []mutant
	wanted int
	res    *results

	mu       sync.Mutex
	idle     sync.Cond
	next     int
	compiled int
	running  int
	err      error
	done     []verdict
}

func (d *dispatch) run(ctx context.Context, lab *lab) error {
	d.idle.L = &d.mu
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				m, ok := d.take()
				if !ok {
					return
				}
				v, known := d.res.find(m)
				var err error
				if !known {
					v, err = lab.try(ctx, m)
				}
				d.finish(v, known, err)
			}
		})
	}
	wg.Wait()
	return d.err
}

// take returns the next mutant, and waits while those that run may be enough.
func (d *dispatch) take() (mutant, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.err == nil && d.compiled < d.wanted && d.compiled+d.running >= d.wanted {
		d.idle.Wait()
	}
	if d.err != nil || d.compiled >= d.wanted || d.next == len(d.order) {
		return mutant{}, false
	}
	m := d.order[d.next]
	d.next++
	d.running++
	return m, true
}

func (d *dispatch) finish(v verdict, known bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	defer d.idle.Broadcast()
	if err == nil && !known {
		err = d.res.add(v)
	}
	if err != nil {
		if d.err == nil {
			d.err = err
		}
		return
	}
	if v.Outcome == invalid {
		return
	}
	d.compiled++
	d.done = append(d.done, v)
	if !known {
		fmt.Printf("%4d/%d  %-8s  %5.0fs  %s:%d %s  %s\n", d.compiled, d.wanted, v.Outcome,
			v.Seconds, v.File, v.Line, v.Op, v.By)
	}
	if v.Outcome == survived && !known {
		fmt.Print(v.Diff)
	}
}
