package growth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/growth"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// record is of a row of the page, with a throughput or what a load leaves to be done.
func record(table, name, engine string, perSecond, rest float64) result.Record {
	return result.Record{Table: table, Case: name, Engine: engine, Goroutines: 1,
		Figures: result.Figures{result.PerSecond: perSecond, result.RestSeconds: rest,
			result.RestBytes: 500, result.UserBytes: 1000}}
}

// run is a run of so many records.
func run(n uint64, valueBytes int, records ...result.Record) result.Run {
	return result.Run{Meta: result.Meta{Kind: "growth", Records: n, ValueBytes: valueBytes},
		Records: records}
}

// sample has loads of two engines at three sizes, and at the last one of kstone only.
func sample() []result.Run {
	return []result.Run{
		run(1e6, 100, record("growth", "load", "kstone", 1e6, 1),
			record("growth", "load", "pebble", 5e5, 1), record("growth", "load", "lmdb", 4e5, 1)),
		run(1e7, 100, record("growth", "load", "kstone", 6e5, 10),
			record("growth", "load", "pebble", 4e5, 4),
			record("cold", "load", "kstone", 1, 1), record("cold", "load", "lmdb", 1, 1),
			record("cold", "query", "kstone", 80, 0), record("cold", "query", "lmdb", 100, 0),
			record("cold16", "query", "kstone", 79, 0), record("cold16", "query", "lmdb", 100, 0)),
		run(1e8, 100, record("growth", "load", "kstone", 5e5, 12)),
		run(1e7, 1024, record("growth", "load", "kstone", 1e5, 2)),
	}
}

func TestTargets(t *testing.T) {
	checks, _ := growth.Kind.Checks(report.NewTable(&growth.Kind, sample()))
	for _, want := range []report.Check{
		// 0.6 of the throughput is left to kstone, 0.8 to pebble.
		{Case: "load, thousand/s, 1 M to 10 M", Figure: "kept ÷ pebble", Got: "0.75",
			Verdict: report.Missed},
		// A debt ten times and four times as long.
		{Case: "merge debt, seconds, 1 M to 10 M", Figure: "kept ÷ pebble", Got: "0.40",
			Verdict: report.Missed},
		{Case: "merge debt, bytes by bytes given, 1 M to 10 M", Figure: "kept ÷ pebble",
			Got: "1.00", Verdict: report.Reached},
		{Case: "load, thousand/s", Figure: "kept ÷ rocksdb", Got: "–", Verdict: report.Unknown},
		{Case: "query (cold), 10 M × 100 B", Figure: "throughput ÷ lmdb", Got: "0.80",
			Verdict: report.Reached},
		{Case: "query (cold16), 10 M × 100 B", Figure: "throughput ÷ lmdb", Got: "0.79",
			Verdict: report.Missed},
	} {
		found := false
		for _, c := range checks {
			if c.Case == want.Case && c.Figure == want.Figure {
				found = true
				if c.Got != want.Got || c.Verdict != want.Verdict {
					t.Errorf("%+v, want %+v", c, want)
				}
			}
		}
		if !found {
			t.Errorf("no check of %s, %s in %+v", want.Case, want.Figure, checks)
		}
	}
}

// TestPage has a chart where there are several sizes of data, and a table for each.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	page, charts := filepath.Join(dir, "page.md"), filepath.Join(dir, "charts")
	if err := report.Write(nil, &growth.Kind, sample(), page, charts); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### 1 M × 100 B\n\n| figure | kstone | pebble | lmdb |\n|---|---|---|---|\n" +
			"| load, thousand/s | 1000 | 500 | 400 |\n" +
			"| merge debt, seconds | 1.00 | 1.00 | 1.00 |\n",
		"### 100 M × 100 B\n\n| figure | kstone | pebble | lmdb |\n|---|---|---|---|\n" +
			"| load, thousand/s | 500 | – | – |\n",
		"### 10 M × 1024 B\n", "](charts/growth-100.svg)", "| query (cold16), 10 M × 100 B |",
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in\n%s", want, data)
		}
	}
	files, err := os.ReadDir(charts)
	if err != nil || len(files) != 1 || files[0].Name() != "growth-100.svg" {
		t.Errorf("charts %v, %v", files, err)
	}
}

// TestChainsExist looks for the chains, and for those that run without a command.
func TestChainsExist(t *testing.T) {
	others := strings.Join(workload.ChainNames(), " ")
	for _, name := range growth.Chains() {
		if _, err := workload.FindChain(name); err != nil {
			t.Error(err)
		}
	}
	if others != "seq batch point query sync ycsb reopen cold large stall" {
		t.Errorf("without a command: %s", others)
	}
}
