package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// subject is the engine whose ratios to the others are shown.
const subject = "kstone"

// Size is what a run was told: number of records and bytes of a value. Single chains
// multiply or divide it.
type Size struct {
	Records    uint64
	ValueBytes int
}

// Row is one workload of a chain with a number of goroutines.
type Row struct {
	Chain, Workload string
	Goroutines      int
	Size            Size
}

// String names the row without its chain and size.
func (r Row) String() string {
	if r.Goroutines > 1 {
		return fmt.Sprintf("%s ×%d", r.Workload, r.Goroutines)
	}
	return r.Workload
}

// Table holds all results by row and engine.
type Table struct {
	Rows    []Row    // by size, then in the order they ran
	Engines []string // with results, the harness left out, in the order of reports
	Failed  []workload.Result
	cells   map[Row]map[string][]sample
}

// sample is one result and the round it was measured in. Rounds of different runs are
// different.
type sample struct {
	round  round
	result workload.Result
}

type round struct{ run, repeat int }

// NewTable sorts the results of all runs.
func NewTable(runs []Run) *Table {
	t := &Table{cells: map[Row]map[string][]sample{}}
	for i, run := range runs {
		for _, r := range run.Results {
			t.add(i, Size{run.Meta.Records, run.Meta.ValueBytes}, r)
		}
	}
	slices.SortFunc(t.Engines, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	chains := map[string]int{}
	for i, c := range workload.Chains() {
		chains[c.Name] = i
	}
	slices.SortStableFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Size.Records, b.Size.Records),
			cmp.Compare(a.Size.ValueBytes, b.Size.ValueBytes),
			cmp.Compare(chains[a.Chain], chains[b.Chain]))
	})
	return t
}

func (t *Table) add(run int, size Size, r workload.Result) {
	if r.Error != "" {
		t.Failed = append(t.Failed, r)
		return
	}
	row := Row{r.Chain, r.Workload, r.Goroutines, size}
	if t.cells[row] == nil {
		t.cells[row] = map[string][]sample{}
		t.Rows = append(t.Rows, row)
	}
	t.cells[row][r.Engine] = append(t.cells[row][r.Engine], sample{round{run, r.Repeat}, r})
	if !slices.Contains(t.Engines, r.Engine) && r.Engine != store.Harness {
		t.Engines = append(t.Engines, r.Engine)
	}
}

// rank orders engines as reports show them.
func rank(engine string) int {
	order := []string{subject, "pebble", "badger", "goleveldb", "bbolt", "rocksdb", "lmdb"}
	if i := slices.Index(order, engine); i >= 0 {
		return i
	}
	return len(order)
}

// peers lists the engines other than kstone.
func (t *Table) peers() []string {
	return slices.DeleteFunc(slices.Clone(t.Engines), func(e string) bool { return e == subject })
}

// Cell returns the medians over all rounds of a row for an engine.
func (t *Table) Cell(row Row, engine string) (workload.Result, bool) {
	samples := t.cells[row][engine]
	if len(samples) == 0 {
		return workload.Result{}, false
	}
	all := make([]workload.Result, len(samples))
	for i, s := range samples {
		all[i] = s.result
	}
	return median(all), true
}

// Ratio is the median over rounds of a figure made of several engines' results.
type Ratio struct {
	Value  float64
	Rounds int
}

// Over computes f for every round in which all the engines have a result in the row,
// one result each, in the order of the engines, and takes the median. Results of
// different rounds are never put in relation, those of different runs even less; ok is
// false if the engines share no round, or f is never finite.
func (t *Table) Over(row Row, f func(r ...workload.Result) float64, engines ...string) (
	ratio Ratio, ok bool) {
	var values []float64
	for _, s := range t.cells[row][engines[0]] {
		results := []workload.Result{s.result}
		for _, e := range engines[1:] {
			all := t.cells[row][e]
			i := slices.IndexFunc(all, func(o sample) bool { return o.round == s.round })
			if i < 0 {
				break
			}
			results = append(results, all[i].result)
		}
		if len(results) < len(engines) {
			continue
		}
		if v := f(results...); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return Ratio{}, false
	}
	return Ratio{middle(values), len(values)}, true
}

// Ratio is the throughput of kstone by that of another engine.
func (t *Table) Ratio(row Row, engine string) (Ratio, bool) {
	return t.Over(row, quotient(throughput), subject, engine)
}

func throughput(r workload.Result) float64 { return r.PerSecond }

// quotient is the figure of the first of two results by that of the second.
func quotient(f func(workload.Result) float64) func(...workload.Result) float64 {
	return func(r ...workload.Result) float64 { return f(r[0]) / f(r[1]) }
}

// Best returns the lowest ratio of throughput, which is that to the best peer. A peer
// that has results in the row but shares no round with kstone might be the best one, so
// then ok is false.
func (t *Table) Best(row Row) (peer string, ratio Ratio, ok bool) {
	for _, e := range t.peers() {
		r, has := t.Ratio(row, e)
		switch {
		case !has && len(t.cells[row][e]) > 0:
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

// middle returns the median; it sorts v.
func middle(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// median makes one result of the repeats, figure by figure. The longest latency is that
// of all of them.
func median(all []workload.Result) workload.Result {
	of := func(f func(r *workload.Result) float64) float64 {
		v := make([]float64, len(all))
		for i := range all {
			v[i] = f(&all[i])
		}
		return middle(v)
	}
	m := all[0]
	for i, f := range floats(&m) {
		*f = of(func(r *workload.Result) float64 { return *floats(r)[i] })
	}
	for i, f := range counts(&m) {
		*f = int64(of(func(r *workload.Result) float64 { return float64(*counts(r)[i]) }))
	}
	for i := range all {
		m.Max = max(m.Max, all[i].Max)
	}
	m.Extra = map[string]float64{}
	for name := range all[0].Extra {
		m.Extra[name] = of(func(r *workload.Result) float64 { return r.Extra[name] })
	}
	return m
}

// floats and counts list the figures whose median is wanted.
func floats(r *workload.Result) []*float64 {
	return []*float64{
		&r.Seconds, &r.PerSecond, &r.CPUNs, &r.SettledCPUNs, &r.P50, &r.P99, &r.P999,
	}
}

func counts(r *workload.Result) []*int64 {
	return []*int64{
		&r.Ops, &r.UserBytes, &r.WrittenBytes, &r.DiskBytes, &r.LiveBytes, &r.PeakRSSBytes,
		&r.PeakAnonBytes,
	}
}
