package report

import (
	"os"
	"path/filepath"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// picture is a chart of a report; alt says what it shows.
type picture struct {
	file, alt string
	svg       []byte
}

// Charts writes the charts of a table into a directory.
func Charts(dir string, t *Table) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all := t.ratioCharts()
	for _, g := range groups {
		all = append(all, t.groupCharts(g)...)
	}
	for _, p := range all {
		if err := os.WriteFile(filepath.Join(dir, p.file), p.svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// groupCharts makes the charts of one group; those without figures are left out.
func (t *Table) groupCharts(g group) []picture {
	var out []picture
	for _, p := range []*picture{
		t.speedChart(g), t.cpuChart(g), t.latencyChart(g), t.spaceChart(g),
	} {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out
}

// bars makes a panel of what f tells of every engine; empty if it tells nothing.
func (t *Table) bars(row Row, title string, engines []string,
	f func(workload.Result) chart.Bar) (chart.BarPanel, bool) {
	p, some := chart.BarPanel{Title: title}, false
	for _, e := range engines {
		b := chart.Bar{Label: "–"}
		if r, ok := t.Cell(row, e); ok {
			b = f(r)
		}
		b.Engine = e
		some = some || b.Value+b.More > 0
		p.Bars = append(p.Bars, b)
	}
	return p, some
}

func (t *Table) speedChart(g group) *picture {
	c := &chart.Bars{
		Title: g.title + ": thousand operations a second",
		Note:  "Longer is better. Each panel has its own scale.",
	}
	if g.name == "scan" {
		c.Title = g.title + ": thousand queries or rows of a scan a second"
	}
	if g.times {
		c.Title, c.Note = g.title+": milliseconds to the first read", "Shorter is better."
	}
	for _, row := range t.in(g) {
		p, ok := t.bars(row, t.label(row), t.Engines, func(r workload.Result) chart.Bar {
			v := g.speed(r)
			return chart.Bar{Value: v, Label: number(v)}
		})
		if ok {
			c.Panels = append(c.Panels, p)
		}
	}
	return barPicture(g, "speed", c)
}

func barPicture(g group, kind string, c *chart.Bars) *picture {
	if len(c.Panels) == 0 {
		return nil
	}
	return &picture{kind + "-" + g.name + ".svg", c.Title, c.SVG()}
}

// speed is the figure that a group is about.
func (g group) speed(r workload.Result) float64 {
	if g.times {
		return r.Seconds * 1e3
	}
	return r.PerSecond / 1e3
}

func (t *Table) cpuChart(g group) *picture {
	if g.times {
		return nil
	}
	c := &chart.Bars{
		Title: g.title + ": processor time in microseconds an operation",
		Note: "Shorter is better. The lighter part is work in the background that goes on when " +
			"the workload has ended.",
	}
	for _, row := range t.in(g) {
		engines := t.Engines
		if _, ok := t.Cell(row, store.Harness); ok {
			engines = append(engines[:len(engines):len(engines)], store.Harness)
		}
		p, ok := t.bars(row, t.label(row), engines, func(r workload.Result) chart.Bar {
			during, all := r.CPUNs/1e3, max(r.CPUNs, r.SettledCPUNs)/1e3
			return chart.Bar{Value: during, More: all - during, Label: number(all)}
		})
		if ok {
			c.Panels = append(c.Panels, p)
		}
	}
	return barPicture(g, "cpu", c)
}

func (t *Table) latencyChart(g group) *picture {
	if g.times {
		return nil
	}
	c := &chart.Ranges{
		Title: g.title + ": latency",
		Note:  "Further left is better; logarithmic. The longest is that of all rounds.",
	}
	for _, row := range t.in(g) {
		p := chart.RangePanel{Title: t.label(row)}
		for _, e := range t.Engines {
			if r, ok := t.Cell(row, e); ok && r.Max > 0 {
				p.Rows = append(p.Rows, chart.Range{
					Engine: e, P50: r.P50, P99: r.P99, P999: r.P999, Max: r.Max,
				})
			}
		}
		if len(p.Rows) > 0 {
			c.Panels = append(c.Panels, p)
		}
	}
	if len(c.Panels) == 0 {
		return nil
	}
	return &picture{"latency-" + g.name + ".svg", c.Title, c.SVG()}
}

// spaceChart has three panels for every workload that writes.
func (t *Table) spaceChart(g group) *picture {
	c := &chart.Bars{
		Title: g.title + ": bytes written, bytes on disk, memory",
		Note: "Shorter is better. Written by what was given; on disk by what is live, when " +
			"background work is done.",
	}
	for _, row := range t.in(g) {
		for _, kind := range []struct {
			name string
			of   func(workload.Result) float64
			unit string
		}{
			{"written", writeAmplification, "×"},
			{"on disk", spaceAmplification, "×"},
			{"peak RSS", rssMiB, " MiB"},
		} {
			title := t.label(row) + ", " + kind.name
			p, ok := t.bars(row, title, t.Engines, func(r workload.Result) chart.Bar {
				if r.UserBytes == 0 {
					return chart.Bar{}
				}
				b := chart.Bar{Value: kind.of(r), Label: number(kind.of(r))}
				if b.Value > 0 {
					b.Label += kind.unit
				}
				return b
			})
			if ok {
				c.Panels = append(c.Panels, p)
			}
		}
	}
	return barPicture(g, "space", c)
}

func writeAmplification(r workload.Result) float64 { return by(r.WrittenBytes, r.UserBytes) }
func spaceAmplification(r workload.Result) float64 { return by(r.DiskBytes, r.LiveBytes) }
func rssMiB(r workload.Result) float64             { return float64(r.PeakRSSBytes) / (1 << 20) }

func by(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func (t *Table) ratioCharts() []picture {
	c := &chart.Ratios{
		Title: "kstone by each of the others",
		Note:  "Right of the line kstone is faster. Medians of ratios within a round; logarithmic.",
		Peers: t.peers(),
	}
	for _, g := range groups {
		var rows []chart.RatioRow
		for _, row := range t.in(g) {
			values := map[string]float64{}
			for _, p := range c.Peers {
				if r, ok := t.Ratio(row, p); ok {
					values[p] = r.Value
				}
			}
			if len(values) > 0 {
				rows = append(rows, chart.RatioRow{Name: t.label(row), Values: values})
			}
		}
		if len(rows) > 0 {
			c.Rows = append(append(c.Rows, chart.RatioRow{Name: g.title}), rows...)
		}
	}
	if len(c.Rows) == 0 {
		return nil
	}
	return []picture{{"ratio.svg", c.Title, c.SVG()}}
}
