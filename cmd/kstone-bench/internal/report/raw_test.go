package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// raw writes runs as raw output.
func raw(t *testing.T, runs ...report.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, r := range runs {
		w, err := report.NewRaw(&b, r.Meta)
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range r.Results {
			if err := w.Add(res); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.Bytes()
}

func TestRawRoundTrip(t *testing.T) {
	small := meta()
	small.Records = 200_000
	text := raw(t, run(meta(), speeds("seq", "fillseq", "kstone", 1, 300, 200)),
		run(small, speeds("sync", "fillsync", "pebble", 64, 100)))
	runs, err := report.Read(bytes.NewReader(text))
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v; want 2", len(runs), err)
	}
	if len(runs[0].Results) != 2 || runs[0].Torn || runs[0].Meta.Commit != "c0ffee" ||
		runs[1].Meta.Records != 200_000 || runs[1].Results[0].Goroutines != 64 {
		t.Errorf("read %+v", runs)
	}
}

func TestTornLastLineIsLeftOut(t *testing.T) {
	text := raw(t, run(meta(), speeds("seq", "fillseq", "kstone", 1, 300, 200)))
	lines := bytes.SplitAfter(text, []byte("\n"))
	whole := len(lines[0]) + len(lines[1])
	for cut := whole + 1; cut < len(text); cut++ {
		runs, err := report.Read(bytes.NewReader(text[:cut]))
		if err != nil || len(runs) != 1 || len(runs[0].Results) != 1 || !runs[0].Torn {
			t.Fatalf("cut at byte %d: %+v, %v", cut, runs, err)
		}
	}
}

func TestDamagedRawOutputIsRefused(t *testing.T) {
	good := string(raw(t, run(meta(), speeds("seq", "fillseq", "kstone", 1, 300, 200))))
	lines := strings.SplitAfter(good, "\n")
	for name, text := range map[string]string{
		"a torn line in the middle": lines[0] + lines[1][:20] + "\n" + lines[2],
		"a result without meta":     lines[1] + lines[0],
	} {
		if _, err := report.Read(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: error %v, want one that names the line", name, err)
		}
	}
}

func TestOnlyRunsOfOneMachineAreMerged(t *testing.T) {
	other := meta()
	other.CPU = "Slide rule"
	budget := meta()
	budget.Cache = 1 << 30
	again := meta()
	again.Commit, again.Load, again.Repeats = "decade", "9", 1
	if err := report.SameMachine([]report.Run{run(meta()), run(again)}); err != nil {
		t.Errorf("two runs on one machine: %v", err)
	}
	for name, runs := range map[string][]report.Run{
		"two machines": {run(meta()), run(other)}, "two caches": {run(meta()), run(budget)},
		"nothing": nil,
	} {
		if report.SameMachine(runs) == nil {
			t.Errorf("%s pass for one machine", name)
		}
	}
}
