package suite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// programEnv names a file for TestStoredPrograms.
const programEnv = "KSTONE_PROGRAM"

// format returns the text of a program and its crashes. What comes after a crash is done by a
// process that finds what it has left:
//
//	open flushrecords=3 maxruns=2
//	put key=a/k1 bytes=120 level=process
//	beside flush
//	crash-at at=sync-dir:db nth=2 keep=0.5 seed=123
//	open flushrecords=3
//
// Options are the fields of engine.Options. Nth counts operations on the disk with that name;
// without it the crash is at each of them.
func format(path []link) string {
	var b strings.Builder
	for _, l := range path {
		fmt.Fprintf(&b, "open%s%s\n", settings(&l.stage), settings(&l.opts))
		for _, o := range l.ops {
			fmt.Fprintln(&b, o)
		}
		if l.at != nil {
			fmt.Fprintf(&b, "crash-at%s\n", settings(l.at))
		}
	}
	return b.String()
}

// parse is the inverse of format. Empty lines and those that begin with # are left out. A
// program that ends with a crash goes on with a process that does nothing.
func parse(text string) (path []link, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		var last *link
		if len(path) > 0 {
			last = &path[len(path)-1]
		}
		switch {
		case line == "" || line[0] == '#':
		case words[0] == "open":
			var l link
			for _, word := range words[1:] {
				if set(&l.stage, []string{word}) != nil {
					err = errors.Join(err, set(&l.opts, []string{word}))
				}
			}
			path = append(path, l)
		case last == nil || last.at != nil:
			err = errors.New("no open before it")
		case words[0] == "crash-at":
			last.at = new(point)
			err = set(last.at, words[1:])
		default:
			var o op
			o, err = parseOp(line)
			last.ops = append(last.ops, o)
			last.begun++
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	if len(path) > 0 && path[len(path)-1].at != nil {
		path = append(path, link{stage: stage{opts: path[0].opts}})
	}
	return path, nil
}

// The text of a program is all of it.
func TestTextIsTheProgram(t *testing.T) {
	d := drawer{Rand: testutil.Rand(t)}
	path := []link{
		{stage: drawCrashing(d), at: &point{At: "sync-dir:db", Nth: 2, Keep: 0.1, Seed: 1 << 63}},
		{stage: drawRecovery(d.Rand), at: &point{At: afterClose, Kill: true}},
		{stage: drawProgram(d, 500)},
	}
	text := format(path)
	again, err := parse("# a comment\n\n" + text)
	ok(t, err)
	if got := format(again); got != text {
		t.Errorf("%s\nbecame\n%s", text, got)
	}
	for _, bad := range []string{
		"flush", "open x=3", "open maxruns=x", text + "x", text + "put nokey=a",
		text + "batch: x", text + "crash-at nth=x", text + "crash-at\nflush",
	} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%.200q is accepted", bad)
		}
	}
}

// Goal: what has failed once does not fail again. Method: the reduced programs in testdata are
// run with their crashes, and with crashes before all operations of the same name. KSTONE_PROGRAM
// names a file to be run a hundred times instead.
func TestStoredPrograms(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, err := filepath.Glob("testdata/*.txt")
	runs := 2
	if s := os.Getenv(programEnv); s != "" {
		files, runs = []string{s}, 100
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no programs: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			ok(t, err)
			path, err := parse(string(text))
			ok(t, err)
			c := trial{t: t, tally: newTally()}
			loose := (&reducer{best: &failure{path: path}}).with(0, func(*link) {})
			for i := range runs {
				for _, p := range [][]link{path, loose} {
					if f := c.repeat(p, uint64(i)); f != nil {
						t.Fatalf("run %d: %s", i, f.text)
					}
				}
			}
			crashes := func(l link) bool { return l.at != nil }
			if slices.ContainsFunc(path, crashes) && c.tally.counts["crashes"] == 0 {
				t.Error("there is no operation any more at which the program is to crash")
			}
			t.Log(c.tally)
		})
	}
}

// optionSet is a set of options and the kind of file system beneath.
type optionSet struct {
	name string
	on   string // see stage.On
	o    engine.Options
}

