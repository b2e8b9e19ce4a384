package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// subject is the engine whose ratios to the others are shown.
const subject = "kstone"

// Row is one workload of a chain with a number of goroutines.
type Row struct {
	Chain, Workload string
	Goroutines      int
}

// String names the row: chain only where the workload runs in several.
func (r Row) String() string {
	name := r.Workload
	if r.Goroutines > 1 {
		name += fmt.Sprintf(" ×%d", r.Goroutines)
	}
	return name
}

// Table holds the median of every figure, by row and engine.
type Table struct {
	Rows    []Row // in the order they ran
	Engines []string
	cells   map[Row]map[string]workload.Result
	Failed  []workload.Result
}

// NewTable takes the medians over repeats. The maximum is the largest of all repeats.
func NewTable(results []workload.Result) *Table {
	t := &Table{cells: map[Row]map[string]workload.Result{}}
	groups := map[Row]map[string][]workload.Result{}
	for _, r := range results {
		if r.Error != "" {
			t.Failed = append(t.Failed, r)
			continue
		}
		row := Row{r.Chain, r.Workload, r.Goroutines}
		if groups[row] == nil {
			groups[row] = map[string][]workload.Result{}
			t.Rows = append(t.Rows, row)
		}
		groups[row][r.Engine] = append(groups[row][r.Engine], r)
		if !slices.Contains(t.Engines, r.Engine) {
			t.Engines = append(t.Engines, r.Engine)
		}
	}
	slices.SortFunc(t.Engines, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	for row, byEngine := range groups {
		t.cells[row] = map[string]workload.Result{}
		for engine, all := range byEngine {
			t.cells[row][engine] = median(all)
		}
	}
	return t
}

// rank orders engines as reports show them.
func rank(engine string) int {
	order := []string{subject, "pebble", "badger", "goleveldb", "bbolt", "rocksdb", "lmdb"}
	if i := slices.Index(order, engine); i >= 0 {
		return i
	}
	return len(order)
}

// Cell returns the medians of a row for an engine.
func (t *Table) Cell(row Row, engine string) (workload.Result, bool) {
	r, ok := t.cells[row][engine]
	return r, ok
}

// median makes one result of the repeats.
func median(all []workload.Result) workload.Result {
	of := func(f func(*workload.Result) float64) float64 {
		v := make([]float64, len(all))
		for i := range all {
			v[i] = f(&all[i])
		}
		slices.Sort(v)
		if n := len(v); n%2 == 0 {
			return (v[n/2-1] + v[n/2]) / 2
		}
		return v[len(v)/2]
	}
	count := func(f func(*workload.Result) int64) int64 {
		return int64(of(func(r *workload.Result) float64 { return float64(f(r)) }))
	}
	m := all[0]
	m.Ops = count(func(r *workload.Result) int64 { return r.Ops })
	m.Seconds = of(func(r *workload.Result) float64 { return r.Seconds })
	m.PerSecond = of(func(r *workload.Result) float64 { return r.PerSecond })
	m.CPUNs = of(func(r *workload.Result) float64 { return r.CPUNs })
	m.SettledCPUNs = of(func(r *workload.Result) float64 { return r.SettledCPUNs })
	m.P50 = of(func(r *workload.Result) float64 { return r.P50 })
	m.P99 = of(func(r *workload.Result) float64 { return r.P99 })
	m.P999 = of(func(r *workload.Result) float64 { return r.P999 })
	m.Max = 0
	for i := range all {
		m.Max = max(m.Max, all[i].Max)
	}
	m.UserBytes = count(func(r *workload.Result) int64 { return r.UserBytes })
	m.WrittenBytes = count(func(r *workload.Result) int64 { return r.WrittenBytes })
	m.DiskBytes = count(func(r *workload.Result) int64 { return r.DiskBytes })
	m.LiveBytes = count(func(r *workload.Result) int64 { return r.LiveBytes })
	m.PeakRSSBytes = count(func(r *workload.Result) int64 { return r.PeakRSSBytes })
	m.PeakAnonBytes = count(func(r *workload.Result) int64 { return r.PeakAnonBytes })
	m.Extra = nil
	for name := range all[0].Extra {
		if m.Extra == nil {
			m.Extra = map[string]float64{}
		}
		m.Extra[name] = of(func(r *workload.Result) float64 { return r.Extra[name] })
	}
	return m
}
