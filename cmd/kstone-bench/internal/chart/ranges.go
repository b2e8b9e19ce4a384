package chart

import (
	"fmt"
	"math"
)

// Ranges is a grid of panels with the latencies of every engine from the median to
// the longest, in microseconds, on one logarithmic axis.
type Ranges struct {
	Title, Note string
	Panels      []RangePanel
}

// RangePanel is one workload.
type RangePanel struct {
	Title string
	Rows  []Range
}

// Range is the latency of one engine in microseconds; not positive means unknown.
type Range struct {
	Engine              string
	P50, P99, P999, Max float64
}

const (
	rangeColumns = 2
	axisStep     = 18 // tick labels below a panel
	legendStep   = 26
)

// SVG draws the chart.
func (r *Ranges) SVG() []byte {
	c := &canvas{}
	y := c.head(r.Title, r.Note)
	rangeLegend(c, y)
	y += legendStep
	lo, hi := r.bounds()
	y = c.panels(y, len(r.Panels), rangeColumns, func(i int, x, y, w float64) float64 {
		return r.Panels[i].draw(c, x, y, logAxis{lo, hi, x + nameCol, x + w - 18})
	})
	return c.finish(r.Title, y+margin/2)
}

func (r *Ranges) bounds() (lo, hi float64) {
	lo, hi = math.Inf(1), 0
	for _, p := range r.Panels {
		for _, g := range p.Rows {
			for _, v := range []float64{g.P50, g.P99, g.P999, g.Max} {
				if v > 0 {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
		}
	}
	if hi == 0 {
		return 1, 10
	}
	return decades(lo, hi)
}

func rangeLegend(c *canvas, y float64) {
	x := float64(margin)
	for i, label := range []string{"median", "p99", "p99.9", "longest"} {
		rangeMark(c, i, x+5, y+6, ink)
		c.text(x+16, y+10, left, ink, label)
		x += 86
	}
}

// rangeMark draws the mark of percentile i: dot, bar, ring, cross.
func rangeMark(c *canvas, i int, x, y float64, colour string) {
	switch i {
	case 0:
		c.element("circle", "cx", x, "cy", y, "r", 4.5, "fill", colour)
	case 1:
		c.rect(x-1.5, y-5.5, 3, 11, colour)
	case 2:
		c.element("circle", "cx", x, "cy", y, "r", 3.8, "fill", "#ffffff", "stroke", colour,
			"stroke-width", 2)
	default:
		c.line(x-4, y-4, x+4, y+4, colour, "stroke-width", 2)
		c.line(x-4, y+4, x+4, y-4, colour, "stroke-width", 2)
	}
}

func (p *RangePanel) draw(c *canvas, x, y float64, a logAxis) float64 {
	c.text(x, y+14, left, ink, p.Title, "font-weight", "bold")
	top := y + panelHead
	bottom := top + float64(len(p.Rows))*rowStep
	for v := a.lo; v <= a.hi*1.001; v *= 10 {
		c.line(a.at(v), top-3, a.at(v), bottom, grid)
		c.text(a.at(v), bottom+13, middle, faint, duration(v), "font-size", 11)
	}
	for i, r := range p.Rows {
		at := top + float64(i)*rowStep + rowStep/2 - 2
		c.name(a.x0-8, at+4, r.Engine)
		colour := styleOf(r.Engine).colour
		if r.Max > 0 {
			c.line(a.at(r.P50), at, a.at(r.Max), at, colour, "stroke-width", 2)
		}
		values := []float64{r.P50, r.P99, r.P999, r.Max}
		for j := len(values) - 1; j >= 0; j-- {
			if values[j] > 0 {
				rangeMark(c, j, a.at(values[j]), at, colour)
			}
		}
	}
	return bottom - y + axisStep + panelFoot
}

// duration writes microseconds with the unit that fits a power of ten.
func duration(us float64) string {
	switch {
	case us < 0.999:
		return fmt.Sprintf("%.0f ns", us*1e3)
	case us < 999:
		return fmt.Sprintf("%.0f µs", us)
	case us < 999_000:
		return fmt.Sprintf("%.0f ms", us/1e3)
	}
	return fmt.Sprintf("%.0f s", us/1e6)
}
