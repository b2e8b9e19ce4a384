package dedup

import (
	"math"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// An aim is what a contestant should reach in a case, in runs of a certain size. How far a
// way of asking is ahead depends on the size: the filters of a million rows fit into the
// caches of a processor, where the loop over segments hardly waits; those of 64 million do
// not. A figure of a size that no aim is for is shown without a verdict.
type aim struct {
	table, contestant string
	name              string // how the case ends, after its size; "" for every case
	rows              span
	ratio, value      float64 // the least ratio, the largest value; 0 for none
}

// span is a range of rows, half-open.
type span struct{ from, to int }

var (
	// studied is from the size of the study on, whose aims are those of the specification.
	studied = span{64_000_000, math.MaxInt}
	// small is about the size of a quick run. Its aims are about two thirds of what two runs
	// of a million rows have measured on a busy machine.
	small = span{500_000, 4_000_000}
	// anySize is for what does not depend on the size.
	anySize = span{500_000, math.MaxInt}
	// databases is from the size on that databases are compared with.
	databases = span{10_000_000, math.MaxInt}
)

var aims = slices.Concat([]aim{
	{table: "build", contestant: "zonemap, reused", rows: span{160_000, 1_600_000}, ratio: 1.2},
	{table: "build", contestant: "zonemap, reused", rows: span{1_600_000, math.MaxInt}, value: 55},
	{table: "build", contestant: "two at a time", rows: span{1_600_000, math.MaxInt}, ratio: 1.6},
	{table: "space", contestant: "zonemap", rows: span{160_000, 500_000}, value: 9.44},
	{table: "space", contestant: "zonemap", rows: span{500_000, 1_600_000}, value: 9.23},
	{table: "space", contestant: "zonemap", rows: span{1_600_000, math.MaxInt}, value: 9.02},
	{table: "16 bits", name: "space", contestant: "zonemap", rows: studied, value: 18.1},
	// The expected 0.0015 % and four standard deviations, of 10 and of 1.3 million keys.
	{table: "16 bits", name: "false positives of a segment", contestant: "zonemap",
		rows: studied, value: 0.002},
	{table: "16 bits", name: "false positives of a segment", contestant: "zonemap",
		rows: small, value: 0.003},
	{table: "growth", contestant: "20 segments", rows: anySize, ratio: 1 / 1.2},
	{table: "growth", contestant: "30 segments", rows: anySize, ratio: 1 / 1.2},
	{table: "open", contestant: "mapped", rows: anySize, value: 0.1},
	{table: "engine", contestant: "pebble", rows: databases, ratio: 3},
	{table: "engine", contestant: "rocksdb", rows: databases, ratio: 3},
	// In a small run the loop, which checks nothing, is ahead of what checks every key.
	{table: "exact", name: "unsorted questions", contestant: "batch", rows: studied, ratio: 1.5},
},
	lookups("batch, blocks", "memory", "in 10, sorted data, sorted questions", 2, 0.9, 0),
	lookups("single", "memory", "in 10, sorted data, unsorted questions", 1, 1, 49),
	lookups("batch", "memory", "in 10, sorted data, unsorted questions", 2.5, 1.1, 0),
	lookups("batch", "memory", "in 10, unsorted data, sorted questions", 8, 2.5, 0),
	lookups("batch", "memory", "in 10, unsorted data, unsorted questions", 8, 2.5, 0),
	lookups("batch", "memory", "in 10, unsorted data, absent keys inside the zones", 12, 3.5, 0),
	lookups("batch", "stripes", "absent keys inside the zones", 8, 1.4, 0),
	lookups("batch", "stripes", "90 % new", 8, 1.3, 0),
	lookups("batch", "exact", "absent keys inside the zones", 6, 1.7, 0),
	lookups("batch", "exact", "90 % new", 5, 1.3, 0),
	outsideZones("single", "sorted"), outsideZones("batch", "sorted"),
	outsideZones("single", "unsorted"), outsideZones("batch", "unsorted"),
)

// lookups are the aims of a case at the size of the study and at that of a quick run.
func lookups(contestant, table, name string, ratioStudied, ratioSmall, value float64) []aim {
	a := aim{table: table, contestant: contestant, name: name, rows: studied, ratio: ratioStudied,
		value: value}
	b := a
	b.rows, b.ratio = small, ratioSmall
	return []aim{a, b}
}

// outsideZones is the aim of keys that zone maps exclude.
func outsideZones(contestant, data string) []aim {
	return []aim{{table: "memory", contestant: contestant, rows: anySize, value: 10,
		name: "in 10, " + data + " data, absent keys outside the zones"}}
}

// checks compares the rows that there is an aim for with it.
func checks(t *report.Table) (out []report.Check, remark string) {
	for _, row := range t.Rows {
		for _, contestant := range t.EnginesIn([]report.Row{row}) {
			m, _ := t.Median(report.Cell{Row: row, Engine: contestant})
			a := aimOf(m)
			want := report.Target{Name: row.Table, Row: row, Engine: contestant}
			if a.ratio > 0 {
				want.Figure, want.Bound, want.Above = ratioFigure, a.ratio, true
				out = append(out, t.Check(want))
			}
			if a.value > 0 {
				unit := unitOf(m)
				want.Figure = report.Figure{Name: "value", Unit: " " + unit,
					Of: report.Key(unit, 1)}
				want.Bound, want.Above = a.value, false
				out = append(out, t.Check(want))
			}
		}
	}
	if len(out) == 0 {
		return nil, "There are none for a run of this size."
	}
	return out, "Figures that have no target for their size are in the tables only."
}

var ratioFigure = report.Figure{Name: "ratio", Unit: " ×", Of: report.Key(figRatio, 1)}

// aimOf returns the aim for a record, or the zero aim.
func aimOf(r result.Record) aim {
	rows := int(r.Figures[figRows])
	for _, a := range aims {
		if a.table == r.Table && a.contestant == r.Engine && strings.HasSuffix(r.Case, a.name) &&
			a.rows.from <= rows && rows < a.rows.to {
			return a
		}
	}
	return aim{}
}
