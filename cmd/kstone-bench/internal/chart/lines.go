package chart

import (
	"fmt"
	"math"
	"slices"
)

// Lines is a grid of panels with a line for each engine, on logarithmic axes: in a panel, lines of
// figures that change by the same factor are parallel.
type Lines struct {
	Title, Note string
	// Name writes the value of a horizontal position.
	Name   func(x float64) string
	Panels []LinePanel
}

// LinePanel is one figure; every panel has a vertical scale of its own.
type LinePanel struct {
	Title string
	Lines []Line
}

// Line is the figure of one engine, at ascending positions.
type Line struct {
	Engine string
	Points []Point
}

// Point is a figure Y at a position X; both are positive.
type Point struct{ X, Y float64 }

const (
	lineColumns = 3
	lineHeight  = 130 // between the axes' ends
	tickCol     = 46  // labels left of a panel
	lineMargin  = 14  // right of the last point
	fewTicks    = 7   // that are labelled; beyond, powers of ten are
)

// SVG draws the chart.
func (l *Lines) SVG() []byte {
	c := &canvas{}
	y := c.head(l.Title, l.Note)
	c.legend(y, l.engines())
	y += legendStep
	ticks := l.positions()
	y = c.panels(y, len(l.Panels), lineColumns, func(i int, x, y, w float64) float64 {
		a := logAxis{ticks[0], ticks[len(ticks)-1], x + tickCol, x + w - lineMargin}
		l.Panels[i].draw(c, x, y, a, ticks, l.Name)
		return panelHead + lineHeight + axisStep + panelFoot
	})
	return c.finish(l.Title, y+margin/2)
}

// engines are those of all panels, in the order of reports.
func (l *Lines) engines() (all []string) {
	for _, p := range l.Panels {
		for _, line := range p.Lines {
			if !slices.Contains(all, line.Engine) {
				all = append(all, line.Engine)
			}
		}
	}
	slices.SortStableFunc(all, Order)
	return all
}

// positions are those of all points, ascending, at least two.
func (l *Lines) positions() (all []float64) {
	for _, p := range l.Panels {
		for _, line := range p.Lines {
			for _, point := range line.Points {
				all = append(all, point.X)
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	switch len(all) {
	case 0:
		return []float64{1, 10}
	case 1:
		return append(all, all[0]*10)
	}
	return all
}

// draw puts the panel at x, y.
func (p *LinePanel) draw(c *canvas, x, y float64, a logAxis, ticks []float64,
	name func(float64) string) {
	c.text(x, y+14, left, ink, p.Title, "font-weight", "bold")
	top := y + panelHead
	bottom := top + lineHeight
	lo, hi := p.bounds()
	up := logAxis{lo, hi, bottom, top}
	for _, v := range ticks {
		c.line(a.at(v), top, a.at(v), bottom, grid)
		c.text(a.at(v), bottom+14, middle, faint, name(v), "font-size", 11)
	}
	all := steps(lo, hi)
	for _, v := range all {
		if len(all) > fewTicks && !isPower(v) {
			continue
		}
		c.line(a.x0, up.at(v), a.x1, up.at(v), grid)
		c.text(a.x0-6, up.at(v)+4, right, faint, fmt.Sprintf("%g", v), "font-size", 11)
	}
	for i := len(p.Lines) - 1; i >= 0; i-- { // the first engine is above the others
		line := p.Lines[i]
		for j, point := range line.Points {
			if j > 0 {
				from := line.Points[j-1]
				c.line(a.at(from.X), up.at(from.Y), a.at(point.X), up.at(point.Y),
					styleOf(line.Engine).colour, "stroke-width", 2)
			}
			c.mark(a.at(point.X), up.at(point.Y), line.Engine)
		}
	}
}

// bounds encloses the figures of a panel.
func (p *LinePanel) bounds() (lo, hi float64) {
	lo, hi = math.Inf(1), 0
	for _, line := range p.Lines {
		for _, point := range line.Points {
			lo, hi = min(lo, point.Y), max(hi, point.Y)
		}
	}
	if hi == 0 {
		return 1, 10
	}
	if lo, hi = enclose(lo, hi); lo == hi {
		hi *= 2
	}
	return lo, hi
}
