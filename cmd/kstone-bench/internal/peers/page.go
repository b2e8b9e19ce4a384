package peers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// body writes for every group throughput with ratios, processor time, latencies and bytes.
func body(p *report.Page) {
	ratios(p)
	for _, g := range groups {
		if rows := p.In(g.name); len(rows) > 0 {
			(&part{p, g, rows}).write()
		}
	}
}

// ratios writes the chart of all ratios and their means.
func ratios(p *report.Page) {
	p.Printf("## All ratios\n\n")
	var sections []report.Group
	for _, g := range groups {
		sections = append(sections, report.Group{Title: g.title, Rows: p.In(g.name)})
	}
	peers := p.Peers(p.Engines)
	p.ByPeers("ratio.svg", "kstone by each of the others", sections, peers)
	var lines [][]string
	for _, e := range peers {
		if mean, n := p.GeometricMean(p.Rows, e); n > 0 {
			lines = append(lines, []string{e, fmt.Sprint(n), report.Number(mean)})
		}
	}
	p.Lines([]string{"peer", "rows", "geometric mean of kstone ÷ peer"}, lines)
}

// part is a group on the page.
type part struct {
	*report.Page
	group
	rows []report.Row
}

func (s *part) write() {
	s.Printf("## %s\n\n%s\n\n", s.title, s.about)
	what := "Thousand operations (rows, for scans) a second; kstone ÷ peer"
	if s.times {
		what = "Milliseconds; speed of kstone ÷ peer"
	}
	title, note := "thousand operations a second", "Longer is better. Each panel has its own scale."
	if s.name == "scan" {
		title = "thousand queries or rows of a scan a second"
	}
	if s.times {
		title, note = "milliseconds to the first read", "Shorter is better."
	}
	s.Bars("speed-"+s.name+".svg", s.title+": "+title, note, s.rows, s.Engines,
		report.Plain("", "", s.speed))
	s.Printf("%s:\n\n", what)
	s.Matrix(s.rows, s.Engines, report.Numbers(s.speed), s.quotients()...)
	s.processor()
	if !s.times {
		s.Fold("Latency in µs: p50 / p99 / p99.9 / longest of all rounds", func() {
			s.latencyChart()
			s.Matrix(s.rows, s.Engines, report.Numbers(report.Key(result.P50, 1),
				report.Key(result.P99, 1), report.Key(result.P999, 1), report.Key(result.Max, 1)))
		})
		s.Fold("Bytes written by bytes given / bytes on disk by live bytes / peak RSS in MiB",
			func() {
				s.Bars("space-"+s.name+".svg", s.title+": bytes written, bytes on disk, memory",
					"Shorter is better. Written by what was given; on disk by what is live, when "+
						"background work is done.", s.rows, s.Engines,
					report.Plain(", written", "×", writeAmplification),
					report.Plain(", on disk", "×", spaceAmplification),
					report.Plain(", peak RSS", " MiB", func(r result.Record) float64 {
						if r.Figures[result.UserBytes] == 0 {
							return 0 // no write
						}
						return rssMiB(r)
					}))
				s.Matrix(s.rows, s.Engines,
					report.Numbers(writeAmplification, spaceAmplification, rssMiB))
			})
	}
	s.extras()
}

// quotients are the columns of ratios to each peer and to the best.
func (s *part) quotients() []report.Column {
	return append(s.Quotients("÷ "), report.Column{Head: "÷ best",
		Of: func(c report.Cell, _ result.Record) string {
			if _, r, ok := s.Best(c.Row); ok {
				return "**" + report.Number(r.Value) + "**"
			}
			return "–"
		}})
}

func (s *part) processor() {
	unit, scale := "ns an operation, in brackets until background work is done", 1.0
	if s.times {
		unit, scale = "ms", 1e-6
	}
	s.Fold("Processor time in "+unit, func() {
		engines := s.withHarness(s.rows...)
		if !s.times {
			s.Bars("cpu-"+s.name+".svg", s.title+": processor time in microseconds an operation",
				"Shorter is better. The lighter part is work in the background that goes on when "+
					"the workload has ended.", s.rows, engines, report.Panel{Of: cpuBar})
		}
		s.Matrix(s.rows, engines,
			func(_ report.Cell, r result.Record) string {
				text := report.Number(r.Figures[result.CPU] * scale)
				if settled := r.Figures[result.SettledCPU]; settled > 0 {
					text += fmt.Sprintf(" (%s)", report.Number(settled))
				}
				return text
			})
	})
}

func cpuBar(r result.Record) chart.Bar {
	during := r.Figures[result.CPU] / 1e3
	all := max(during, r.Figures[result.SettledCPU]/1e3)
	return chart.Bar{Value: during, More: all - during, Label: report.Number(all)}
}

func (s *part) latencyChart() {
	c := &chart.Ranges{
		Title: s.title + ": latency",
		Note:  "Further left is better; logarithmic. The longest is that of all rounds.",
	}
	for _, row := range s.rows {
		p := chart.RangePanel{Title: s.Label(row)}
		for _, e := range s.Engines {
			r, _ := s.Median(report.Cell{Row: row, Engine: e})
			if f := r.Figures; f[result.Max] > 0 {
				p.Rows = append(p.Rows, chart.Range{Engine: e, P50: f[result.P50],
					P99: f[result.P99], P999: f[result.P999], Max: f[result.Max]})
			}
		}
		if len(p.Rows) > 0 {
			c.Panels = append(c.Panels, p)
		}
	}
	if len(c.Panels) > 0 {
		s.Picture("latency-"+s.name+".svg", c.Title, c.SVG())
	}
}

// withHarness returns the engines, and the harness if it has records in a row.
func (s *part) withHarness(rows ...report.Row) []string {
	for _, r := range rows {
		if s.Has(report.Cell{Row: r, Engine: result.Harness}) {
			return append(slices.Clone(s.Engines), result.Harness)
		}
	}
	return s.Engines
}

// known are the figures that have tables of their own.
var known = []string{result.Ops, result.Seconds, result.PerSecond, result.CPU, result.SettledCPU,
	result.P50, result.P99, result.P999, result.Max, result.UserBytes, result.WrittenBytes,
	result.RestSeconds, result.RestBytes, result.DiskBytes, result.LiveBytes, result.PeakRSSBytes,
	"peak_anon_bytes"} // of earlier versions

// extras lists the figures of single workloads.
func (s *part) extras() {
	var lines [][]string
	for _, row := range s.rows {
		names := map[string]bool{}
		for _, e := range s.withHarness(row) {
			m, _ := s.Median(report.Cell{Row: row, Engine: e})
			for name := range m.Figures {
				names[name] = !slices.Contains(known, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !names[name] {
				continue
			}
			line := []string{s.Label(row) + ": " + strings.ReplaceAll(name, "_", " ")}
			for _, e := range s.Engines {
				text := "–"
				m, _ := s.Median(report.Cell{Row: row, Engine: e})
				if v, ok := m.Figures[name]; ok {
					text = fmt.Sprintf("%.0f", v)
				}
				line = append(line, text)
			}
			lines = append(lines, line)
		}
	}
	s.Lines(append([]string{"also"}, s.Engines...), lines)
}

var (
	writeAmplification = report.By(result.WrittenBytes, result.UserBytes)
	spaceAmplification = report.By(result.DiskBytes, result.LiveBytes)
	rssMiB             = report.Key(result.PeakRSSBytes, 1./(1<<20))
)
