package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// cutScript is a short program for power cuts at every operation.
type cutScript struct {
	name    string
	change  func(*engine.Options)
	large   bool
	padding int
	steps   string // see cutWords
}

// cutScripts are short, and each brings a part of the engine to its crossroads.
var cutScripts = []cutScript{
	{name: "create and commit", steps: "cccscccocc"},
	{name: "flush", steps: "cccfccfoc"},
	{name: "merge", steps: "ccfccfcmcco", change: func(o *engine.Options) { o.FlushRecords = 0 }},
	{name: "flushes by themselves", steps: "cccccccccco", change: func(o *engine.Options) {
		o.FlushRecords, o.MaxRuns = 1, 2
	}},
	{name: "checkpoint", steps: "cckcfck"},
	{name: "manifest rewrite", padding: 150 << 10, steps: "cpppppcfpppco"},
	{
		name: "full segments", large: true,
		steps: strings.Repeat(strings.Repeat("c", 22)+"f", 4) + "o",
	},
	{name: "reopening", steps: "cocofocmo"},
	{name: "short runs", steps: "cococcocoococo"},
}

// Goal: as TestPowerCutsOfTheWholeEngine, but with nothing left to chance: the power is cut,
// or the process killed, before every single operation that changes the disk, and in full
// before every one of each recovery, too. Method: short programs for everything the engine
// does with files, each disk judged as there. At each operation the kind of crash and what
// it keeps are drawn; at night there are several draws each, and crashes again at every
// operation of each recovery. In an ordinary run the operations are samples, and there are
// second crashes in some recoveries.
//
// Promise (durability): What was acknowledged survives a power cut before every single operation
// that changes the disk: of creating, committing, flushing, merging, checkpoints, manifest
// rewrites, full and recycled segments, opening.
func TestPowerCutAtEveryOperation(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	seed, effort := testutil.Seed(t), testutil.Effort(1, 10)
	deadline := sync.OnceValue(func() time.Time { return time.Now().Add(cutReduceTime) })
	for _, script := range cutScripts {
		t.Run(script.name, func(t *testing.T) {
			trial := cutTrial{tally: newCutTally()}
			if f := script.run(t, trial, seed, effort); f != nil {
				t.Fatal(trial.explain(f, deadline()))
			}
			t.Log(trial.tally)
		})
	}
}

func (s *cutScript) run(t *testing.T, trial cutTrial, seed uint64, effort int) *cutFailure {
	where := fmt.Sprintf("%s, seed %d", s.name, seed)
	r := newCutRun(trial, where, s.stage(rand.New(rand.NewPCG(seed, 0))), seed)
	r.cutPolicy = s.policy(effort)
	r.renamed = map[string]int{}
	if f := r.run(); f != nil {
		return f
	}
	if s.padding > 0 && r.renamed["CUR"] < 2 {
		t.Errorf("the manifest was not written anew: %v", r.renamed)
	}
	if s.large && r.renamed["wal"] == 0 {
		t.Errorf("no log segment was used again: %v", r.renamed)
	}
	return nil
}

// stage draws what the steps do.
func (s *cutScript) stage(rnd *rand.Rand) cutStage {
	stage := cutStage{opts: cutOptions(rnd), padding: s.padding}
	if s.change != nil {
		s.change(&stage.opts)
	}
	for i := range s.steps {
		step := cutStep{kind: s.steps[i]}
		if step.kind == 'c' {
			step = drawCommit(rnd, i+1, s.large)
		}
		stage.steps = append(stage.steps, step)
	}
	return stage
}

// policy says where there are cuts. Hundreds of disks of several megabytes in the
// recoveries would not fit into memory.
func (s *cutScript) policy(effort int) cutPolicy {
	const all = 1 << 20
	switch {
	case effort >= 10 && s.large:
		return cutPolicy{every: 1, most: all, again: 1}
	case effort >= 10:
		return cutPolicy{every: 3, most: all, again: 1, inner: 1}
	case s.large, effort == 1:
		return cutPolicy{density: 0.15, most: all, again: 10}
	}
	return cutPolicy{every: 1, most: all, again: 10}
}
