package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dedup"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/growth"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/keys"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/large"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/peers"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/runner"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/small"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/tables"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/ycsb"
)

// command is a kind of measurement.
type command struct {
	name, about, quick string
	kind               *report.Kind
	// setup defines the flags of its own; the measurement is as they are when it begins. Without
	// it, there is a report only.
	setup func(*flag.FlagSet) measurement
}

// measurement is what a command does.
type measurement interface {
	Quick() // changes the settings to those of a look
	Check() error
	Meta() result.Meta
	Run(ctx context.Context, emit func(result.Record) error) error
}

var commands []command

func init() {
	commands = []command{
		{"chains", "the same work on databases, a process each; without a command, too",
			"200,000 records, short turns, most chains", &peers.Kind, chains},
		{"growth", "how figures change as the data grows: once for each -n, one report of all",
			"200,000 records, short turns, no small cache", &growth.Kind, growthFlags},
		{"tables", "tables, indexes and queries", "20,000 rows and short turns", &tables.Kind,
			tablesFlags},
		{"dedup", "which keys are new: zone maps and filters", "a million rows, three rounds",
			&dedup.Kind, dedupFlags},
		{"small", "what small databases cost", "three cases, seconds", &small.Kind, smallFlags},
		{"keys", "key codecs, and composite keys on kstone", "a tenth of the rounds", &keys.Kind,
			keysFlags},
		{"large", "large values, beside their keys and apart", "16 MiB, two sizes, a minute",
			&large.Kind, largeFlags},
		{name: "ycsb", about: "go-ycsb: measured by the module in the folder ycsb, reported here",
			kind: &ycsb.Kind},
	}
}

// Flags that several commands have.
const (
	aboutEngines = "engines, by comma"
	aboutRepeat  = "rounds; medians are shown"
	aboutDir     = "where databases are made and removed"
)

// list defines a flag of names by comma.
func list(f *flag.FlagSet, names *[]string, flag, about string) {
	if all := strings.Join(*names, ","); all != "" {
		about += " (default " + all + ")"
	}
	f.Func(flag, about, func(text string) error {
		*names = strings.Split(text, ",")
		if once := slices.Compact(slices.Sorted(slices.Values(*names))); len(once) < len(*names) {
			return fmt.Errorf("%s: a name is there twice", text)
		}
		return nil
	})
}

func chains(f *flag.FlagSet) measurement {
	return workloads(f, "chains", workload.ChainNames())
}

func growthFlags(f *flag.FlagSet) measurement { return workloads(f, "growth", growth.Chains()) }

// workloads measures chains for the page of a kind.
func workloads(f *flag.FlagSet, kind string, names []string) measurement {
	s := &runner.Settings{Kind: kind, Engines: store.Names(), Chains: names, Progress: os.Stderr}
	list(f, &s.Engines, "engines", aboutEngines)
	list(f, &s.Chains, "chains", "chains of workloads, by comma")
	list(f, &s.Skip, "skip", "what to leave out: engine/chain, by comma")
	f.IntVar(&s.Repeats, "repeat", 3, aboutRepeat)
	f.Uint64Var(&s.Records, "n", 2_000_000, "records")
	f.IntVar(&s.ValueBytes, "value", 100, "bytes of a value")
	f.Float64Var(&s.Seconds, "seconds", 4, "duration of a workload that has no fixed length")
	f.Int64Var(&s.WriteBufferBytes, "write-buffer", 64<<20, "bytes of write buffer")
	f.Int64Var(&s.CacheBytes, "cache", 256<<20, "bytes of block cache")
	f.StringVar(&s.Dir, "dir", os.TempDir(), aboutDir)
	f.DurationVar(&s.TimeLimit, "limit", 30*time.Minute, "longest time of a process")
	return s
}

func tablesFlags(f *flag.FlagSet) measurement {
	s := tables.Full()
	list(f, &s.Engines, "engines", aboutEngines)
	f.IntVar(&s.Rows, "n", s.Rows, "rows of the table")
	f.IntVar(&s.Repeat, "repeat", s.Repeat, aboutRepeat)
	f.DurationVar(&s.Turn, "turn", s.Turn, "time of an engine for a case in a round")
	f.DurationVar(&s.Short, "short", s.Short, "the same where kstone is compared with itself")
	f.StringVar(&s.Dir, "dir", s.Dir, aboutDir)
	return s
}

func dedupFlags(f *flag.FlagSet) measurement {
	s := dedup.Full()
	f.IntVar(&s.Rows, "n", s.Rows, "rows in 10 and in 20 segments")
	f.BoolVar(&s.Large, "large", false, "also 2 and 3 times the rows, in 20 and 30 segments")
	f.IntVar(&s.Repeat, "repeat", s.Repeat, aboutRepeat)
	f.IntVar(&s.Queries, "queries", s.Queries, "keys that are asked in a round")
	f.IntVar(&s.EngineRows, "engine-n", s.EngineRows,
		"records in each database; 0 leaves databases out")
	f.IntVar(&s.EngineQueries, "engine-queries", s.EngineQueries,
		"keys that databases are asked about in a round")
	f.StringVar(&s.Dir, "dir", s.Dir, aboutDir)
	return s
}

func smallFlags(f *flag.FlagSet) measurement {
	s := small.Full()
	f.StringVar(&s.Dir, "dir", s.Dir, aboutDir)
	return s
}

func keysFlags(f *flag.FlagSet) measurement {
	s := keys.Full()
	f.IntVar(&s.CodecRounds, "codec-repeat", s.CodecRounds,
		"rounds of the codecs, a millisecond each")
	f.IntVar(&s.Repeat, "repeat", s.Repeat, "rounds of the database; medians are shown")
	f.IntVar(&s.Records, "n", s.Records, "records in the database")
	return s
}

func largeFlags(f *flag.FlagSet) measurement {
	s := large.Full()
	list(f, &s.Engines, "engines", aboutEngines)
	list(f, &s.Sizes, "sizes", "sizes of values, by comma")
	f.Int64Var(&s.Bytes, "bytes", s.Bytes, "bytes of all values")
	f.IntVar(&s.Overwrites, "overwrites", s.Overwrites, "how many times as much is overwritten")
	f.IntVar(&s.Reads, "reads", s.Reads, "values that are read, at most all")
	f.IntVar(&s.Repeat, "repeat", s.Repeat, aboutRepeat)
	f.Int64Var(&s.WriteBuffer, "write-buffer", s.WriteBuffer, "bytes of write buffer")
	f.Int64Var(&s.Cache, "cache", s.Cache, "bytes of block cache")
	f.StringVar(&s.Dir, "dir", s.Dir, aboutDir)
	return s
}
