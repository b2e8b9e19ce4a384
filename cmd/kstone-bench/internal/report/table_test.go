package report_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/peers"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

var size = result.Size{Records: 2_000_000, ValueBytes: 100}

func row(chain, name string, goroutines int) report.Row {
	return report.Row{Table: chain, Case: name, Goroutines: goroutines, Size: size}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9*max(math.Abs(a), math.Abs(b), 1) }

func TestMedians(t *testing.T) {
	table := report.NewTable(&peers.Kind, []result.Run{run(meta(),
		speeds("seq", "fillseq", "kstone", 1, 400, 100, 200),
		speeds("seq", "fillseq", "pebble", 1, 100, 400),
	)})
	three, _ := table.Median(report.Cell{Row: row("seq", "fillseq", 1), Engine: "kstone"})
	two, _ := table.Median(report.Cell{Row: row("seq", "fillseq", 1), Engine: "pebble"})
	if three.Figures[result.PerSecond] != 200 || two.Figures[result.PerSecond] != 250 {
		t.Errorf("medians of throughput are %g and %g, want 200 and 250",
			three.Figures[result.PerSecond], two.Figures[result.PerSecond])
	}
	if three.Figures[result.Max] != 1e6 || three.Figures[result.P999] != 5e4 {
		t.Errorf("longest %g, want that of all rounds, 1e6; p99.9 %g, want the median 5e4",
			three.Figures[result.Max], three.Figures[result.P999])
	}
	if _, ok := table.Median(report.Cell{Row: row("seq", "fillseq", 1), Engine: "bbolt"}); ok {
		t.Error("an engine without results has a cell")
	}
}

func TestRatiosAreTakenWithinRounds(t *testing.T) {
	// The machine is three times as fast in the second round. The medians are 300 and
	// 150, but within the rounds kstone is 3, 3 and 2 times as fast.
	table := report.NewTable(&peers.Kind, []result.Run{run(meta(),
		speeds("seq", "fillseq", "kstone", 1, 300, 900, 300),
		speeds("seq", "fillseq", "pebble", 1, 100, 300, 150),
	)})
	r, ok := table.Ratio(row("seq", "fillseq", 1), "pebble")
	if !ok || !near(r.Value, 3) || r.Rounds != 3 {
		t.Errorf("ratio %+v, %v; want 3 of 3 rounds", r, ok)
	}
}

func TestRatiosNeedASharedRound(t *testing.T) {
	seq := row("seq", "fillseq", 1)
	table := report.NewTable(&peers.Kind, []result.Run{
		run(meta(), speeds("seq", "fillseq", "kstone", 1, 300, 300),
			speeds("seq", "fillseq", "pebble", 1, 100)), // its second round failed
		run(meta(), speeds("seq", "fillseq", "lmdb", 1, 100, 100)),
		run(meta(), speeds("seq", "fillseq", "kstone", 1, 500),
			speeds("seq", "fillseq", "pebble", 1, 100)),
	})
	if r, ok := table.Ratio(seq, "lmdb"); ok {
		t.Errorf("ratio %+v of engines that share no run", r)
	}
	if r, ok := table.Ratio(seq, "pebble"); !ok || r.Rounds != 2 || !near(r.Value, 4) {
		t.Errorf("ratio %+v, %v; want 4, of one round in each of two runs", r, ok)
	}
	if peer, r, ok := table.Best(seq); ok {
		t.Errorf("best peer %s, %+v, although one is out of comparison", peer, r)
	}
	c, ok := table.Median(report.Cell{Row: seq, Engine: "lmdb"})
	if !ok || c.Figures[result.PerSecond] != 100 {
		t.Errorf("the figures of a run of its own are %+v, %v", c, ok)
	}
}

