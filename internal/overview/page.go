package overview

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/kstonedb/kstone/internal/figure"
)

//go:embed report.html
var reportText string

//go:embed sections.html
var sectionsText string

// Style is the style sheet of the drawings and tables, light and dark.
//
//go:embed style.css
var Style string

var report = template.Must(template.New("report").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(Style) },
	"count": figure.Count, "bytes": figure.Bytes, "share": shareOf,
	"heat": heatMap, "tree": tree, "plural": figure.Plural,
	"int": func(n any) int64 { var v int64; _, _ = fmt.Sscan(fmt.Sprint(n), &v); return v },
	"bar": func(n, most int64) string {
		return fmt.Sprintf("%.1f", 100*float64(n)/float64(max(most, 1)))
	},
	"rate": func(part, all uint64) string { return shareOf(int64(part), int64(all)) },
	"times": func(a, b int64) string {
		if b == 0 {
			return "–"
		}
		return fmt.Sprintf("%.2f", float64(a)/float64(b))
	},
}).Parse(reportText))

func init() { template.Must(report.New("sections").Parse(sectionsText)) }

// WriteReport writes a page of its own, without scripts, which asks for nothing from elsewhere.
func (r *Data) WriteReport(w io.Writer) error { return report.Execute(w, r) }

// Sections returns the body of that page, for one with Style.
func (r *Data) Sections() (template.HTML, error) {
	var b strings.Builder
	err := report.ExecuteTemplate(&b, "sections", r)
	return template.HTML(b.String()), err
}

// levels is how many shades a heat map has.
const levels = 7

// Sizes of the drawings, in their own units.
const (
	cell       = 22
	treeHeight = 260
	treeBar    = 4
)

// heatMap draws what the stripes have of something.
func heatMap(r *Data, what string) template.HTML {
	value := func(i int) (int64, string) { return r.Stripes[i].Items, "items" }
	switch what {
	case "bytes":
		value = func(i int) (int64, string) { return r.Stripes[i].Bytes, "bytes" }
	case "disk":
		value = func(i int) (int64, string) {
			return r.Metrics.Stripes[i].DiskBytes, "bytes on disk"
		}
	case "runs":
		value = func(i int) (int64, string) { return int64(r.Metrics.Stripes[i].Runs), "runs" }
	}
	var values [256]int64
	_, unit := value(0)
	for i := range values {
		values[i], _ = value(i)
	}
	return HeatMap(&values, unit)
}

// HeatMap draws a value of each of the 256 stripes as a square of 16 rows. Why shades by the square
// root: one hot stripe does not hide the others.
func HeatMap(values *[256]int64, unit string) template.HTML {
	var most, all int64
	hottest, used := 0, 0
	for i, n := range values {
		all += n
		if n > 0 {
			used++
		}
		if n > most {
			most, hottest = n, i
		}
	}
	var b strings.Builder
	about := unit + ": none"
	if all > 0 {
		about = fmt.Sprintf("%s: %d of 256 stripes used, most in stripe %d, %s of all", unit, used,
			hottest, shareOf(most, all))
	}
	fmt.Fprintf(&b, `<svg role="img" viewBox="0 0 %d %d" class="heat" aria-label="%s">`, 16*cell,
		16*cell, about)
	for i, n := range values {
		level := 0
		if n > 0 {
			level = 1 + min(int(math.Sqrt(float64(n)/float64(most))*levels), levels-1)
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" class="l%d">`+
			`<title>stripe %d: %s %s</title></rect>`, i%16*cell, i/16*cell, cell-2, cell-2, level,
			i, figure.Count(n), unit)
	}
	b.WriteString("</svg><p>" + about + ".</p>")
	return template.HTML(b.String())
}

// ages are the shades of files by age, the newest first.
var ages = []struct {
	name string
	most time.Duration
}{{"an hour", time.Hour}, {"a day", 24 * time.Hour}, {"a week", 7 * 24 * time.Hour},
	{"older", math.MaxInt64}}

// maxDrawnFiles bounds the page: a stripe with more shows the others as one.
const maxDrawnFiles = 16

// tree draws the files of each stripe as a bar, the newest on top, by the size on disk.
func tree(r *Data) template.HTML {
	var most int64
	for i := range r.Stripes {
		var sum int64
		for _, f := range r.Stripes[i].Files {
			sum += f.Bytes
		}
		most = max(most, sum)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg role="img" viewBox="0 0 %d %d" class="tree" aria-label="files of the 256`+
		` stripes by size and age">`, 256*treeBar, treeHeight)
	for i := range r.Stripes {
		files := r.Stripes[i].Files
		rest := file{}
		if len(files) > maxDrawnFiles {
			rest.Name = fmt.Sprintf("%d older files", len(files)-maxDrawnFiles+1)
			for _, f := range files[maxDrawnFiles-1:] {
				rest.Bytes += f.Bytes
				rest.Made = f.Made
			}
			files = append(files[:maxDrawnFiles-1:maxDrawnFiles-1], rest)
		}
		y := float64(treeHeight)
		for n := len(files) - 1; n >= 0; n-- { // the oldest at the bottom
			f := files[n]
			h := float64(f.Bytes) / float64(max(most, 1)) * treeHeight
			age := 0
			for r.now.Sub(f.Made) > ages[age].most {
				age++
			}
			y -= h
			fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" class="a%d">`+
				`<title>stripe %d, %s: %s, %s</title></rect>`, i*treeBar, y, treeBar-1,
				max(h-0.5, 0.5), age, i, template.HTMLEscapeString(f.Name), figure.Bytes(f.Bytes),
				f.Made.Format("2006-01-02 15:04"))
		}
	}
	b.WriteString("</svg><p class=key>")
	for i, a := range ages {
		name := "younger than " + a.name
		if i == len(ages)-1 {
			name = a.name
		}
		fmt.Fprintf(&b, `<span class="swatch a%d"></span> %s &nbsp; `, i, name)
	}
	fmt.Fprintf(&b, "</p><p>Each bar is a stripe, from 0 on the left to 255; each part of it a"+
		" file, the newest on top. The highest bar is %s.</p>", figure.Bytes(most))
	return template.HTML(b.String())
}
