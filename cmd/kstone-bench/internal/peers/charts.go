package peers

import (
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// bars shows a chart with a panel for each row.
func (s *part) bars(kind, title, note string, of func(result.Record) chart.Bar) {
	var panels []report.Panel
	for _, row := range s.rows {
		engines := s.Engines
		if kind == "cpu" {
			engines = s.withHarness(row)
		}
		panels = append(panels, report.Panel{Title: s.Label(row), Row: row, Engines: engines,
			Of: of})
	}
	s.Bars(kind+"-"+s.name+".svg", s.title+": "+title, note, panels)
}

func (s *part) speedChart() {
	title, note := "thousand operations a second", "Longer is better. Each panel has its own scale."
	if s.name == "scan" {
		title = "thousand queries or rows of a scan a second"
	}
	if s.times {
		title, note = "milliseconds to the first read", "Shorter is better."
	}
	s.bars("speed", title, note, func(r result.Record) chart.Bar { return report.Bar(s.speed(r)) })
}

func (s *part) cpuChart() {
	if s.times {
		return
	}
	s.bars("cpu", "processor time in microseconds an operation", "Shorter is better. The lighter "+
		"part is work in the background that goes on when the workload has ended.",
		func(r result.Record) chart.Bar {
			during := r.Figures[result.CPU] / 1e3
			all := max(during, r.Figures[result.SettledCPU]/1e3)
			return chart.Bar{Value: during, More: all - during, Label: report.Number(all)}
		})
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

// spaceChart has three panels for every workload that writes.
func (s *part) spaceChart() {
	var panels []report.Panel
	for _, row := range s.rows {
		for _, kind := range []struct {
			name string
			of   func(result.Record) float64
			unit string
		}{
			{"written", writeAmplification, "×"},
			{"on disk", spaceAmplification, "×"},
			{"peak RSS", rssMiB, " MiB"},
		} {
			panels = append(panels, report.Panel{Title: s.Label(row) + ", " + kind.name, Row: row,
				Engines: s.Engines, Of: func(r result.Record) chart.Bar {
					if r.Figures[result.UserBytes] == 0 {
						return chart.Bar{}
					}
					b := report.Bar(kind.of(r))
					if b.Value > 0 {
						b.Label += kind.unit
					}
					return b
				}})
		}
	}
	s.Bars("space-"+s.name+".svg", s.title+": bytes written, bytes on disk, memory",
		"Shorter is better. Written by what was given; on disk by what is live, when background "+
			"work is done.", panels)
}
