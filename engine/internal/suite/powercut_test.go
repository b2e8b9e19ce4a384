package suite_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Goal: whenever the power fails, the database opens, is free of damage and holds exactly
// the first m commits, over all stripes, with m not below what was acknowledged as
// durable; properties and checkpoints that were acknowledged are there; and it works on
// and survives the next power cut, also one during this recovery. The same after a kill
// of the process, with all that was acknowledged at any level, and a power cut after it.
//
// Method: random programs on a file system that knows what is durable. Before random
// operations on it the disk of a power cut at that moment is kept; when the program is
// through, each is opened and compared with the state after every number of commits.
// The recovery from it is such a program, too. A program that fails is reduced to the
// operations and the crashes that it takes, and printed (see reducer).
//
// The seed fixes programs and disks, not when the goroutines of the database run: to see
// a failure again, run the seed several times.
//
// Promise (durability): Acknowledged at `Sync`, or before a `DB.Sync`, flush or Close: survives
// a power cut. Also in the synced part of the log: `TestConcurrentAppendSync`, `TestGroupCommit`
// in `wal`.
// Promise (durability): After a power cut, also one during the recovery from another or from a
// kill, the database opens, verifies, and is a prefix of the commits over all stripes;
// acknowledged properties and checkpoints are there. Also that the simulated disk keeps no more
// than was synced: `TestPowerCutKeepsWhatWasSynced`, `TestPowerCutTears`,
// `TestKillKeepsBothSides` in `internal/vfs`.
// Promise (history): After power cuts the changes of all commits make the state that the database
// has, whatever was flushed, merged and recovered. Also after kills, `TestProgramsUnderAllOptions`.
func TestPowerCutsOfTheWholeEngine(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	programs, seed := testutil.Effort(3, 200), testutil.Seed(t)
	c := trial{t: t, tally: newTally()}
	for i := range programs {
		seed := seed + uint64(i)
		if c.test(c.crashing(seed), seed); t.Failed() {
			return
		}
	}
	t.Log(c.tally)
}

// crashing runs the program of a seed and judges the crashes in it.
func (c trial) crashing(seed uint64) *failure {
	s := drawCrashing(newDrawer(seed, 0))
	if seed%2 == 0 {
		s.opts = retain(s.opts)
	}
	r := newRun(c, fmt.Sprintf("seed %d", seed), s, seed)
	r.policy = policy{density: 0.1, most: 24, again: 1}
	return r.run()
}

// baseOptions make flushes, merges and recycling frequent.
var baseOptions = engine.Options{
	MemtableBytes: 1 << 20, LogBytes: 8 << 20, CacheBytes: 1 << 20, MaxOpenFiles: 16,
	BlockBytes: 1 << 10, FileBytes: 64 << 10, Compression: engine.NoCompression,
}

func crashOptions(rnd *rand.Rand) engine.Options {
	o := baseOptions
	o.Durability = engine.Sync + engine.Durability(rnd.IntN(2))
	o.FlushRecords, o.MaxRuns = []int{0, 1, 3, 10}[rnd.IntN(4)], 2+rnd.IntN(2)
	o.LargeValue = []int{engine.NoLargeValue, 1, 20}[rnd.IntN(3)]
	return o
}

// drawCrashing draws a program of many commits, with maintenance beside them nearly all
// the time.
func drawCrashing(d drawer) stage {
	s := stage{opts: crashOptions(d.Rand)}
	d.large = d.oneIn(3)
	d.plain = !d.large
	for range 20 + d.IntN(100) {
		if d.oneIn(4) {
			s.ops = append(s.ops, op{Kind: maintenance[d.IntN(4)], Beside: true})
		}
		s.ops = append(s.ops, d.commit())
		for i, kind := range []string{"get", "sync", "clock", "snapshot", "drop", "reopen"} {
			if d.oneIn(10 * (1 + i)) {
				s.ops = append(s.ops, d.op(kind))
			}
		}
	}
	return s
}

// commit draws a commit; most are not synced.
func (d drawer) commit() op {
	o := d.op(writeKinds[d.IntN(len(writeKinds))])
	if o.Level = "process"; d.oneIn(4) {
		o.Level = "sync"
	}
	return o
}

