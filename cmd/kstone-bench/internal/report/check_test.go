package report_test

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/peers"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// find returns the check of a workload and figure whose bound is wanted.
func find(t *testing.T, checks []report.Check, workload, figure, want string) report.Check {
	t.Helper()
	for _, c := range checks {
		if c.Case == workload && c.Figure == figure && c.Want == want {
			return c
		}
	}
	t.Fatalf("no check of %s, %s %s", workload, figure, want)
	return report.Check{}
}

func check(results ...[]result.Record) []report.Check {
	checks, _ := peers.Kind.Checks(report.NewTable(&peers.Kind,
		[]result.Run{run(meta(), results...)}))
	return checks
}

func TestTargetsOfThroughput(t *testing.T) {
	for _, c := range []struct {
		kstone, pebble, lmdb float64
		thrice, ahead        report.Verdict
	}{
		{300, 100, 299, report.Reached, report.Reached},
		{300, 100, 300, report.Reached, report.Missed},
		{299, 100, 200, report.Missed, report.Reached},
		{99, 100, 10, report.Missed, report.Missed},
	} {
		checks := check(fills("kstone", 1, c.kstone), fills("pebble", 1, c.pebble),
			fills("lmdb", 1, c.lmdb))
		thrice := find(t, checks, "fillseq", "throughput ÷ pebble", "≥ 3.00")
		ahead := find(t, checks, "fillseq", "throughput ÷ best peer", "> 1.00")
		if thrice.Verdict != c.thrice || ahead.Verdict != c.ahead {
			t.Errorf("%+v: %+v, %+v", c, thrice, ahead)
		}
	}
}

func TestTargetOfProcessorTimeGrossAndNet(t *testing.T) {
	checks := check(fills("kstone", 1100, 1), fills("pebble", 3100, 1), fills("harness", 100, 1))
	c := find(t, checks, "fillseq", "CPU, background included ÷ pebble", "≤ 0.33")
	if c.Verdict != report.Missed || c.Got != "0.35 (net of the harness 0.33)" {
		t.Errorf("%+v", c)
	}
	c = find(t, check(fills("kstone", 1000, 1), fills("pebble", 3000, 1)), "fillseq",
		"CPU, background included ÷ pebble", "≤ 0.33")
	if c.Verdict != report.Reached || c.Got != "0.33" {
		t.Errorf("%+v", c)
	}
}

func TestTargetOfTheLongestStallTakesTheWorstRound(t *testing.T) {
	// The longest write is 10⁸ µs by the throughput: 50, 50 and 125 ms.
	checks := check(speeds("stall", "fillrandom", "kstone", 1, 2000, 2000, 800),
		speeds("stall", "fillrandom", "pebble", 1, 1000, 1000, 1000))
	c := find(t, checks, "fillrandom", "longest write", "< 100 ms")
	if c.Verdict != report.Missed || c.Got != "125 ms" || c.Rounds != 3 {
		t.Errorf("%+v", c)
	}
	c = find(t, checks, "fillrandom", "longest write ÷ pebble", "< 1.00")
	if c.Verdict != report.Reached || c.Got != "0.50" {
		t.Errorf("%+v", c)
	}
	c = find(t, checks, "fillrandom", "longest write ÷ rocksdb", "< 1.00")
	if c.Verdict != report.Unknown || c.Rounds != 0 {
		t.Errorf("%+v", c)
	}
}

func TestTargetsOfOpening(t *testing.T) {
	checks := check(speeds("reopen", "reopen-fulllog", "kstone", 1, 5000),
		speeds("reopen", "reopen-fulllog", "pebble", 1, 2000),
		speeds("reopen", "reopen-clean", "kstone", 1, 10_000))
	c := find(t, checks, "reopen-fulllog", "time ÷ pebble", "≤ 0.50")
	if c.Verdict != report.Reached || c.Got != "0.40" {
		t.Errorf("%+v", c)
	}
	c = find(t, checks, "reopen-clean", "time", "≤ 50.0 ms")
	if c.Verdict != report.Missed || c.Got != "100 ms" {
		t.Errorf("%+v", c)
	}
	lacking := speeds("reopen", "reopen-clean", "kstone", 1, 10_000)
	delete(lacking[0].Figures, result.Seconds)
	c = find(t, check(lacking), "reopen-clean", "time", "≤ 50.0 ms")
	if c.Verdict != report.Unknown {
		t.Errorf("a figure that is absent: %+v", c)
	}
}

func TestTargetsOfMeans(t *testing.T) {
	checks := check(
		fills("kstone", 1, 400), fills("pebble", 1, 100), fills("lmdb", 1, 400),
		speeds("point", "readmissing", "kstone", 1, 900),
		speeds("point", "readmissing", "pebble", 1, 900),
		speeds("ycsb", "ycsb-e", "kstone", 2, 1), speeds("ycsb", "ycsb-e", "pebble", 2, 900))
	c := find(t, checks, "2 workloads", "throughput ÷ pebble", "≥ 2.50")
	if c.Verdict != report.Missed || c.Got != "2.00" {
		t.Errorf("%+v; YCSB has no target and must not count", c)
	}
	c = find(t, checks, "1 workloads", "throughput ÷ lmdb", "≥ 1.50")
	if c.Verdict != report.Missed || c.Got != "1.00" {
		t.Errorf("%+v", c)
	}
}

func TestChecksAsText(t *testing.T) {
	small := meta()
	small.Records = 200_000
	failed := []result.Record{{Table: "seq", Case: "-", Engine: "lmdb", Error: "boom"}}
	for _, c := range []struct {
		run  result.Run
		want []string
		not  string
	}{
		{run(meta(), fills("kstone", 1, 300, 310, 320), fills("pebble", 1, 100, 100, 100)),
			[]string{"unsynced writes", "3.10", "3  ", "reached", "not measured.\n"}, "fewer"},
		{run(small, fills("kstone", 1, 300), fills("pebble", 1, 100), failed),
			[]string{"3.00", "reached", "**1 failed**", "for 2 M × 100 B, this is 200 k × 100 B.",
				"fewer than"},
			"3.10"},
	} {
		var b strings.Builder
		if err := report.WriteChecks(&b, &peers.Kind, []result.Run{c.run}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %q in\n%s", want, b.String())
			}
		}
		if strings.Contains(b.String(), c.not) {
			t.Errorf("%q in\n%s", c.not, b.String())
		}
	}
}
