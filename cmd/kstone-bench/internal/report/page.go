// Package report makes tables, verdicts on targets and charts of results. What a page shows
// is up to its Kind; how a figure is taken of the rounds is the same for all.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Kind says what the page of a kind of measurement shows.
type Kind struct {
	Tables []string // in the order of the page
	// Section names what a row is shown with; nil: its table.
	Section func(Row) string
	Notes   string // what the notes on engines say
	// Checks compares the table with the targets; remark is nothing or a sentence.
	Checks func(*Table) (checks []Check, remark string)
	// Body writes what follows machine, versions and targets.
	Body func(*Page)
}

// Page is a page in the making. Text goes to its Builder.
type Page struct {
	strings.Builder
	*Table
	links    string
	pictures map[string][]byte // by file
}

// Write writes the page of the runs to w or, if page is not empty, as the generated part of
// that file; charts is the directory that gets the charts, or empty for none.
func Write(w io.Writer, k *Kind, runs []result.Run, page, charts string) error {
	links, err := Links(page, charts)
	if err != nil {
		return err
	}
	p := &Page{Table: NewTable(k, runs), links: links, pictures: map[string][]byte{}}
	p.head(k, runs)
	if k.Checks != nil {
		rows, tally := p.checks(k)
		p.Printf("## Targets\n\n%s Ratios are medians over rounds of ratios within a round.\n\n",
			tally)
		for _, r := range rows {
			if v := &r[len(r)-1]; *v == string(Missed) {
				*v = "**" + *v + "**"
			}
		}
		p.Lines(checkHead, rows)
	}
	k.Body(p)
	for i, f := range p.Failed {
		if i == 0 {
			p.Printf("## Failures\n\n")
		}
		p.Printf("- %s, chain %s, round %d: %s\n", f.Engine, f.Table, f.Round+1,
			strings.Join(strings.Fields(f.Error), " "))
	}
	for file, svg := range p.pictures {
		if err := write(filepath.Join(charts, file), svg); err != nil {
			return err
		}
	}
	if page != "" {
		return UpdatePage(page, p.String())
	}
	_, err = io.WriteString(w, p.String())
	return err
}

func write(file string, data []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644))
}

// WriteChecks prints all checks as aligned text.
func WriteChecks(w io.Writer, k *Kind, runs []result.Run) error {
	rows, tally := NewTable(k, runs).checks(k)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{checkHead}, rows...) {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	fmt.Fprintf(tw, "\n%s\n", tally)
	return tw.Flush()
}

// Printf writes text.
func (p *Page) Printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// Lines writes a table, and nothing if it has no line.
func (p *Page) Lines(head []string, lines [][]string) {
	if len(lines) == 0 {
		return
	}
	p.Printf("| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, l := range lines {
		p.Printf("| %s |\n", strings.Join(l, " | "))
	}
	p.Printf("\n")
}

// Matrix writes a table with a line for each row and a column for each engine, more cells
// after those. Cells without records are dashes.
func (p *Page) Matrix(rows []Row, engines []string,
	cell func(Cell, result.Record) string, more ...Column) {
	head := slices.Concat([]string{"case"}, engines)
	for _, m := range more {
		head = append(head, m.Head)
	}
	var lines [][]string
	for _, row := range rows {
		line := []string{p.Label(row)}
		for _, e := range engines {
			line = append(line, p.cell(Cell{row, e}, cell))
		}
		for _, m := range more {
			line = append(line, m.Of(Cell{Row: row}, result.Record{}))
		}
		lines = append(lines, line)
	}
	p.Lines(head, lines)
}

// Numbers are the cells of a Matrix that have figures.
func Numbers(of ...func(result.Record) float64) func(Cell, result.Record) string {
	return func(_ Cell, r result.Record) string {
		var all []string
		for _, f := range of {
			all = append(all, Number(f(r)))
		}
		return strings.Join(all, " / ")
	}
}

// Quotients are columns of a Matrix, of the ratio of kstone's speed to that of each peer. Head
// comes before their names.
func (p *Page) Quotients(head string) (out []Column) {
	for _, e := range p.Peers(p.Engines) {
		out = append(out, Column{head + e, func(c Cell, _ result.Record) string {
			r, _ := p.Ratio(c.Row, e)
			return Number(r.Value)
		}})
	}
	return out
}

func (p *Page) cell(c Cell, of func(Cell, result.Record) string) string {
	if r, ok := p.Median(c); ok {
		return of(c, r)
	}
	return "–"
}

// Column is a figure, or what else there is to say of a cell.
type Column struct {
	Head string
	Of   func(Cell, result.Record) string
}

// Value is a column of one figure, times scale.
func Value(head, name string, scale float64) Column {
	return Column{head, func(_ Cell, r result.Record) string {
		return Number(r.Figures[name] * scale)
	}}
}

