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

// Panel is a row in a chart of bars: what Of makes of the medians of each engine.
type Panel struct {
	Title   string
	Row     Row
	Engines []string
	Of      func(result.Record) chart.Bar
}

// Bars shows a chart; panels without figures are left out, and so is one without panels.
func (p *Page) Bars(file, title, note string, panels []Panel) {
	c := &chart.Bars{Title: title, Note: note}
	for _, panel := range panels {
		bars := chart.BarPanel{Title: panel.Title}
		for _, e := range panel.Engines {
			b := chart.Bar{Label: "–"}
			if r, ok := p.Median(Cell{panel.Row, e}); ok {
				b = panel.Of(r)
			}
			b.Engine = e
			bars.Bars = append(bars.Bars, b)
		}
		if slices.ContainsFunc(bars.Bars, func(b chart.Bar) bool { return b.Value+b.More > 0 }) {
			c.Panels = append(c.Panels, bars)
		}
	}
	if len(c.Panels) > 0 {
		p.Picture(file, title, c.SVG())
	}
}

// Bar is a bar of one value.
func Bar(v float64) chart.Bar { return chart.Bar{Value: v, Label: Number(v)} }

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
