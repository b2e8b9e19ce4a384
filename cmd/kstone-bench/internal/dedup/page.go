package dedup

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Figures of a record. One of the units is there, the median over the rounds.
const (
	nsPerKey   = "ns/key"
	bitsPerKey = "bits/key"
	millis     = "ms"
	percent    = "%"

	figRows     = "rows"
	figRatio    = "ratio"    // that of the first contestant by this one's: the median of the rounds
	figPositive = "positive" // share of the keys called present
	figStudy    = "study"    // what the study says
)

func unitOf(r result.Record) string {
	for _, unit := range []string{nsPerKey, bitsPerKey, millis, percent} {
		if _, ok := r.Figures[unit]; ok {
			return unit
		}
	}
	return ""
}

// Kind is the page.
var Kind = report.Kind{Tables: order, Checks: checks, Body: body}

// about says what each table compares.
var about = map[string]string{
	"build": "Building one filter. The first three are processor time of the thread; the last " +
		"two are wall time of two segments of this size, with one goroutine and with two.",
	"space": "The size of a filter with 8 bits.",
	"memory": "A filter for each segment. `loop` is the study's way: segment by segment, zone " +
		"map, filter of the library. `single` and `batch` are `Set.Contains` and " +
		"`Set.ContainsBatch`; `batch, blocks` has a filter for each block.",
	"blocks": "A filter for each of 40 blocks of a segment, which is sorted. `loop` searches the " +
		"zone maps of each segment.",
	"stripes": "Four segments of 256 shards, against the loop over 10 segments.",
	"exact":   "Positives are checked against stored keys; those of the loop are not checked.",
	"16 bits": "Fingerprints of 16 bits, against the loop with 8.",
	"growth":  "The same data in more segments that do not overlap; the ratio is to 10 segments.",
	"dense":   "Integers without gaps need no filter, with gaps a bitmap.",
	"open":    "Opening a saved filter.",
	"engine": "Which keys are new, asked of whole databases with the same records, durability, " +
		"write buffer and cache: `FilterNew` of kstone, a loop of reads of Pebble, batched reads " +
		"of RocksDB where it is compiled in. The ratio is to kstone: how many times as long. " +
		"Processor time is that of the process.",
}

var order = []string{"build", "space", "memory", "blocks", "stripes", "exact", "16 bits", "growth",
	"dense", "open", "engine"}

// body writes the chart of ratios and the tables.
func body(p *report.Page) {
	var groups []report.Group
	for _, table := range order {
		groups = append(groups, report.Group{Title: table, Rows: p.In(table)})
	}
	p.Ratios("dedup.svg", "How many times as fast as the loop over segments",
		"Processor time a key; 1 is the loop", groups, []string{"single", "batch"},
		func(row report.Row, contestant string) (float64, bool) {
			m, ok := p.Median(report.Cell{Row: row, Engine: contestant})
			return m.Figures[figRatio], ok
		})
	for _, table := range order {
		p.Printf("## Table: %s\n\n%s\n\n", table, about[table])
		p.List(p.In(table),
			report.Column{Head: "measured", Of: func(_ report.Cell, r result.Record) string {
				return fmt.Sprintf("%.4g %s", r.Figures[unitOf(r)], unitOf(r))
			}},
			report.Value("ratio", figRatio, 1),
			report.Column{Head: "called present", Of: func(_ report.Cell, r result.Record) string {
				if v := r.Figures[figPositive]; v > 0 {
					return fmt.Sprintf("%.4g %%", 100*v)
				}
				return "–"
			}},
			report.Value("the study", figStudy, 1))
	}
}