func TestSizesAreNotMixed(t *testing.T) {
	small := meta()
	small.Records = 200_000
	table := report.NewTable(&peers.Kind, []result.Run{
		run(meta(), speeds("seq", "fillseq", "kstone", 1, 300)),
		run(small, speeds("sync", "fillsync", "kstone", 1, 1),
			speeds("seq", "fillseq", "pebble", 1, 100)),
	})
	var got []string
	for _, r := range table.Rows {
		got = append(got, r.Case+" "+r.Size.String())
	}
	want := "[fillseq 200 k × 100 B fillsync 200 k × 100 B fillseq 2 M × 100 B]"
	if fmt.Sprint(got) != want {
		t.Errorf("rows %v, want %s", got, want)
	}
}

func TestBestAndGeometricMean(t *testing.T) {
	a, b := row("seq", "fillseq", 1), row("point", "readrandom", 8)
	table := report.NewTable(&peers.Kind, []result.Run{run(meta(),
		speeds("seq", "fillseq", "kstone", 1, 400), speeds("seq", "fillseq", "pebble", 1, 100),
		speeds("seq", "fillseq", "lmdb", 1, 200), speeds("seq", "fillseq", "harness", 1, 9999),
		speeds("point", "readrandom", "kstone", 8, 900),
		speeds("point", "readrandom", "pebble", 8, 100),
	)})
	peer, r, ok := table.Best(a)
	if peer != "lmdb" || !near(r.Value, 2) || !ok {
		t.Errorf("best peer %s with %+v, want lmdb with 2; the harness is no peer", peer, r)
	}
	mean, n := table.GeometricMean([]report.Row{a, b}, "pebble")
	if !near(mean, 6) || n != 2 {
		t.Errorf("mean of 4 and 9 is %g of %d, want 6 of 2", mean, n)
	}
	if mean, n := table.GeometricMean([]report.Row{a, b}, "bbolt"); mean != 0 || n != 0 {
		t.Errorf("mean over nothing is %g of %d", mean, n)
	}
}

func TestOfTwoSettingsTheBetterCounts(t *testing.T) {
	table := report.NewTable(&peers.Kind, []result.Run{run(meta(),
		speeds("seq", "fillseq", "kstone", 1, 400), speeds("seq", "fillseq", "pebble", 1, 100),
		speeds("seq", "fillseq", "pebble-small", 1, 200),
		speeds("point", "readrandom", "kstone", 8, 900),
		speeds("point", "readrandom", "pebble", 8, 300),
		speeds("point", "readrandom", "pebble-small", 8, 100),
		speeds("batch", "fillbatch", "pebble-small", 1, 500),
	)})
	if fmt.Sprint(table.Engines) != "[kstone pebble]" {
		t.Errorf("engines %v", table.Engines)
	}
	for r, want := range map[report.Row]float64{
		row("seq", "fillseq", 1): 200, row("point", "readrandom", 8): 300,
		row("batch", "fillbatch", 1): 500,
	} {
		m, ok := table.Median(report.Cell{Row: r, Engine: "pebble"})
		if !ok || m.Figures[result.PerSecond] != want {
			t.Errorf("%s: pebble has %g, want %g", r, m.Figures[result.PerSecond], want)
		}
	}
	if r, ok := table.Ratio(row("seq", "fillseq", 1), "pebble"); !ok || !near(r.Value, 2) {
		t.Errorf("ratio %+v, want 2", r)
	}
	var page strings.Builder
	if err := report.Write(&page, &peers.Kind, []result.Run{run(meta(),
		speeds("seq", "fillseq", "pebble", 1, 100),
		speeds("seq", "fillseq", "pebble-small", 1, 200))}, "", ""); err != nil ||
		!strings.Contains(page.String(), "pebble-small in 1 rows") {
		t.Errorf("%v: the page does not say it:\n%s", err, &page)
	}
}

func TestFailuresAreKeptApart(t *testing.T) {
	table := report.NewTable(&peers.Kind, []result.Run{run(meta(),
		speeds("seq", "fillseq", "kstone", 1, 400),
		[]result.Record{{Table: "seq", Engine: "pebble", Case: "-", Error: "boom"}},
	)})
	if len(table.Failed) != 1 || len(table.Rows) != 1 || len(table.Engines) != 1 {
		t.Errorf("failed %v, rows %v, engines %v", table.Failed, table.Rows, table.Engines)
	}
}
