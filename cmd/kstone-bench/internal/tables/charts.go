package tables

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
)

// Files and titles of the charts.
const (
	fileRatio    = "tables-ratio.svg"
	fileReads    = "tables-reads.svg"
	fileInserts  = "tables-inserts.svg"
	fileShards   = "tables-shards.svg"
	titleRatio   = "Tables: kstone by each of the others"
	titleReads   = "Tables: thousand reads a second"
	titleInserts = "Tables: thousand rows inserted a second"
	titleShards  = "Ascending values in plain and sharded indexes"
)

// WriteCharts writes the charts into a directory.
func WriteCharts(dir string, r *Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s := summarise(r.Samples)
	for _, c := range []struct {
		file string
		svg  []byte
	}{
		{fileRatio, s.ratioChart()},
		{fileReads, s.speedChart(groupReads, titleReads)},
		{fileInserts, s.speedChart(groupInserts, titleInserts)},
		{fileShards, s.shardChart()},
	} {
		if err := os.WriteFile(filepath.Join(dir, c.file), c.svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (s *summary) ratioChart() []byte {
	c := chart.Ratios{Title: titleRatio,
		Note: "Right of the line kstone is faster. Medians of ratios within a round; logarithmic."}
	for _, e := range s.engines[groupReads] {
		if e != subject {
			c.Peers = append(c.Peers, e)
		}
	}
	for _, g := range []struct{ group, title string }{
		{groupReads, "Reads"}, {groupInserts, "Insertion"}} {
		c.Rows = append(c.Rows, chart.RatioRow{Name: g.title})
		for _, l := range s.of(g.group) {
			row := chart.RatioRow{Name: l.label(), Values: map[string]float64{}}
			for _, p := range c.Peers {
				if v, ok := s.ratio(l, subject, l, p); ok {
					row.Values[p] = v
				}
			}
			c.Rows = append(c.Rows, row)
		}
	}
	return c.SVG()
}

func (s *summary) speedChart(group, title string) []byte {
	c := chart.Bars{Title: title, Note: "Longer is better. Each panel has its own scale."}
	if group == groupReads {
		c.Note += " ×2: two goroutines."
	}
	for _, l := range s.of(group) {
		p := chart.BarPanel{Title: l.title()}
		for _, e := range s.engines[group] {
			if v, ok := s.middle(l, e, rate); ok {
				p.Bars = append(p.Bars, chart.Bar{Engine: e, Value: v / 1000,
					Label: figure(v / 1000)})
			}
		}
		c.Panels = append(c.Panels, p)
	}
	return c.SVG()
}

// shardChart has for each way of insertion the speed, the share of the busiest stripe, and
// the fewest, median and most entries of a stripe.
func (s *summary) shardChart() []byte {
	c := chart.Bars{Title: titleShards, Note: "Thousand rows a second (longer is better), the " +
		"share of the busiest stripe (shorter is better), and entries by stripe."}
	figures := []struct {
		name string
		of   func(*Sample) (v float64, label string)
	}{
		{"thousand rows a second", func(v *Sample) (float64, string) {
			return v.rate() / 1000, figure(v.rate() / 1000)
		}},
		{"share of the busiest stripe", func(v *Sample) (float64, string) {
			return v.Spread.Share, fmt.Sprintf("%.1f %%", 100*v.Spread.Share)
		}},
		{"stripes with entries", func(v *Sample) (float64, string) {
			return float64(v.Spread.Used), fmt.Sprint(v.Spread.Used)
		}},
		{"entries, least of a stripe", func(v *Sample) (float64, string) {
			return float64(v.Spread.Min), fmt.Sprint(v.Spread.Min)
		}},
		{"entries, median stripe", func(v *Sample) (float64, string) {
			return float64(v.Spread.Median), fmt.Sprint(v.Spread.Median)
		}},
		{"entries, most of a stripe", func(v *Sample) (float64, string) {
			return float64(v.Spread.Max), fmt.Sprint(v.Spread.Max)
		}},
	}
	for _, l := range s.of(groupShards) {
		for i, f := range figures {
			p := chart.BarPanel{Title: f.name}
			if i == 0 {
				p.Title = l.name
			}
			for _, e := range s.engines[groupShards] {
				if v := s.typical(l, e); v != nil && v.Spread != nil {
					value, label := f.of(v)
					p.Bars = append(p.Bars, chart.Bar{Engine: e, Value: value, Label: label})
				}
			}
			c.Panels = append(c.Panels, p)
		}
	}
	return c.SVG()
}

// typical returns the sample with the median rate, nil if there is none.
func (s *summary) typical(l line, engine string) *Sample {
	want, _ := s.middle(l, engine, rate)
	for i := range s.samples[l][engine] {
		if v := &s.samples[l][engine][i]; v.rate() == want {
			return v
		}
	}
	return nil
}
