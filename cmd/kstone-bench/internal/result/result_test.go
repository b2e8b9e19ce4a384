package result_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

func meta() result.Meta {
	return result.Meta{Kind: "chains", CPU: "Abacus", Commit: "c0ffee", Records: 2_000_000,
		ValueBytes: 100, Rounds: 3}
}

func run(m result.Meta, records ...result.Record) result.Run {
	return result.Run{Meta: m, Records: records}
}

func fill(engine string, goroutines int, perSecond float64) result.Record {
	return result.Record{Table: "seq", Case: "fillseq", Engine: engine, Goroutines: goroutines,
		Figures: result.Figures{result.PerSecond: perSecond}}
}

// raw writes runs as raw output.
func raw(t *testing.T, runs ...result.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, r := range runs {
		w, err := result.NewWriter(&b, r.Meta)
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range r.Records {
			if err := w.Add(res); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestRawRoundTrip(t *testing.T) {
	small := meta()
	small.Records = 200_000
	text := raw(t, run(meta(), fill("kstone", 1, 300), fill("kstone", 2, 200)),
		run(small, fill("pebble", 64, 100)))
	runs, err := result.Read(bytes.NewReader(text))
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v; want 2", len(runs), err)
	}
	if len(runs[0].Records) != 2 || runs[0].Torn || runs[0].Meta.Commit != "c0ffee" ||
		runs[1].Meta.Records != 200_000 || runs[1].Records[0].Goroutines != 64 ||
		runs[0].Records[1].Figures[result.PerSecond] != 200 {
		t.Errorf("read %+v", runs)
	}
}

func TestTornLastLineIsLeftOut(t *testing.T) {
	text := raw(t, run(meta(), fill("kstone", 1, 300), fill("kstone", 2, 200)))
	lines := bytes.SplitAfter(text, []byte("\n"))
	whole := len(lines[0]) + len(lines[1])
	for cut := whole; cut < len(text); cut++ {
		runs, err := result.Read(bytes.NewReader(text[:cut]))
		records := 1
		if cut >= whole+len(lines[2]) {
			records = 2 // the end is missing
		}
		if err != nil || len(runs) != 1 || len(runs[0].Records) != records || !runs[0].Torn {
			t.Fatalf("cut at byte %d: %+v, %v", cut, runs, err)
		}
	}
}

func TestDamagedRawOutputIsRefused(t *testing.T) {
	good := string(raw(t, run(meta(), fill("kstone", 1, 300), fill("kstone", 2, 200))))
	lines := strings.SplitAfter(good, "\n")
	for name, text := range map[string]string{
		"a torn line in the middle": lines[0] + lines[1][:20] + "\n" + lines[2],
		"a record without meta":     lines[1] + lines[0],
		"a record less":             lines[0] + lines[2] + lines[3],
		"a record twice":            lines[0] + lines[1] + lines[1],
		"an unknown field":          lines[0] + strings.Replace(lines[1], "round", "turn", 1),
		"no figures":                lines[0] + `{"table":"a","case":"b","engine":"c"}` + "\n",
		"nothing":                   lines[0] + "{}\n",
	} {
		if _, err := result.Read(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: error %v, want one that names the line", name, err)
		}
	}
}

func TestOnlyRunsOfOneMachineAreMerged(t *testing.T) {
	other, budget, kind, kernel := meta(), meta(), meta(), meta()
	other.CPU, budget.Cache, kind.Kind, kernel.Kernel = "Slide rule", 1<<30, "tables", "7"
	again := meta()
	again.Commit, again.Load, again.Rounds = "decade", "9", 1
	read := func(metas ...result.Meta) ([]result.Run, error) {
		var names []string
		for i, m := range metas {
			m.Time = m.Time.Add(time.Duration(i))
			name := filepath.Join(t.TempDir(), string(rune('a'+i)))
			if err := os.WriteFile(name, raw(t, run(m)), 0o644); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return result.ReadFiles(names...)
	}
	twice := filepath.Join(t.TempDir(), "twice")
	if err := os.WriteFile(twice, raw(t, run(again), run(again)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := result.ReadFiles(twice); err == nil {
		t.Error("one run passes for two")
	}
	if runs, err := read(meta(), again); err != nil || len(runs) != 2 {
		t.Errorf("%d runs on one machine: %v", len(runs), err)
	}
	for name, metas := range map[string][]result.Meta{
		"two machines": {meta(), other}, "two caches": {meta(), budget},
		"two kinds": {meta(), kind}, "nothing": nil, "two kernels": {meta(), kernel},
	} {
		if _, err := read(metas...); err == nil {
			t.Errorf("%s pass for one machine", name)
		}
	}
}