// Text is a column of figures in a format.
func Text(head, format string, names ...string) Column {
	return Column{head, func(_ Cell, r result.Record) string {
		var values []any
		for _, name := range names {
			values = append(values, r.Figures[name])
		}
		return fmt.Sprintf(format, values...)
	}}
}

// List writes a table with a line for each cell with records, and a column for each figure.
// What all cells share is left out of their names.
func (p *Page) List(rows []Row, columns ...Column) {
	engines := p.EnginesIn(rows)
	named := func(row, engine string) (names []string) {
		if len(rows) > 1 {
			names = append(names, row)
		}
		if len(engines) > 1 {
			names = append(names, engine)
		}
		return names
	}
	head := named("case", "engine")
	for _, c := range columns {
		head = append(head, c.Head)
	}
	var lines [][]string
	for _, row := range rows {
		for _, e := range engines {
			cell := Cell{row, e}
			if !p.Has(cell) {
				continue
			}
			line := named(p.Label(row), e)
			for _, c := range columns {
				line = append(line, p.cell(cell, c.Of))
			}
			lines = append(lines, line)
		}
	}
	p.Lines(head, lines)
}

// Fold writes a part that readers open if they want it.
func (p *Page) Fold(summary string, body func()) {
	p.Printf("<details><summary>%s</summary>\n\n", summary)
	body()
	p.Printf("</details>\n\n")
}

// head writes the machine, the runs, and versions of engines.
func (p *Page) head(k *Kind, runs []result.Run) {
	m := runs[0].Meta
	p.Printf("## Machine and versions\n\n%s, %d cores, %d GiB, Linux %s, %s", m.CPU, m.Cores,
		m.MemoryKB>>20, m.Kernel, m.Go)
	if m.Cache > 0 {
		p.Printf("; write buffer %d MiB, block cache %d MiB", m.WriteBuffer>>20, m.Cache>>20)
	}
	p.Printf(".\n\n")
	var lines, engines [][]string
	versions, notes := map[string][]string{}, map[string]string{}
	for i, r := range runs {
		m := r.Meta
		rounds := Number(float64(m.Rounds))
		if m.Rounds > 0 {
			rounds = fmt.Sprint(m.Rounds)
		}
		if r.Torn {
			rounds += ", not to its end"
		}
		size := "–"
		if m.Records > 0 {
			size = m.Size().String()
		}
		lines = append(lines, []string{fmt.Sprint(i + 1), m.Time.Format("2006-01-02 15:04"), size,
			rounds, m.Commit, m.Load, "`kstone-bench " + strings.Join(m.Command, " ") + "`"})
		for e, v := range m.Versions {
			if !slices.Contains(versions[e], v) {
				versions[e] = append(versions[e], v)
			}
		}
		maps.Copy(notes, m.Notes)
	}
	p.Lines([]string{"run", "started", "records", "rounds", "kstone", "load before", "command"},
		lines)
	names := slices.Sorted(maps.Keys(versions))
	slices.SortStableFunc(names, chart.Order)
	columns := 3
	if k.Notes == "" {
		columns--
	}
	for _, e := range names {
		engines = append(engines,
			[]string{e, strings.Join(versions[e], ", "), notes[e]}[:columns])
	}
	p.Lines([]string{"engine", "version", k.Notes}[:columns], engines)
	for _, e := range slices.Sorted(maps.Keys(p.second)) {
		p.Printf("Of the two settings of %s, each row has the one with the higher throughput: "+
			"%s%s in %d rows.\n\n", e, e, result.Second, p.second[e])
	}
}

// The generated part of a page is between two comments.
const (
	pageBegin = "<!-- measurements: kstone-bench report -page replaces what follows -->"
	pageEnd   = "<!-- end of measurements -->"
)

// UpdatePage replaces the generated part of a page. A page that does not exist is made;
// one without the two comments is an error.
func UpdatePage(file, generated string) error {
	old, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = []byte("# Measurements\n\n" + pageBegin + "\n" + pageEnd + "\n")
	case err != nil:
		return err
	}
	before, rest, ok1 := bytes.Cut(old, []byte(pageBegin))
	_, after, ok2 := bytes.Cut(rest, []byte(pageEnd))
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", file, pageBegin, pageEnd)
	}
	return write(file, []byte(string(before)+pageBegin+"\n\n"+strings.TrimSpace(generated)+"\n\n"+
		pageEnd+string(after)))
}

// Links returns the path of the charts' folder as a page refers to it, with slashes.
func Links(page, charts string) (string, error) {
	if charts == "" {
		return "", nil
	}
	from, err := filepath.Abs(filepath.Dir(page))
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(charts)
	if err != nil {
		return "", err
	}
	link, err := filepath.Rel(from, to)
	return filepath.ToSlash(link), err
}

// Number prints two or three significant digits, and a dash for nothing.
func Number(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v > -0.01 && v < 0.01:
		return fmt.Sprintf("%.2g", v)
	case v > -0.1 && v < 0.1:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
