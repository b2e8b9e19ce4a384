// Package chart draws the charts of the reports as static SVG: grids of bars from zero,
// ranges of latencies and dots of ratios on logarithmic axes. An engine has the same
// colour, and the same mark, in all of them; the colours can be told apart with any
// kind of colour blindness.
//
// Why not a plotting library: the ones for Go that are kept up draw one pair of axes;
// what these reports need is many small panels with the value beside each bar.
package chart

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// Sizes in pixels that all charts share.
const (
	width    = 960
	margin   = 16
	gutter   = 20
	fontSize = 12
	rowStep  = 18 // from one engine's bar to the next
	nameCol  = 72 // names of engines
	headStep = 20 // a line of the heading
)

// Ink of what is not an engine.
const (
	ink   = "#222222"
	faint = "#666666"
	grid  = "#dddddd"
)

// style of an engine, or of one of its ways: colours after Okabe and Ito, shape for dots.
type style struct {
	colour string
	shape  shape
}

type shape int

const (
	circle shape = iota
	square
	diamond
	triangle
	downward
	plus
	bar
)

// styles are in the order that reports show engines in.
var styles = []struct {
	engine string
	style
}{
	{"kstone", style{"#d55e00", circle}},
	{"pebble", style{"#0072b2", square}},
	{"badger", style{"#56b4e9", diamond}},
	{"goleveldb", style{"#009e73", triangle}},
	{"bbolt", style{"#e69f00", downward}},
	{"rocksdb", style{"#cc79a7", plus}},
	{"lmdb", style{"#555555", bar}},

	{"sqlite", style{"#0072b2", square}},
	{"sqlite cgo", style{"#56b4e9", diamond}},
	{"bstore", style{"#009e73", triangle}},
	{"badgerhold", style{"#e69f00", downward}},

	{"loop", style{"#555555", bar}},
	{"single", style{"#0072b2", diamond}},
	{"batch", style{"#d55e00", circle}},
}

func rank(engine string) int {
	for i := range styles {
		if styles[i].engine == engine {
			return i
		}
	}
	return len(styles)
}

// Order compares engines as reports order them, those without a style last.
func Order(a, b string) int { return cmp.Compare(rank(a), rank(b)) }

func styleOf(engine string) style {
	if i := rank(engine); i < len(styles) {
		return styles[i].style
	}
	return style{"#aaaaaa", circle}
}

// strong is the engine whose name is bold.
const strong = "kstone"

// canvas collects the elements of a picture.
type canvas struct{ b bytes.Buffer }

// attrs are pairs of attribute and value.
func (c *canvas) element(name string, attrs ...any) { c.b.WriteString(tag(name, attrs) + "/>\n") }

func tag(name string, attrs []any) string {
	var b strings.Builder
	b.WriteString("<" + name)
	for i := 0; i+1 < len(attrs); i += 2 {
		fmt.Fprintf(&b, ` %s="%s"`, attrs[i], escape(format(attrs[i+1])))
	}
	return b.String()
}

func format(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(float64(int64(f*10+0.5))/10, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a Buffer does not fail
	return b.String()
}

// Anchors of texts.
const (
	left   = "start"
	middle = "middle"
	right  = "end"
)

func (c *canvas) text(x, y float64, anchor, colour, s string, attrs ...any) {
	all := append([]any{"x", x, "y", y, "text-anchor", anchor, "fill", colour}, attrs...)
	c.b.WriteString(tag("text", all) + ">" + escape(s) + "</text>\n")
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour string, attrs ...any) {
	all := []any{"x1", x1, "y1", y1, "x2", x2, "y2", y2, "stroke", colour}
	c.element("line", append(all, attrs...)...)
}

func (c *canvas) rect(x, y, w, h float64, colour string, attrs ...any) {
	all := []any{"x", x, "y", y, "width", w, "height", h, "fill", colour}
	c.element("rect", append(all, attrs...)...)
}

// name writes the name of an engine, right-aligned at x.
func (c *canvas) name(x, y float64, engine string) {
	weight := "normal"
	if engine == strong {
		weight = "bold"
	}
	c.text(x, y, right, ink, engine, "font-weight", weight)
}

// head writes title and note and returns where the rest begins.
func (c *canvas) head(title, note string) float64 {
	c.text(margin, margin+14, left, ink, title, "font-size", 16, "font-weight", "bold")
	c.text(margin, margin+14+headStep, left, faint, note)
	return margin + 2*headStep + 12
}

// finish returns the picture, which is as high as the elements need.
func (c *canvas) finish(title string, height float64) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%s" `+
		`viewBox="0 0 %d %s" font-family="DejaVu Sans, Verdana, sans-serif" font-size="%d" `+
		`role="img">`+"\n", width, format(height), width, format(height), fontSize)
	fmt.Fprintf(&out, "<title>%s</title>\n", escape(title))
	fmt.Fprintf(&out, `<rect width="%d" height="%s" fill="#ffffff"/>`+"\n", width, format(height))
	out.Write(c.b.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// panels draws n panels in so many columns, each at its place and of a width, and returns where the
// rest begins. draw returns the height of a panel.
func (c *canvas) panels(y float64, n, columns int, draw func(i int, x, y, w float64) float64,
) float64 {
	w := (width - 2*margin - float64(columns-1)*gutter) / float64(columns)
	high := 0.0
	for i := range n {
		column := i % columns
		if column == 0 {
			y, high = y+high, 0
		}
		high = max(high, draw(i, margin+float64(column)*(w+gutter), y, w))
	}
	return y + high
}

// legend writes the marks of engines with their names.
func (c *canvas) legend(y float64, engines []string) {
	x := float64(margin)
	for _, e := range engines {
		c.mark(x+6, y+6, e)
		c.text(x+18, y+10, left, ink, e)
		x += 110
	}
}

// mark draws the dot of an engine, about 9 pixels wide.
func (c *canvas) mark(x, y float64, engine string) {
	const r = 4.5
	s := styleOf(engine)
	switch s.shape {
	case circle:
		c.element("circle", "cx", x, "cy", y, "r", r, "fill", s.colour)
	case square:
		c.rect(x-4, y-4, 8, 8, s.colour)
	case diamond:
		c.polygon(s.colour, x, y-6, x+5, y, x, y+6, x-5, y)
	case triangle:
		c.polygon(s.colour, x, y-5, x+5, y+4, x-5, y+4)
	case downward:
		c.polygon(s.colour, x, y+5, x+5, y-4, x-5, y-4)
	case plus:
		c.line(x-5, y, x+5, y, s.colour, "stroke-width", 3)
		c.line(x, y-5, x, y+5, s.colour, "stroke-width", 3)
	case bar:
		c.rect(x-2, y-6, 4, 12, s.colour)
	}
}

func (c *canvas) polygon(colour string, xy ...float64) {
	var points []string
	for i := 0; i+1 < len(xy); i += 2 {
		points = append(points, format(xy[i])+","+format(xy[i+1]))
	}
	c.element("polygon", "points", strings.Join(points, " "), "fill", colour)
}
