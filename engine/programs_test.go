package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// progOp is one operation of a program. What it does in detail comes from its own seed
// and the state it meets, so that a program that has lost other operations stays one.
type progOp struct {
	kind string
	seed uint64
}

// newProgram draws a program.
func newProgram(rnd *rand.Rand, ops int) []progOp {
	var lots []string
	for kind, weight := range progWeights {
		for range weight {
			lots = append(lots, kind)
		}
	}
	slices.Sort(lots)
	program := make([]progOp, ops)
	for i := range program {
		program[i] = progOp{lots[rnd.IntN(len(lots))], rnd.Uint64()}
	}
	return program
}

// progSet is a set of options and the kind of file system beneath.
type progSet struct {
	name string
	on   string // "crash" by default; "disk"; "memory" for Options.InMemory
	o    engine.Options
}

// progSets differ from the defaults in ways that make boundaries frequent.
var progSets = []progSet{
	{name: "defaults"},
	{name: "defaults on disk", on: "disk"},
	{name: "in memory", on: "memory", o: engine.Options{FlushRecords: 20}},
	{name: "process", o: engine.Options{Durability: engine.Process}},
	{name: "process on disk", on: "disk", o: engine.Options{
		Durability: engine.Process, FlushRecords: 5, LogBytes: 8 << 20, MemtableBytes: 1 << 20,
	}},
	{name: "a flush for each record", o: engine.Options{FlushRecords: 1, MaxRuns: 2}},
	{name: "a flush for two records", o: engine.Options{FlushRecords: 2}},
	{name: "a flush for ten records", o: engine.Options{FlushRecords: 10, MaxRuns: 3}},
	{name: "tiny write buffers", o: engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20}},
	{name: "tiny blocks", o: engine.Options{BlockBytes: 1 << 10, FlushRecords: 15}},
	{name: "large blocks", o: engine.Options{BlockBytes: 1 << 20, FlushRecords: 15}},
	{name: "tiny files", o: engine.Options{FileBytes: 64 << 10, FlushRecords: 30, MaxRuns: 2}},
	{name: "no compression", o: engine.Options{
		Compression: engine.NoCompression, FlushRecords: 8,
	}},
	{name: "lz4", o: engine.Options{Compression: engine.LZ4, FlushRecords: 8}},
	{name: "zstd", o: engine.Options{Compression: engine.Zstd, FlushRecords: 8}},
	{name: "snappy", o: engine.Options{Compression: engine.Snappy, FlushRecords: 8}},
	{name: "lz4 over zstd", o: engine.Options{
		Compression: engine.LZ4, BottomCompression: engine.Zstd, FlushRecords: 6, MaxRuns: 2,
	}},
	{name: "no cache", o: engine.Options{CacheBytes: 1, FlushRecords: 10}},
	{name: "tiny cache", o: engine.Options{CacheBytes: 64 << 10, FlushRecords: 10}},
	{name: "few open files", o: engine.Options{MaxOpenFiles: 16, FlushRecords: 3, MaxRuns: 8}},
	{name: "wide filters", o: engine.Options{FilterBits: 16, FlushRecords: 10}},
	{name: "no filters", o: engine.Options{FilterBits: engine.NoFilter, FlushRecords: 10}},
	{name: "eager merges", o: engine.Options{MaxRuns: 2, FlushRecords: 4}},
	{name: "late merges", o: engine.Options{MaxRuns: 64, FlushRecords: 4}},
	{name: "many workers", o: engine.Options{
		CompactionWorkers: 8, MaxRuns: 2, FlushRecords: 5, Durability: engine.Process,
	}},
	{name: "throttled merges", o: engine.Options{
		CompactionBytesPerSecond: 8 << 20, MaxRuns: 2, FlushRecords: 10,
	}},
	{name: "everything small", o: engine.Options{
		FlushRecords: 3, MaxRuns: 2, BlockBytes: 1 << 10, FileBytes: 64 << 10, CacheBytes: 1,
		MaxOpenFiles: 16, MemtableBytes: 1 << 20, LogBytes: 8 << 20, FilterBits: 16,
		Compression: engine.Zstd, BottomCompression: engine.NoCompression,
	}},
	{name: "everything small on disk", on: "disk", o: engine.Options{
		FlushRecords: 3, MaxRuns: 2, BlockBytes: 1 << 10, FileBytes: 64 << 10, CacheBytes: 1,
		MaxOpenFiles: 16, MemtableBytes: 1 << 20, LogBytes: 8 << 20,
		Durability: engine.Process,
	}},
}

