package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// powerCutEveryEnv is the number of rounds of TestPowerCutAtEveryOperation in full.
const powerCutEveryEnv = "KSTONE_POWERCUT_EVERY"

// cutScript is a short program for power cuts at every operation.
type cutScript struct {
	name    string
	change  func(*engine.Options)
	large   bool
	padding int
	// steps: c a commit, f flush, m merge everything, p property, k checkpoint, s sync, o
	// close and open.
	steps string
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
}

// Goal: as TestPowerCutsOfTheWholeEngine, but with nothing left to chance: the power is cut,
// or the process killed, before every single operation that changes the disk, and in full
// before every one of each recovery, too. Method: short programs for everything the engine
// does with files, each disk judged as there. At each operation the kind of crash and what
// it keeps are drawn; KSTONE_POWERCUT_EVERY=n makes n rounds of several draws each, and
// crashes again at every operation of each recovery. Without it there are second crashes
// in some recoveries, and full log segments are left to samples.
func TestPowerCutAtEveryOperation(t *testing.T) {
	rounds, full, seed := 1, false, rand.Uint64()
	if s := os.Getenv(powerCutEveryEnv); s != "" {
		rounds, _ = strconv.Atoi(s)
		full = true
	}
	if s := os.Getenv(powerCutSeedEnv); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("%s=%d", powerCutSeedEnv, seed)
	for _, script := range cutScripts {
		t.Run(script.name, func(t *testing.T) {
			total := 0
			for round := range rounds {
				total += script.run(t, seed+uint64(round), full)
			}
			t.Logf("%d crashes", total)
		})
	}
}

// run returns the number of crashes at the first level.
func (s *cutScript) run(t *testing.T, seed uint64, full bool) (total int) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := &cutRun{
		t: t, where: fmt.Sprintf("%s, %s=%d", s.name, powerCutSeedEnv, seed),
		fs: vfs.NewCrash(), opts: cutOptions(rnd), large: s.large, padding: s.padding,
		dir: "copies", rnd: rand.New(rand.NewPCG(seed, 1)), every: 1, most: 1 << 20,
		renamed: map[string]int{},
	}
	// Again: also during the recovery. Hundreds of disks of several megabytes there
	// would not fit into memory.
	again := 10
	switch {
	case full && s.large:
		again = 1
	case full:
		r.every, r.inner, again = 3, 1, 1
	case s.large:
		r.every, r.density = 0, 0.15
	case testing.Short(), raceEnabled:
		r.every, r.density = 0, 0.15
	}
	if s.change != nil {
		s.change(&r.opts)
	}
	r.open()
	for _, step := range s.steps {
		switch step {
		case 'c':
			r.commit(rnd)
		case 'f':
			r.durable("flush", r.db.Flush)
		case 'm':
			r.durable("compact", r.db.Compact)
		case 's':
			r.durable("sync", r.db.Sync)
		case 'p':
			r.property()
		case 'k':
			r.checkpoint()
		case 'o':
			r.close()
			r.open()
		}
		total += r.drain(t, rnd, again)
	}
	r.close()
	if s.padding > 0 && r.renamed["CUR"] < 2 {
		t.Errorf("the manifest was not written anew: %v", r.renamed)
	}
	if s.large && r.renamed["wal"] == 0 {
		t.Errorf("no log segment was used again: %v", r.renamed)
	}
	return total + r.drain(t, rnd, again)
}

// drain judges the disks taken so far and lets go of them. In every so many recoveries
// there is another crash.
func (r *cutRun) drain(t *testing.T, rnd *rand.Rand, again int) int {
	r.mu.Lock()
	cuts := r.cuts
	r.cuts = nil
	r.mu.Unlock()
	for i := range cuts {
		if t.Failed() {
			t.FailNow()
		}
		cuts[i].check(t, rand.New(rand.NewPCG(rnd.Uint64(), 6)), i%again == 0)
		cuts[i] = powerCut{}
	}
	return len(cuts)
}
