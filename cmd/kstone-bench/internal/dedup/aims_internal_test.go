package dedup

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// TestVerdicts: a figure is judged by the aim for its size, and by none where there is none.
func TestVerdicts(t *testing.T) {
	const memory = "in 10, unsorted data, unsorted questions"
	for _, c := range []struct {
		row           Row
		ratio, value  float64 // the aim
		hasAim, reach bool
	}{
		{Row{Table: "memory", Case: "64 M " + memory, Contestant: "batch",
			Rows: 64_000_000, Ratio: 7.97},
			8, 0, true, false},
		{Row{Table: "memory", Case: "1 M " + memory, Contestant: "batch",
			Rows: 1_000_000, Ratio: 3.97},
			2.5, 0, true, true},
		{Row{Table: "memory", Case: "1 M " + memory, Contestant: "batch",
			Rows: 1_000_000, Ratio: 1},
			2.5, 0, true, false},
		{Row{Table: "memory", Case: "16 M " + memory, Contestant: "batch",
			Rows: 16_000_000, Ratio: 1},
			0, 0, false, true},
		{Row{Table: "memory", Case: "64 M in 20, unsorted data, unsorted questions",
			Contestant: "batch", Rows: 64_000_000, Ratio: 1}, 0, 0, false, true},
		{Row{Table: "memory", Case: "64 M in 10, sorted data, unsorted questions",
			Contestant: "single", Rows: 64_000_000, Ratio: 1.14, Value: 88.97}, 1, 49, true, false},
		{Row{Table: "memory", Case: "1 M " + memory, Contestant: "loop", Rows: 1_000_000, Ratio: 1},
			0, 0, false, true},
		{Row{Table: "exact", Case: "unsorted questions", Contestant: "batch", Rows: 1_000_000,
			Ratio: 0.4}, 0, 0, false, true},
		{Row{Table: "space", Case: "160 K", Contestant: "zonemap", Rows: 160_000, Value: 9.421},
			0, 9.44, true, true},
		{Row{Table: "space", Case: "1.6 M", Contestant: "zonemap", Rows: 1_600_000, Value: 9.03},
			0, 9.02, true, false},
		{Row{Table: "engine", Case: "100 K keys, in 500 K", Contestant: "pebble", Rows: 500_000,
			Ratio: 2}, 0, 0, false, true},
		{Row{Table: "engine", Case: "1 M keys, in 10 M", Contestant: "pebble", Rows: 10_000_000,
			Ratio: 2}, 3, 0, true, false},
	} {
		r := c.row
		r.WantRatio = 99 // of another program
		r.judge()
		if r.WantRatio != c.ratio || r.WantValue != c.value || r.hasAim() != c.hasAim ||
			r.Reached() != c.reach {
			t.Errorf("%+v: aim %v, reached %v; want %v %v, %v", r, r.hasAim(), r.Reached(), c.ratio,
				c.value, c.reach)
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

// TestPageWithoutVerdicts: a figure without an aim is in its table, and not among the aims.
func TestPageWithoutVerdicts(t *testing.T) {
	var text appender
	row := Row{Table: "memory", Case: "16 M in 10, unsorted data, unsorted questions",
		Contestant: "batch", Rows: 16_000_000, Ratio: 5, Value: 20, Unit: "ns/key"}
	row.judge()
	Markdown(&text, report.Meta{}, []Row{row})
	page := string(text)
	if strings.Contains(page, "missed") || strings.Contains(page, "reached") ||
		!strings.Contains(page, "unsorted questions | batch | 20 ns/key | 5.00 |") ||
		!strings.Contains(page, "There are none for a run of this size") {
		t.Errorf("%s", page)
	}
}
