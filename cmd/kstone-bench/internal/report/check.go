package report

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// figure is what a target is about.
type figure struct {
	name string
	of   func(workload.Result) float64
	unit string // of the absolute figure
}

var (
	speed      = figure{"throughput", throughput, "/s"}
	settledCPU = figure{"CPU, background included",
		func(r workload.Result) float64 { return r.SettledCPUNs }, " ns"}
	tail     = figure{"p99.9", func(r workload.Result) float64 { return r.P999 }, " µs"}
	openTime = figure{"time", func(r workload.Result) float64 { return r.Seconds * 1e3 }, " ms"}
	longest  = figure{"longest write",
		func(r workload.Result) float64 { return r.Max / 1e3 }, " ms"}
	memory = figure{"peak RSS",
		func(r workload.Result) float64 { return float64(r.PeakRSSBytes) }, " B"}
	disk = figure{"bytes on disk",
		func(r workload.Result) float64 { return float64(r.DiskBytes) }, " B"}
	written = figure{"bytes written",
		func(r workload.Result) float64 { return float64(r.WrittenBytes) }, " B"}
)

// Verdict of a check.
type Verdict string

// The verdicts. Unknown means that no run has measured what is needed.
const (
	Reached Verdict = "reached"
	Missed  Verdict = "missed"
	Unknown Verdict = "not measured"
)

// Check is one target for one workload, compared with what was measured.
type Check struct {
	Target, Workload string
	Figure           string // what is measured, "throughput ÷ pebble"
	Want, Got        string
	Rounds           int // that Got is the median of
	Verdict          Verdict
}

// CheckTargets compares every target with the results. Single rounds are what a ratio is
// made of; the median of the rounds is what counts.
func CheckTargets(t *Table) []Check {
	size := t.targetSize()
	var out []Check
	for _, want := range targets {
		for _, s := range want.rows {
			row := Row{s.chain, s.workload, s.goroutines, size}
			out = append(out, t.check(want, row))
		}
	}
	return append(out, t.checkMeans(size)...)
}

// targetSize is the size that the targets are for or, if no run has it, the first.
func (t *Table) targetSize() Size {
	if len(t.Rows) == 0 || slices.ContainsFunc(t.Rows, func(r Row) bool {
		return r.Size == targetSize
	}) {
		return targetSize
	}
	return t.Rows[0].Size
}

func (t *Table) check(want target, row Row) Check {
	c := Check{
		Target: want.name, Workload: t.label(row), Want: want.wanted(),
		Figure: want.figure.name, Verdict: Unknown, Got: "–",
	}
	if want.peer != "" {
		c.Figure += " ÷ " + want.peer
	}
	ratio, note, ok := t.measured(want, row)
	if !ok {
		return c
	}
	c.Got, c.Rounds, c.Verdict = number(ratio.Value)+note, ratio.Rounds, Missed
	if want.holds(ratio.Value) {
		c.Verdict = Reached
	}
	return c
}

// measured returns the figure of a target for a row, and what to say beside it.
func (t *Table) measured(want target, row Row) (ratio Ratio, note string, ok bool) {
	switch {
	case want.peer == "":
		cell, ok := t.Cell(row, subject) // its longest latency is that of all rounds
		rounds := len(t.cells[row][subject])
		return Ratio{want.figure.of(cell), rounds}, want.figure.unit, ok
	case want.peer == bestPeer:
		peer, ratio, ok := t.Best(row)
		return ratio, " (" + peer + ")", ok
	}
	ratio, ok = t.Over(row, quotient(want.figure.of), subject, want.peer)
	if want.figure.name == settledCPU.name {
		if net, has := t.netCPU(row, want.peer); has {
			note = " (net of the harness " + number(net.Value) + ")"
		}
	}
	return ratio, note, ok
}

// netCPU is the ratio of processor time without that of the harness, in rounds that
// the harness took part in.
func (t *Table) netCPU(row Row, peer string) (Ratio, bool) {
	return t.Over(row, func(r ...workload.Result) float64 {
		h := r[2].SettledCPUNs
		return (r[0].SettledCPUNs - h) / (r[1].SettledCPUNs - h)
	}, subject, peer, store.Harness)
}

func (w target) wanted() string {
	unit := ""
	if w.peer == "" {
		unit = w.figure.unit
	}
	sign := map[[2]bool]string{
		{true, false}: "≥ ", {true, true}: "> ", {false, false}: "≤ ", {false, true}: "< ",
	}[[2]bool{w.above, w.strict}]
	return sign + number(w.bound) + unit
}

func (w target) holds(v float64) bool {
	switch {
	case w.strict && v == w.bound:
		return false
	case w.above:
		return v >= w.bound
	}
	return v <= w.bound
}

// checkMeans checks the geometric mean of the ratios to every peer, over the
// workloads that have a target for throughput or time.
func (t *Table) checkMeans(size Size) []Check {
	rows := t.withTargets(size)
	var out []Check
	for _, peer := range t.peers() {
		want := faster("geometric mean", nil, peer, meanOverOthers)
		if peer == "pebble" {
			want.bound = meanOverPebble
		}
		mean, n := t.GeometricMean(rows, peer)
		c := Check{
			Target: want.name, Workload: fmt.Sprintf("%d workloads", n), Want: want.wanted(),
			Figure: "throughput ÷ " + peer, Got: "–", Verdict: Unknown,
		}
		if n > 0 {
			c.Got, c.Verdict = number(mean), Missed
			if want.holds(mean) {
				c.Verdict = Reached
			}
		}
		out = append(out, c)
	}
	return out
}

// withTargets lists the rows that have a target for throughput or time, each once.
func (t *Table) withTargets(size Size) []Row {
	var rows []Row
	for _, w := range targets {
		if w.figure.name != speed.name && w.figure.name != openTime.name {
			continue
		}
		for _, s := range w.rows {
			row := Row{s.chain, s.workload, s.goroutines, size}
			if !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// tally counts the verdicts.
func tally(checks []Check) string {
	n := map[Verdict]int{}
	for _, c := range checks {
		n[c.Verdict]++
	}
	return fmt.Sprintf("%d reached, %d missed, %d not measured", n[Reached], n[Missed], n[Unknown])
}

// caution says what keeps the checks from being what the targets mean, or nothing.
func (t *Table) caution(checks []Check) string {
	text := ""
	if size := t.targetSize(); size != targetSize {
		text = fmt.Sprintf(" The targets are for %s, this is %s.", targetSize, size)
	}
	if slices.ContainsFunc(checks, func(c Check) bool { return c.Rounds > 0 && c.Rounds < 3 }) {
		text += " Some figures are of fewer than three rounds."
	}
	return text
}

// WriteChecks prints all checks of a table as plain text.
func WriteChecks(w io.Writer, t *Table) error {
	checks := CheckTargets(t)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "target\tworkload\tfigure\twanted\tmeasured\trounds\tverdict")
	last := ""
	for _, c := range checks {
		name := c.Target
		if name == last {
			name = ""
		}
		last = c.Target
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, c.Workload, c.Figure, c.Want, c.Got,
			c.rounds(), c.Verdict)
	}
	fmt.Fprintln(tw)
	fmt.Fprintln(tw, tally(checks)+"."+t.caution(checks))
	return tw.Flush()
}

func (c Check) rounds() string {
	if c.Rounds == 0 {
		return "–"
	}
	return fmt.Sprint(c.Rounds)
}
