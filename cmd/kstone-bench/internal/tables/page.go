package tables

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Kind is the page of tables.
var Kind = report.Kind{
	Tables: []string{groupReads, groupInserts, groupOwn, groupSpans, groupShards},
	Notes:  "set-up", Checks: checks, Body: body,
}

// The figures of how the entries of an index lie in the 256 stripes of the database.
const (
	stripesUsed  = "stripes_used"
	stripeMin    = "stripe_min"
	stripeMedian = "stripe_median"
	stripeMax    = "stripe_max"
	stripeShare  = "busiest_share" // of the busiest stripe in all entries
)

// The targets: ahead of every peer in every row, a prepared query by primary key within
// maxOverhead of reading and decoding, spans below maxSpanNS.
const (
	maxOverhead = 1.3
	maxSpanNS   = 1000
)

var opTime = report.Figure{Name: "time", Unit: " ns", Of: func(r result.Record) float64 {
	return 1e9 / r.Figures[result.PerSecond]
}}

func checks(t *report.Table) (out []report.Check, remark string) {
	for _, group := range []string{groupReads, groupInserts} {
		for _, row := range t.In(group) {
			if len(t.EnginesIn([]report.Row{row})) > 1 {
				out = append(out, t.Check(report.Ahead(group, row)))
			}
		}
	}
	for _, row := range t.In(groupOwn) {
		out = append(out, t.Check(report.Target{Name: groupOwn, Row: row, Engine: ownPrepared,
			Figure: opTime, Peer: ownRaw, Bound: maxOverhead}))
	}
	for _, row := range t.In(groupSpans) {
		if row.Case != spansLong {
			out = append(out, t.Check(report.Target{Name: groupSpans, Row: row, Figure: opTime,
				Bound: maxSpanNS, Strict: true}))
		}
	}
	return out, ""
}

func body(p *report.Page) {
	reads, inserts := p.In(groupReads), p.In(groupInserts)
	peers := p.Peers(p.EnginesIn(reads))
	p.ByPeers("tables-ratio.svg", "Tables: kstone by each of the others",
		[]report.Group{{Title: "Reads", Rows: reads}, {Title: "Insertion", Rows: inserts}}, peers)
	p.Printf("## Reads\n\nOperations a second; whole answers are copied into structs. A range " +
		"has 20 rows, in the order of the index.\n\n")
	speeds(p, "tables-reads.svg", "Tables: thousand reads a second", reads)
	prepared(p, reads)
	p.Printf("Objects allocated by Go for an operation, one goroutine:\n\n")
	single := slices.DeleteFunc(slices.Clone(reads), func(r report.Row) bool {
		return r.Goroutines > 1
	})
	p.Matrix(single, p.EnginesIn(single), objects.Of)
	p.Printf("## Insertion\n\nRows a second, one goroutine, after the rows that are loaded " +
		"(where commits are synced, a tenth of them). One index is over `at`, which is random; " +
		"three are that, a unique one over a random text, and one over another random number.\n\n")
	speeds(p, "tables-inserts.svg", "Tables: thousand rows inserted a second", inserts)
	own(p)
	shards(p)
}

// speeds writes operations a second and kstone's ratio to those of the others.
func speeds(p *report.Page, file, title string, rows []report.Row) {
	engines := p.EnginesIn(rows)
	p.Bars(file, title, "Longer is better. Each panel has its own scale. ×2: two goroutines.",
		rows, engines, thousands)
	p.Matrix(rows, engines, func(c report.Cell, r result.Record) string {
		text := speed(c, r)
		if ratio, ok := p.Ratio(c.Row, c.Engine); ok && c.Engine != result.Subject {
			text += fmt.Sprintf(" (%s×)", report.Number(ratio.Value))
		}
		return text
	})
	p.Printf("In parentheses: how many times as fast kstone is.\n\n")
}

var thousands = report.Plain("", "", report.Key(result.PerSecond, 1e-3))

func speed(_ report.Cell, r result.Record) string {
	v := r.Figures[result.PerSecond]
	if v >= 1000 {
		return report.Number(v/1000) + " k"
	}
	return report.Number(v)
}

// objects is a column of allocations.
var objects = report.Column{Head: "objects", Of: func(_ report.Cell, r result.Record) string {
	return strconv.FormatFloat(math.Round(r.Figures[result.Allocs]*10)/10, 'f', -1, 64)
}}

// prepared compares prepared queries with others, of engines that have them.
func prepared(p *report.Page, rows []report.Row) {
	p.Printf("Prepared beside not prepared, point get by primary key:\n\n")
	var compared []report.Row
	for _, r := range rows {
		if r.Case == casePrepared {
			compared = append(compared, r)
		}
	}
	p.Matrix(compared, p.EnginesIn(compared), func(c report.Cell, _ result.Record) string {
		once := c
		once.Row.Case = caseUnprepared
		ratio, _ := p.Quotient(report.Speed.Of, c, once)
		return report.Number(ratio.Value) + "×"
	})
}

// own writes what is compared within kstone.
func own(p *report.Page) {
	time := report.Column{Head: "ns", Of: func(_ report.Cell, r result.Record) string {
		return report.Number(opTime.Of(r))
	}}
	p.Printf("## What a query costs beside reading\n\nA point get by primary key. `" + ownRaw +
		"` builds the key, reads it with the engine, and decodes the row.\n\n")
	p.List(p.In(groupOwn), time, times(p, "× "+ownRaw, opTime.Of, ownRaw), objects)
	p.Printf("## Spans\n\nThe time from parameters to sorted, disjoint spans over an index " +
		"(a, b).\n\n")
	p.List(p.In(groupSpans), time, objects)
}

// times is a column of ratios to one of the engines.
func times(p *report.Page, head string, of func(result.Record) float64, to string) report.Column {
	return report.Column{Head: head, Of: func(c report.Cell, _ result.Record) string {
		ratio, _ := p.Quotient(of, c, report.Cell{Row: c.Row, Engine: to})
		return report.Number(ratio.Value)
	}}
}

// shards writes the speed and the spread of ascending values.
func shards(p *report.Page) {
	rows := p.In(groupShards)
	p.Printf("## Ascending values in sharded indexes\n\nEight goroutines insert rows with random " +
		"keys and ascending values in the one index. Entries are counted in each of the 256 " +
		"stripes after the insertion.\n\n")
	figures := []struct{ title, key string }{
		{"stripes used", stripesUsed}, {"entries, fewest", stripeMin}, {"median", stripeMedian},
		{"most", stripeMax}, {"busiest share", stripeShare},
	}
	columns := []report.Column{{Head: "rows/s", Of: speed},
		times(p, "× "+shardEngine(0), report.Speed.Of, shardEngine(0))}
	panels := []report.Panel{thousands}
	for _, f := range figures {
		columns = append(columns, report.Text(f.title, "%.6g", f.key))
		panels = append(panels, report.Panel{Title: ", " + f.title,
			Of: func(r result.Record) chart.Bar {
				v := r.Figures[f.key]
				return chart.Bar{Value: v, Label: fmt.Sprintf("%.6g", v)}
			}})
	}
	p.Bars("tables-shards.svg", "Ascending values in plain and sharded indexes", "Thousand rows a "+
		"second (longer is better), entries by stripe, and the share of the busiest stripe "+
		"(shorter is better).", rows, p.EnginesIn(rows), panels...)
	p.List(rows, columns...)
}