// optionSets differ from the defaults in ways that make boundaries frequent.
var optionSets = []optionSet{
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
	{name: "large values", o: engine.Options{LargeValue: 1, FlushRecords: 10, MaxRuns: 2}},
	{name: "eager merges", o: engine.Options{MaxRuns: 2, FlushRecords: 4}},
	{name: "late merges", o: engine.Options{MaxRuns: 64, FlushRecords: 4}},
	{name: "many workers", o: engine.Options{
		CompactionWorkers: 8, MaxRuns: 2, FlushRecords: 5, Durability: engine.Process,
	}},
	{name: "throttled merges", o: engine.Options{
		CompactionBytesPerSecond: 8 << 20, MaxRuns: 2, FlushRecords: 10,
	}},
	{name: "retained log", o: retain(engine.Options{FlushRecords: 3, MaxRuns: 2})},
	{name: "retained log on disk", on: "disk", o: retain(engine.Options{
		FlushRecords: 5, LogBytes: 8 << 20, MemtableBytes: 1 << 20, Durability: engine.Process,
	})},
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

// drawProgram draws a program over the whole API, whose options are others after each reopening.
func drawProgram(d drawer, n int) stage {
	s := stage{opts: d.options(), ops: d.program(allKinds, n)}
	for i := range s.ops {
		if s.ops[i].Kind == "reopen" {
			o := d.options()
			s.ops[i].Options = &o
		}
	}
	s.ops = append(s.ops, op{Kind: "reopen"}, op{Kind: "verify"}, op{Kind: "compact"})
	return s
}

// Goal: long programs over the whole API give what a sorted map gives, under every kind of
// options. Method: each set of options runs a random program, with reopenings, kills and power
// cuts among the operations; what every read shows is compared. A program that fails is reduced
// to the operations that it takes, and printed.
func TestProgramsUnderAllOptions(t *testing.T) {
	ops, seed := testutil.Effort(60, 10_000), testutil.Seed(t)
	for i, set := range optionSets {
		t.Run(set.name, func(t *testing.T) {
			s := drawProgram(newDrawer(seed, i), ops)
			s.On, s.opts = set.on, set.o
			for i := range s.ops {
				s.ops[i].Options = nil
			}
			trial{t: t}.test(newRun(trial{t: t}, "program", s, seed).run(), seed)
		})
	}
}

// Goal: the whole API behaves like a sorted map, under any options and whatever flushes, merges,
// reopenings and crashes happen in between. Method: short programs under options that are drawn
// again at each Open, so that files of all kinds meet.
//
// Promise (reads and writes): The whole API behaves like a sorted map, under any options,
// flushes, merges, reopens, checkpoints, kills and power cuts. Also with listed sets of options:
// `TestProgramsUnderAllOptions`; `TestModel` in `stripe`.
// Promise (reads and writes): What `FilterNew` calls new is new, exactly and approximately; new
// keys read no data but for false positives. Also `TestNewKeysReadNoData`.
// Promise (reads and writes): After `Compact` the records are the items.
// Promise (reads and writes): Cursors are exact, and refused elsewhere or damaged. Also
// `TestCursorsBelongToOneQuery`, `TestCursorsOfOtherLengths`, `TestCursorOfNewerVersion`.
// Promise (manners): Files with and without filters, of any codec and block size, side by side
// give the same answers. Also (drawn again at each Open), `TestFilesWithoutFilters`; `TestModel`
// in `sst`.
func TestEngineBehavesLikeASortedMap(t *testing.T) {
	testutil.SlowUnderRace(t, "TestProgramsUnderAllOptions does the same")
	programs, seed := testutil.Effort(180, 600), testutil.Seed(t)
	for i := range programs {
		s := drawProgram(newDrawer(seed, i), 60)
		trial{t: t}.test(newRun(trial{t: t}, "program", s, seed).run(), seed)
		if t.Failed() {
			return
		}
	}
}

// Goal: gatherings and scans with bounds select exactly what they should, in the right order,
// whatever they are combined with, on databases, snapshots and in transactions. Method: programs
// that write into several layers of files and memtables, and then only read.
//
// Promise (reads and writes): Gatherings of partitions, and scans with bounds, select exactly
// what they should in the right order, with any spans, limits, positions, pages and filters, and
// are counted right.
func TestRangesAgainstModel(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	programs, seed := testutil.Effort(6, 60), testutil.Seed(t)
	ranges := []string{"scan", "gather", "query", "iterate", "snapshot", "update"}
	for i := range programs {
		d := newDrawer(seed, i)
		s := stage{opts: d.options(), ops: append(d.program(writeKinds, 100), op{Kind: "snapshot"})}
		s.opts.MaxRuns = 16
		s.ops = append(s.ops, d.program(append(ranges, writeKinds...), 100)...)
		s.ops = append(s.ops, d.program(ranges, 100)...)
		trial{t: t}.test(newRun(trial{t: t}, "program", s, seed).run(), seed)
		if t.Failed() {
			return
		}
	}
}

// The programs notice a wrong answer, and the reduction shows how it comes about: here the model
// itself forgets every put with a TTL.
func TestProgramsNoticeWrongAnswers(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	c := trial{t: t, forget: func(o *op) bool { return o.Kind == "put" && o.TTL > 0 }}
	s := drawProgram(newDrawer(3, 4), 400)
	f := newRun(c, "program", s, 1).run()
	if f == nil {
		t.Fatal("nothing was noticed")
	}
	r := c.reduce(f, time.Now().Add(20*time.Second))
	if text := format(r.best.path); r.steps() > 3 || !strings.Contains(text, "ttl=") {
		t.Errorf("%d operations are left:\n%s", r.steps(), text)
	}
}

// test reports a failure, reduced.
func (c trial) test(f *failure, seed uint64) {
	if f != nil {
		c.t.Errorf("repeat with: %s\n%s", testutil.Repeat(c.t, seed),
			c.explain(f, reduceUntil()))
	}
}

func newDrawer(seed uint64, n int) drawer {
	return drawer{Rand: rand.New(rand.NewPCG(seed, uint64(n)))}
}
