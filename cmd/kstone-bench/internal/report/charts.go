package report

import (
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Picture links a chart, which gets a file of its own, if the page has charts.
func (p *Page) Picture(file, title string, svg []byte) {
	if p.links != "" {
		p.pictures[file] = svg
		p.Printf("![%s](%s/%s)\n\n", title, p.links, file)
	}
}

// Panel is what a chart of bars has for each row: a figure of the medians of each engine.
type Panel struct {
	Title string // after the name of the row
	Of    func(result.Record) chart.Bar
}

// Bars shows a chart; panels without figures are left out, and so is one without panels.
func (p *Page) Bars(file, title, note string, rows []Row, engines []string, panels ...Panel) {
	c := &chart.Bars{Title: title, Note: note}
	for _, row := range rows {
		for _, panel := range panels {
			bars := chart.BarPanel{Title: p.Label(row) + panel.Title}
			for _, e := range engines {
				b := chart.Bar{Label: "–"}
				if r, ok := p.Median(Cell{row, e}); ok {
					b = panel.Of(r)
				} else if e == result.Harness {
					continue
				}
				b.Engine = e
				bars.Bars = append(bars.Bars, b)
			}
			if slices.ContainsFunc(bars.Bars, func(b chart.Bar) bool {
				return b.Value+b.More > 0
			}) {
				c.Panels = append(c.Panels, bars)
			}
		}
	}
	if len(c.Panels) > 0 {
		p.Picture(file, title, c.SVG())
	}
}

// Plain is a panel of one value with a unit.
func Plain(title, unit string, of func(result.Record) float64) Panel {
	return Panel{title, func(r result.Record) chart.Bar {
		b := chart.Bar{Value: of(r), Label: Number(of(r))}
		if b.Value > 0 {
			b.Label += unit
		}
		return b
	}}
}

// Group is a heading in a chart of ratios with its rows.
type Group struct {
	Title string
	Rows  []Row
}

// Ratios shows a chart of ratios to peers; rows without any are left out.
func (p *Page) Ratios(file, title, note string, groups []Group, peers []string,
	ratio func(row Row, peer string) (float64, bool)) {
	c := &chart.Ratios{Title: title, Note: note, Peers: peers}
	for _, g := range groups {
		var rows []chart.RatioRow
		for _, row := range g.Rows {
			values := map[string]float64{}
			for _, peer := range peers {
				if v, ok := ratio(row, peer); ok {
					values[peer] = v
				}
			}
			if len(values) > 0 {
				rows = append(rows, chart.RatioRow{Name: p.Label(row), Values: values})
			}
		}
		if len(rows) > 0 {
			c.Rows = append(append(c.Rows, chart.RatioRow{Name: g.Title}), rows...)
		}
	}
	if len(c.Rows) > 0 {
		p.Picture(file, title, c.SVG())
	}
}

// ByPeers shows kstone's throughput by that of the peers.
func (p *Page) ByPeers(file, title string, groups []Group, peers []string) {
	p.Ratios(file, title, "Right of the line kstone is faster. Medians of ratios within a round; "+
		"logarithmic.", groups, peers, func(row Row, peer string) (float64, bool) {
		r, ok := p.Ratio(row, peer)
		return r.Value, ok
	})
}
