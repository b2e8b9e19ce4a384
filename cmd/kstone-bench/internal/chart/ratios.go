package chart

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Ratios shows, for each workload, by what factor kstone is ahead of every peer, as
// dots on a logarithmic axis around 1.
type Ratios struct {
	Title, Note string
	Peers       []string
	Rows        []RatioRow
}

// RatioRow is one workload: the ratio to every peer that has one. A row without
// ratios is a heading.
type RatioRow struct {
	Name   string
	Values map[string]float64
}

const (
	ratioStep    = 20
	mostTicks    = 13  // that are labelled; beyond, powers of ten are
	ratioNameCol = 120 // at least
	letter       = 7.1 // about the width of a character
)

// nameCol is the width of the longest name of a row.
func (r *Ratios) nameCol() float64 {
	w := float64(ratioNameCol)
	for _, row := range r.Rows {
		w = max(w, letter*float64(utf8.RuneCountInString(row.Name))+16)
	}
	return w
}

// SVG draws the chart.
func (r *Ratios) SVG() []byte {
	c := &canvas{}
	y := c.head(r.Title, r.Note)
	c.legend(y, r.Peers)
	lo, hi := r.bounds()
	a := logAxis{lo, hi, margin + r.nameCol(), width - margin - 12}
	top := y + legendStep + axisStep
	bottom := top + float64(len(r.Rows))*ratioStep + 4
	c.rect(a.x0, top, a.at(1)-a.x0, bottom-top, "#f6f0ea")
	ticks := steps(lo, hi)
	for _, v := range ticks {
		c.line(a.at(v), top, a.at(v), bottom, grid)
		if len(ticks) > mostTicks && !isPower(v) {
			continue
		}
		for _, at := range []float64{top - 5, bottom + 15} {
			c.text(a.at(v), at, middle, faint, fmt.Sprintf("%g×", v), "font-size", 11)
		}
	}
	c.line(a.at(1), top, a.at(1), bottom, ink, "stroke-width", 1.5)
	for i, row := range r.Rows {
		r.row(c, row, a, top+float64(i)*ratioStep+ratioStep/2+2)
	}
	return c.finish(r.Title, bottom+axisStep+margin)
}

func (r *Ratios) row(c *canvas, row RatioRow, a logAxis, y float64) {
	if len(row.Values) == 0 {
		c.text(margin, y+4, left, ink, row.Name, "font-weight", "bold")
		return
	}
	c.text(a.x0-10, y+4, right, ink, row.Name)
	c.line(a.x0, y, a.x1, y, grid, "stroke-dasharray", "1 4")
	for i := len(r.Peers) - 1; i >= 0; i-- {
		if v, ok := row.Values[r.Peers[i]]; ok && v > 0 {
			c.mark(a.at(v), y, r.Peers[i])
		}
	}
}

// bounds encloses all ratios, and 1 with some room on both sides.
func (r *Ratios) bounds() (lo, hi float64) {
	lo, hi = 0.5, 2
	for _, row := range r.Rows {
		for _, v := range row.Values {
			if v > 0 && !math.IsInf(v, 0) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	return enclose(lo, hi)
}
