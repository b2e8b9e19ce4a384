package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
)

var bars = chart.Bars{
	Title: "Writes & <more>", Note: "longer is better",
	Panels: []chart.BarPanel{{Title: "fillseq", Bars: []chart.Bar{
		{Engine: "kstone", Value: 300, Label: "300"},
		{Engine: "pebble", Value: 100, More: 50, Label: "150"},
		{Engine: "lmdb", Label: "–"},
	}}},
}

var ranges = chart.Ranges{
	Title: "Latency", Note: "logarithmic",
	Panels: []chart.RangePanel{{Title: "readrandom ×2", Rows: []chart.Range{
		{Engine: "kstone", P50: 0.4, P99: 2, P999: 10, Max: 900},
		{Engine: "bbolt", P50: 1, P99: 3, P999: 30, Max: 20_000},
		{Engine: "badger"},
	}}},
}

var ratios = chart.Ratios{
	Title: "Ratios", Note: "logarithmic", Peers: []string{"pebble", "goleveldb", "rocksdb"},
	Rows: []chart.RatioRow{
		{Name: "Writes"},
		{Name: "fillseq", Values: map[string]float64{"pebble": 3, "goleveldb": 0.4}},
		{Name: "odd", Values: map[string]float64{"rocksdb": math.Inf(1)}},
	},
}

var lines = chart.Lines{
	Title: "Growth", Note: "logarithmic", Name: func(x float64) string { return fmt.Sprint(x) },
	Panels: []chart.LinePanel{{Title: "load", Lines: []chart.Line{
		{Engine: "pebble", Points: []chart.Point{{X: 10, Y: 300}, {X: 1000, Y: 200}}},
		{Engine: "kstone", Points: []chart.Point{{X: 10, Y: 900}, {X: 1000, Y: 600}}},
		{Engine: "lmdb", Points: []chart.Point{{X: 10, Y: 500}}},
	}}, {Title: "debt"}},
}

func TestWellFormed(t *testing.T) {
	for name, svg := range map[string][]byte{
		"bars": bars.SVG(), "ranges": ranges.SVG(), "ratios": ratios.SVG(),
		"no bars": new(chart.Bars).SVG(), "no ranges": new(chart.Ranges).SVG(),
		"no ratios": new(chart.Ratios).SVG(), "lines": lines.SVG(),
		"no lines": new(chart.Lines).SVG(),
		"a point": (&chart.Lines{Name: lines.Name, Panels: []chart.LinePanel{{Lines: []chart.Line{
			{Engine: "kstone", Points: []chart.Point{{X: 10, Y: 100}}}}}}}).SVG(),
	} {
		dec, elements := xml.NewDecoder(bytes.NewReader(svg)), 0
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if start, ok := token.(xml.StartElement); ok {
				elements++
				for _, a := range start.Attr {
					if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
						t.Errorf("%s: <%s %s=%q>", name, start.Name.Local, a.Name.Local, a.Value)
					}
				}
			}
		}
		if elements < 3 {
			t.Errorf("%s: %d elements", name, elements)
		}
	}
}

// rect is what a bar is drawn as.
type rect struct {
	X      float64 `xml:"x,attr"`
	Width  float64 `xml:"width,attr"`
	Fill   string  `xml:"fill,attr"`
	Height float64 `xml:"height,attr"`
}

func TestBarsStartAtZeroAndAreInProportion(t *testing.T) {
	var picture struct {
		Rects []rect `xml:"rect"`
	}
	if err := xml.Unmarshal(bars.SVG(), &picture); err != nil {
		t.Fatal(err)
	}
	drawn := picture.Rects[1:] // the first is the background
	if len(drawn) != 3 {
		t.Fatalf("%d bars, want 3: %+v", len(drawn), drawn)
	}
	kstone, pebble, more := drawn[0], drawn[1], drawn[2]
	if kstone.X != pebble.X || math.Abs(kstone.Width-3*pebble.Width) > 0.2 {
		t.Errorf("bars of 300 and 100 are %+v and %+v", kstone, pebble)
	}
	if more.X < pebble.X+pebble.Width-0.2 || math.Abs(more.Width*2-pebble.Width) > 0.2 ||
		more.Fill != pebble.Fill || kstone.Fill == pebble.Fill {
		t.Errorf("the part of 50 beside 100 is %+v, want it to follow %+v", more, pebble)
	}
}

func TestLinesOfTheSameFactorAreParallel(t *testing.T) {
	var picture struct {
		Lines []struct {
			Y1     float64 `xml:"y1,attr"`
			Y2     float64 `xml:"y2,attr"`
			Stroke string  `xml:"stroke,attr"`
			Width  string  `xml:"stroke-width,attr"`
		} `xml:"line"`
	}
	if err := xml.Unmarshal(lines.SVG(), &picture); err != nil {
		t.Fatal(err)
	}
	falls := map[string]float64{}
	for _, l := range picture.Lines {
		if l.Width == "2" {
			falls[l.Stroke] = l.Y2 - l.Y1
		}
	}
	a, b := falls["#d55e00"], falls["#0072b2"]
	if len(falls) != 2 || a < 10 || math.Abs(a-b) > 0.3 {
		t.Errorf("lines of 900 to 600 and of 300 to 200 fall by %v", falls)
	}
}
