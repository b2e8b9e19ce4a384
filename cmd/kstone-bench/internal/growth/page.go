// Package growth reports how figures of databases change as the data grows.
package growth

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Chains are the chains of workloads that the page shows.
func Chains() []string { return []string{chain, "cold", "cold16"} }

const (
	chain = "growth"
	cold  = "cold" // the section of chains with a small cache
)

// Kind is the page.
var Kind = report.Kind{Tables: Chains(), Section: section, Notes: "an unsynced write survives",
	Checks: checks, Body: body}

func section(r report.Row) string {
	if r.Table == chain {
		return chain
	}
	return cold
}

// curve is a figure of a workload of the chain.
type curve struct {
	title, workload string
	of              func(result.Record) float64
	more            bool // is better
}

var (
	rest    = report.By(result.RestBytes, result.UserBytes)
	written = report.By(result.WrittenBytes, result.UserBytes)
	disk    = report.By(result.DiskBytes, result.LiveBytes)
)

var curves = []curve{
	{"load, thousand/s", "load", report.Key(result.PerSecond, 1e-3), true},
	{"merge debt, seconds", "load", report.Key(result.RestSeconds, 1), false},
	{"merge debt, bytes by bytes given", "load", rest, false},
	{"bytes written by bytes given", "load", written, false},
	{"bytes on disk by live bytes", "load", disk, false},
	{"memory of the load, MiB", "load", report.Key(result.PeakRSSBytes, 1./(1<<20)), false},
	{"random reads, thousand/s", "readrandom", report.Key(result.PerSecond, 1e-3), true},
	{"absent keys, thousand/s", "readmissing", report.Key(result.PerSecond, 1e-3), true},
	{"queries of 20, thousand/s", "query", report.Key(result.PerSecond, 1e-3), true},
	{"ordered scan, million rows/s", "readseq", report.Key(result.PerSecond, 1e-6), true},
	{"memory of reads, MiB", "readrandom", report.Key(result.PeakRSSBytes, 1./(1<<20)), false},
	{"opening, ms", "reopen-clean", report.Key(result.Seconds, 1e3), false},
}

// at returns a figure of an engine at a size, or 0.
func (c *curve) at(t *report.Table, engine string, size result.Size) float64 {
	row := report.Row{Table: chain, Case: c.workload, Goroutines: 1, Size: size}
	m, _ := t.Median(report.Cell{Row: row, Engine: engine})
	return c.of(m)
}

// sizes lists the sizes of the chain's data, ascending, with values of so many bytes; 0 is any.
func sizes(t *report.Table, valueBytes int) (all []result.Size) {
	for _, r := range t.In(chain) {
		s := r.Size
		if !slices.Contains(all, s) && (valueBytes == 0 || valueBytes == s.ValueBytes) {
			all = append(all, s)
		}
	}
	return all
}

// body writes a chart for each size of values, a table for each size of data, and the rows with a
// small cache.
func body(p *report.Page) {
	p.Printf("## Curves\n\n")
	all := sizes(p.Table, 0)
	var drawn []int
	for _, s := range all {
		if !slices.Contains(drawn, s.ValueBytes) {
			drawn = append(drawn, s.ValueBytes)
			draw(p, s.ValueBytes)
		}
	}
	engines := p.EnginesIn(p.In(chain))
	for _, s := range all {
		var lines [][]string
		for _, c := range curves {
			line := []string{c.title}
			for _, e := range engines {
				line = append(line, report.Number(c.at(p.Table, e, s)))
			}
			lines = append(lines, line)
		}
		p.Printf("### %s\n\n", s)
		p.Lines(append([]string{"figure"}, engines...), lines)
	}
	rows := slices.DeleteFunc(p.In(cold), func(r report.Row) bool { return r.Case == "load" })
	if len(rows) == 0 {
		return
	}
	p.Printf("## Data 4 and 16 × the block cache\n\nThousand a second.\n\n")
	p.Matrix(rows, p.EnginesIn(rows), report.Numbers(report.Key(result.PerSecond, 1e-3)))
}

// draw shows the curves of values of a size, if there is more than a point of them.
func draw(p *report.Page, valueBytes int) {
	all := sizes(p.Table, valueBytes)
	if len(all) < 2 {
		return
	}
	c := &chart.Lines{Title: fmt.Sprintf("From %s to %s", all[0], all[len(all)-1]),
		Note: "Both axes are logarithmic. Higher is better for what is by second, lower elsewhere.",
		Name: func(x float64) string { return result.Count(uint64(x)) }}
	for i := range curves {
		panel := chart.LinePanel{Title: curves[i].title}
		for _, e := range p.EnginesIn(p.In(chain)) {
			line := chart.Line{Engine: e}
			for _, s := range all {
				if y := curves[i].at(p.Table, e, s); y > 0 {
					line.Points = append(line.Points, chart.Point{X: float64(s.Records), Y: y})
				}
			}
			if len(line.Points) > 0 {
				panel.Lines = append(panel.Lines, line)
			}
		}
		c.Panels = append(c.Panels, panel)
	}
	p.Picture(fmt.Sprintf("growth-%d.svg", valueBytes), c.Title, c.SVG())
}