// drawRecovery draws the few operations of a process that finds what a crash has left.
func drawRecovery(rnd *rand.Rand) stage {
	s, d := stage{opts: crashOptions(rnd)}, drawer{Rand: rnd, plain: true}
	for range rnd.IntN(8) {
		s.ops = append(s.ops, d.commit())
	}
	s.ops = append(s.ops, op{Kind: maintenance[rnd.IntN(4)]})
	return s
}

// script is a short program for power cuts at every operation.
type script struct {
	name    string
	change  func(*engine.Options)
	large   bool
	padding int
	ops     string // initials: commit, flush, merge, property, checKpoint, sync, reOpen
}

// scripts are short, and each brings a part of the engine to its crossroads.
var scripts = []script{
	{name: "create and commit", ops: "cccscccocc"},
	{name: "flush", ops: "cccfccfoc"},
	{name: "merge", ops: "ccfccfcmcco", change: func(o *engine.Options) { o.FlushRecords = 0 }},
	{name: "flushes by themselves", ops: "cccccccccco", change: func(o *engine.Options) {
		o.FlushRecords, o.MaxRuns = 1, 2
	}},
	{name: "checkpoint", ops: "cckcfck"},
	{name: "manifest rewrite", padding: 150 << 10, ops: "cpppppcfpppco"},
	{
		name: "full segments", large: true,
		ops: strings.Repeat(strings.Repeat("c", 22)+"f", 4) + "o",
	},
	{name: "reopening", ops: "cocofocmo"},
	{name: "short runs", ops: "cococcocoococo"},
}

// Goal: as TestPowerCutsOfTheWholeEngine, but with nothing left to chance: the power is cut,
// or the process killed, before every single operation that changes the disk, and in full
// before every one of each recovery, too. Method: short programs for everything the engine
// does with files, each disk judged as there. At each operation the kind of crash and what
// it keeps are drawn; at night there are crashes again at every operation of each recovery. In
// an ordinary run the operations of large programs are samples, and there are second crashes in
// some recoveries.
//
// Promise (durability): What was acknowledged survives a power cut before every single operation
// that changes the disk: of creating, committing, flushing, merging, checkpoints, manifest
// rewrites, full and recycled segments, opening.
func TestPowerCutAtEveryOperation(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	seed, effort := testutil.Seed(t), testutil.Effort(1, 10)
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			c := trial{t: t, tally: newTally()}
			if f := s.run(c, seed, effort); f != nil {
				t.Fatal(c.explain(f, reduceUntil()))
			}
			t.Log(c.tally)
		})
	}
}

func (s *script) run(c trial, seed uint64, effort int) *failure {
	r := newRun(c, fmt.Sprintf("%s, seed %d", s.name, seed), s.stage(newDrawer(seed, 0)), seed)
	r.policy = s.policy(effort)
	r.renamed = map[string]int{}
	if f := r.run(); f != nil {
		return f
	}
	if s.padding > 0 && r.renamed["CUR"] < 2 {
		c.t.Errorf("the manifest was not written again: %v", r.renamed)
	}
	if s.large && r.renamed["wal"] == 0 {
		c.t.Errorf("no log segment was used again: %v", r.renamed)
	}
	return nil
}

// stage draws what the operations do.
func (s *script) stage(d drawer) stage {
	drawn := stage{opts: crashOptions(d.Rand), Padding: s.padding}
	d.large, d.plain = s.large, !s.large
	if s.change != nil {
		s.change(&drawn.opts)
	}
	for _, initial := range s.ops {
		o := op{Kind: map[rune]string{
			'f': "flush", 'm': "compact", 'p': "property", 'k': "checkpoint", 's': "sync",
			'o': "reopen",
		}[initial]}
		if initial == 'c' {
			if o = d.commit(); s.large {
				o = d.op("put")
				o.Level, o.If = "process", ""
			}
		}
		drawn.ops = append(drawn.ops, o)
	}
	return drawn
}

// policy says where there are crashes. Hundreds of disks of several megabytes in the
// recoveries would not fit into memory.
func (s *script) policy(effort int) policy {
	const all = 1 << 20
	switch {
	case effort >= 10 && s.large:
		return policy{every: 1, most: all, again: 1}
	case effort >= 10:
		return policy{every: 1, most: all, again: 1, inner: 1}
	case s.large:
		return policy{density: 0.15, most: all, again: 10}
	}
	return policy{every: 1, most: all, again: 10}
}