// drawnSets is how many sets of options a seed draws beside progSets.
const drawnSets = 3

// programSets returns all sets of options for a seed.
func programSets(seed uint64) []progSet {
	sets := slices.Clone(progSets)
	for i := range drawnSets {
		rnd := rand.New(rand.NewPCG(seed, uint64(1000+i)))
		sets = append(sets, progSet{
			name: fmt.Sprintf("drawn %d", i+1), o: chooseFrom(rnd).options(),
		})
	}
	return sets
}

// Goal: long programs over the whole API give what a sorted map gives, under every kind of
// options. Method: each set of options runs a random program, with reopens, kills and
// power cuts among the operations; what every read shows is compared. A program that
// fails is reduced to the operations that it takes, and printed.
func TestProgramsUnderAllOptions(t *testing.T) {
	ops, seed := testutil.Effort(60, 10_000), testutil.Seed(t)
	sets := programSets(seed)
	t.Logf("%d sets of options, %d operations each", len(sets), ops)
	for i, set := range sets {
		t.Run(set.name, func(t *testing.T) {
			program := newProgram(rand.New(rand.NewPCG(seed, uint64(i))), ops)
			err := set.run(t, program, nil)
			if err == nil {
				return
			}
			fails := func(p []progOp) bool { return set.run(t, p, nil) != nil }
			small := reduce(program, fails, time.Now().Add(time.Minute))
			var trace []string
			again := set.run(t, small, &trace)
			t.Errorf("%v\nrepeat with: %s\nreduced to %d operations: %v\n%s", err,
				testutil.Repeat(t, seed), len(small), again, strings.Join(trace, "\n"))
		})
	}
}

// reduce returns a part of the program that still fails, as small as can be found until
// the deadline (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input):
// leave out a half, then quarters, and so on down to single operations.
func reduce[T any](program []T, fails func([]T) bool, deadline time.Time) []T {
	for size := (len(program) + 1) / 2; size > 0; {
		removed := false
		for at := 0; at < len(program) && time.Now().Before(deadline); {
			end := min(at+size, len(program))
			rest := slices.Concat(program[:at], program[end:])
			if fails(rest) {
				program, removed = rest, true
			} else {
				at = end
			}
		}
		switch {
		case !time.Now().Before(deadline):
			return program
		case size == 1 && !removed:
			return program
		case size > 1:
			size = (size + 1) / 2
		}
	}
	return program
}

// The reduction leaves what the failure takes and nothing else.
func TestReduceFindsTheCause(t *testing.T) {
	program := newProgram(rand.New(rand.NewPCG(1, 2)), 5000)
	program[700].kind, program[2500].kind, program[4900].kind = "first", "second", "third"
	runs := 0
	fails := func(p []progOp) bool {
		runs++
		at := 0
		for _, o := range p {
			if at < 3 && o.kind == []string{"first", "second", "third"}[at] {
				at++
			}
		}
		return at == 3
	}
	small := reduce(program, fails, time.Now().Add(time.Minute))
	if len(small) != 3 || !fails(small) || runs > 500 {
		t.Errorf("%d operations are left after %d runs", len(small), runs)
	}
}

// The programs notice a wrong answer, and the reduction shows how it comes about: here the
// reference itself forgets every put with a TTL.
func TestProgramsNoticeWrongAnswers(t *testing.T) {
	set := progSet{name: "defaults", o: engine.Options{FlushRecords: 10}}
	sabotaged := func(p []progOp, trace *[]string) error {
		r := newProgRun(t, &set, trace)
		r.sabotage = "putTTL"
		return r.program(p)
	}
	program := newProgram(rand.New(rand.NewPCG(3, 4)), 400)
	if err := sabotaged(program, nil); err == nil {
		t.Fatal("nothing was noticed")
	}
	fails := func(p []progOp) bool { return sabotaged(p, nil) != nil }
	small := reduce(program, fails, time.Now().Add(20*time.Second))
	var trace []string
	err := sabotaged(small, &trace)
	if len(small) > 2 || err == nil {
		t.Errorf("%d operations are left: %v", len(small), err)
	}
	if len(trace) == 0 || !strings.Contains(fmt.Sprint(trace), "putTTL") {
		t.Errorf("%q does not show the put", trace)
	}
}
