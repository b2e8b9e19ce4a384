package dedup

import (
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// TestVerdicts: a figure is judged by the aim for its size, and not judged where there is no aim.
func TestVerdicts(t *testing.T) {
	const memory = "in 10, unsorted data, unsorted questions"
	const reached, missed = report.Reached, report.Missed
	for _, c := range []struct {
		table, name, contestant string
		rows, ratio, value      float64
		want                    []report.Verdict // of the ratio, of the value
	}{
		{"memory", "64 M " + memory, "batch", 64e6, 7.97, 0, []report.Verdict{missed}},
		{"memory", "1 M " + memory, "batch", 1e6, 3.97, 0, []report.Verdict{reached}},
		{"memory", "1 M " + memory, "batch", 1e6, 1, 0, []report.Verdict{missed}},
		{"memory", "16 M " + memory, "batch", 16e6, 1, 0, nil},
		{"memory", "64 M in 20, unsorted data, unsorted questions", "batch", 64e6, 1, 0, nil},
		{"memory", "64 M in 10, sorted data, unsorted questions", "single", 64e6, 1.14, 88.97,
			[]report.Verdict{reached, missed}},
		{"memory", "1 M " + memory, "loop", 1e6, 1, 0, nil},
		{"exact", "unsorted questions", "batch", 1e6, 0.4, 0, nil},
		{"space", "160 k", "zonemap", 160_000, 0, 9.421, []report.Verdict{reached}},
		{"space", "1.6 M", "zonemap", 1.6e6, 0, 9.03, []report.Verdict{missed}},
		{"engine", "100 k keys, in 500 k", "pebble", 500_000, 2, 0, nil},
		{"engine", "1 M keys, in 10 M", "pebble", 10e6, 2, 0, []report.Verdict{missed}},
	} {
		r := result.Record{Table: c.table, Case: c.name, Engine: c.contestant,
			Figures: result.Figures{figRows: c.rows, figRatio: c.ratio, nsPerKey: c.value}}
		got, _ := checks(report.NewTable(&Kind, []result.Run{{Records: []result.Record{r}}}))
		if !slices.EqualFunc(got, c.want, func(g report.Check, v report.Verdict) bool {
			return g.Verdict == v
		}) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestAimsNameOneSize: no row has two aims, and every aim wants something.
func TestAimsNameOneSize(t *testing.T) {
	for i, a := range aims {
		if a.ratio == 0 && a.value == 0 || a.rows.from >= a.rows.to {
			t.Errorf("%+v wants nothing", a)
		}
		for _, b := range aims[i+1:] {
			if a.table == b.table && a.contestant == b.contestant && a.name == b.name &&
				a.rows.from < b.rows.to && b.rows.from < a.rows.to {
				t.Errorf("%+v and %+v are about one row", a, b)
			}
		}
	}
}

// TestPageWithoutVerdicts: a figure without an aim is in its table, and not among the targets.
func TestPageWithoutVerdicts(t *testing.T) {
	var text strings.Builder
	r := result.Record{Table: "memory", Case: "16 M in 10, unsorted data, unsorted questions",
		Engine: "batch", Figures: result.Figures{figRows: 16e6, figRatio: 5, nsPerKey: 20}}
	other := result.Record{Table: "memory", Case: r.Case, Engine: "loop",
		Figures: result.Figures{figRows: 16e6, nsPerKey: 100}}
	runs := []result.Run{{Meta: result.NewMeta("dedup"), Records: []result.Record{r, other}}}
	if err := report.Write(&text, &Kind, runs, "", ""); err != nil {
		t.Fatal(err)
	}
	page := text.String()
	if !strings.Contains(page, "0 reached, 0 missed") ||
		!strings.Contains(page, "| batch | 20 ns/key | 5.00 |") ||
		!strings.Contains(page, "There are none for a run of this size") {
		t.Errorf("%s", page)
	}
}
