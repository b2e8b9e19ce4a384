package chart

import "math"

// Bars is a grid of panels with one bar for each engine, from zero; every panel has a
// scale of its own.
type Bars struct {
	Title, Note string
	Panels      []BarPanel
}

// BarPanel is one workload, or one figure of it.
type BarPanel struct {
	Title string
	Bars  []Bar
}

// Bar is the figure of one engine: Value, and More, drawn lighter, on top of it. Label
// is written after it.
type Bar struct {
	Engine      string
	Value, More float64
	Label       string
}

const (
	barColumns = 3
	barHeight  = 12
	labelCol   = 88 // labels after the longest bar
	panelHead  = 24
	panelFoot  = 14
)

// SVG draws the chart.
func (b *Bars) SVG() []byte {
	c := &canvas{}
	y := c.head(b.Title, b.Note)
	y = c.panels(y, len(b.Panels), barColumns, func(i int, x, y, w float64) float64 {
		return b.Panels[i].draw(c, x, y, w)
	})
	return c.finish(b.Title, y+margin/2)
}

// draw puts the panel at x, y and returns its height.
func (p *BarPanel) draw(c *canvas, x, y, w float64) float64 {
	c.text(x, y+14, left, ink, p.Title, "font-weight", "bold")
	longest := 0.0
	for _, b := range p.Bars {
		longest = math.Max(longest, b.Value+b.More)
	}
	x0, top := x+nameCol, y+panelHead
	scale := 0.0
	if longest > 0 {
		scale = (w - nameCol - labelCol) / longest
	}
	for i, b := range p.Bars {
		at := top + float64(i)*rowStep
		base := at + barHeight - 2
		c.name(x0-6, base, b.Engine)
		colour := styleOf(b.Engine).colour
		end := x0 + b.Value*scale
		if b.Value > 0 {
			c.rect(x0, at, b.Value*scale, barHeight, colour)
		}
		if b.More > 0 {
			c.rect(end, at, b.More*scale, barHeight, colour, "fill-opacity", 0.4)
			end += b.More * scale
		}
		c.text(end+5, base, left, ink, b.Label)
	}
	high := float64(len(p.Bars)) * rowStep
	c.line(x0, top-3, x0, top+high-3, faint)
	return panelHead + high + panelFoot
}
