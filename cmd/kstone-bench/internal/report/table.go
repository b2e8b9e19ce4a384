package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Row is one case of a table with a number of goroutines.
type Row struct {
	Table, Case string
	Goroutines  int
	Size        result.Size
}

// String names the row without its table and size.
func (r Row) String() string {
	if r.Goroutines > 1 {
		return fmt.Sprintf("%s ×%d", r.Case, r.Goroutines)
	}
	return r.Case
}

// Cell is where the records of an engine in a row are.
type Cell struct {
	Row    Row
	Engine string
}

// Table holds all records by row and engine.
type Table struct {
	Rows    []Row    // by size, then in the order of their tables, then as they ran
	Engines []string // with records, the harness left out, in the order of reports
	Failed  []result.Record
	second  map[string]int // rows in which the second setting of an engine counts
	cells   map[Cell][]sample
	section func(Row) string
}

// sample is a record and its round. Rounds of different runs are different.
type sample struct {
	round  round
	record result.Record
}

type round struct{ run, number int }

// NewTable sorts the records of all runs of a kind.
func NewTable(k *Kind, runs []result.Run) *Table {
	t := &Table{cells: map[Cell][]sample{}, second: map[string]int{}, section: k.Section}
	if t.section == nil {
		t.section = func(r Row) string { return r.Table }
	}
	for i, run := range runs {
		for _, r := range run.Records {
			t.add(i, run.Meta.Size(), r)
		}
	}
	t.merge()
	slices.SortStableFunc(t.Engines, chart.Order)
	slices.SortStableFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Size.Records, b.Size.Records),
			cmp.Compare(a.Size.ValueBytes, b.Size.ValueBytes),
			cmp.Compare(slices.Index(k.Tables, a.Table), slices.Index(k.Tables, b.Table)))
	})
	return t
}

func (t *Table) add(run int, size result.Size, r result.Record) {
	if r.Error != "" {
		t.Failed = append(t.Failed, r)
		return
	}
	row := Row{r.Table, r.Case, r.Goroutines, size}
	if !slices.Contains(t.Rows, row) {
		t.Rows = append(t.Rows, row)
	}
	name := strings.TrimSuffix(r.Engine, result.Second)
	if !slices.Contains(t.Engines, name) && name != result.Harness {
		t.Engines = append(t.Engines, name)
	}
	c := Cell{row, r.Engine}
	t.cells[c] = append(t.cells[c], sample{round{run, r.Round}, r})
}

// merge has of an engine with two settings, in each row, the one with the higher throughput.
func (t *Table) merge() {
	for c, all := range t.cells {
		name, ok := strings.CutSuffix(c.Engine, result.Second)
		if !ok {
			continue
		}
		first := Cell{c.Row, name}
		a, has := t.Median(first)
		b, _ := t.Median(c)
		t.second[name] += 0
		if !has || Speed.Of(b) > Speed.Of(a) {
			t.cells[first] = all
			t.second[name]++
		}
		delete(t.cells, c)
	}
}

// In returns the rows of a section.
func (t *Table) In(section string) []Row {
	return slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool {
		return t.section(r) != section
	})
}

// EnginesIn returns the engines with records in any of the rows.
func (t *Table) EnginesIn(rows []Row) []string {
	return slices.DeleteFunc(slices.Clone(t.Engines), func(e string) bool {
		return !slices.ContainsFunc(rows, func(r Row) bool { return t.Has(Cell{r, e}) })
	})
}

// Peers lists the engines other than kstone.
func (t *Table) Peers(engines []string) []string {
	return slices.DeleteFunc(slices.Clone(engines), func(e string) bool {
		return e == result.Subject
	})
}

// Label names a row so that it differs from the others of its section: with its table where
// another table of the section has the case, too, with its size where there are several.
func (t *Table) Label(r Row) string {
	table, size := "", ""
	for _, o := range t.Rows {
		if o.Size != r.Size {
			size = ", " + r.Size.String()
		}
		if o.Table != r.Table && o.String() == r.String() && t.section(o) == t.section(r) {
			table = " (" + r.Table + ")"
		}
	}
	return r.String() + table + size
}

// Has reports whether there are records in a cell.
func (t *Table) Has(c Cell) bool { return len(t.cells[c]) > 0 }

// Median returns the medians over all rounds of a cell, figure by figure. The longest
// latency is that of all of them.
func (t *Table) Median(c Cell) (m result.Record, ok bool) {
	all := t.cells[c]
	if len(all) == 0 {
		return m, false
	}
	m = all[0].record
	m.Figures = result.Figures{}
	for _, s := range all {
		maps.Copy(m.Figures, s.record.Figures)
	}
	for name := range m.Figures {
		values := make([]float64, len(all))
		for i, s := range all {
			values[i] = s.record.Figures[name]
		}
		if m.Figures[name] = measure.Middle(values); name == result.Max {
			m.Figures[name] = slices.Max(values)
		}
	}
	return m, true
}

// Ratio is the median over rounds of a figure made of several records.
type Ratio struct {
	Value  float64
	Rounds int
}

// Over computes f for every round in which all the cells have a record, one record each, in
// the order of the cells, and takes the median. Records of different rounds are never put
// in relation, those of different runs even less; ok is false if the cells share no round,
// or f is never finite.
func (t *Table) Over(f func(r ...result.Record) float64, cells ...Cell) (ratio Ratio, ok bool) {
	var values []float64
	for _, s := range t.cells[cells[0]] {
		records := []result.Record{s.record}
		for _, c := range cells[1:] {
			i := slices.IndexFunc(t.cells[c], func(o sample) bool { return o.round == s.round })
			if i < 0 {
				break
			}
			records = append(records, t.cells[c][i].record)
		}
		if len(records) < len(cells) {
			continue
		}
		if v := f(records...); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return Ratio{}, false
	}
	return Ratio{measure.Middle(values), len(values)}, true
}

// Quotient is the figure of a cell by that of another, within a round.
func (t *Table) Quotient(of func(result.Record) float64, a, b Cell) (Ratio, bool) {
	return t.Over(func(r ...result.Record) float64 { return of(r[0]) / of(r[1]) }, a, b)
}

// Ratio is the throughput of kstone by that of another engine.
func (t *Table) Ratio(row Row, engine string) (Ratio, bool) {
	return t.Quotient(Speed.Of, Cell{row, result.Subject}, Cell{row, engine})
}

// Best returns the lowest ratio of throughput, which is that to the best peer. A peer
// that has records in the row but shares no round with kstone might be the best one, so
// then ok is false.
func (t *Table) Best(row Row) (peer string, ratio Ratio, ok bool) {
	for _, e := range t.Peers(t.Engines) {
		r, has := t.Ratio(row, e)
		switch {
		case !has && t.Has(Cell{row, e}):
			return "", Ratio{}, false
		case has && (!ok || r.Value < ratio.Value):
			peer, ratio, ok = e, r, true
		}
	}
	return peer, ratio, ok
}

// GeometricMean returns the mean of the ratios to a peer over those rows that have
// one, and their number.
func (t *Table) GeometricMean(rows []Row, peer string) (mean float64, n int) {
	sum := 0.0
	for _, row := range rows {
		if r, ok := t.Ratio(row, peer); ok && r.Value > 0 {
			sum, n = sum+math.Log(r.Value), n+1
		}
	}
	if n == 0 {
		return 0, 0
	}
	return math.Exp(sum / float64(n)), n
}
