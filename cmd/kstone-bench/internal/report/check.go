package report

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Figure is what a target is about.
type Figure struct {
	Name, Unit string
	Of         func(result.Record) float64
}

// Key returns what reads a figure of a record, times scale.
func Key(name string, scale float64) func(result.Record) float64 {
	return func(r result.Record) float64 { return r.Figures[name] * scale }
}

// By returns what divides one figure of a record by another, 0 if the record lacks one.
func By(a, b string) func(result.Record) float64 {
	return func(r result.Record) float64 {
		if r.Figures[b] == 0 {
			return 0
		}
		return r.Figures[a] / r.Figures[b]
	}
}

// Speed is what ratios are of.
var Speed = Figure{"throughput", "/s", Key(result.PerSecond, 1)}

// Target is one thing that is wanted of a row: a figure of an engine, or the ratio of it to
// that of a peer, above or below a bound.
type Target struct {
	Name   string // of the group of targets
	Row    Row
	Engine string // empty: kstone
	Figure Figure
	Peer   string // empty: an absolute figure; BestPeer: the ratio to whichever is best
	Bound  float64
	Above  bool // at least the bound; otherwise at most
	Strict bool // and not the bound itself
}

// BestPeer stands for the peer with the highest throughput.
const BestPeer = "best peer"

// Faster wants at least so many times the throughput of a peer.
func Faster(name string, row Row, peer string, times float64) Target {
	return Target{Name: name, Row: row, Figure: Speed, Peer: peer, Bound: times, Above: true}
}

// Ahead wants more throughput than any peer has.
func Ahead(name string, row Row) Target {
	t := Faster(name, row, BestPeer, 1)
	t.Strict = true
	return t
}

// Verdict of a check.
type Verdict string

// The verdicts. Unknown means that no run has measured what is needed.
const (
	Reached Verdict = "reached"
	Missed  Verdict = "missed"
	Unknown Verdict = "not measured"
)

// Check is a target compared with what was measured.
type Check struct {
	Target, Case string
	Figure       string // what is measured, "throughput ÷ pebble"
	Want, Got    string
	Rounds       int // that Got is the median of
	Verdict      Verdict
}

// Check compares a target with the records. Single rounds are what a ratio is made of; the
// median of the rounds is what counts.
func (t *Table) Check(want Target) Check {
	c := Check{Target: want.Name, Case: t.Label(want.Row), Figure: want.Figure.Name}
	if want.Engine == "" {
		want.Engine = result.Subject
	} else {
		c.Case += ", " + want.Engine
	}
	if want.Peer != "" {
		c.Figure += " ÷ " + want.Peer
	}
	ratio, note, ok := t.measured(want)
	return c.Judge(want, ratio, note, ok)
}

// Judge fills in the verdict on a measured value; ok is false if there is no such value.
func (c Check) Judge(want Target, got Ratio, note string, ok bool) Check {
	c.Want, c.Got, c.Verdict = want.wanted(), "–", Unknown
	if !ok || got.Value == 0 { // a figure that is absent is 0
		return c
	}
	c.Got, c.Rounds, c.Verdict = Number(got.Value)+note, got.Rounds, Missed
	if want.holds(got.Value) {
		c.Verdict = Reached
	}
	return c
}

// Rounds is the figure of a record that holds the medians of so many rounds.
const Rounds = "rounds"

// measured returns the figure of a target, and a note on it.
func (t *Table) measured(want Target) (ratio Ratio, note string, ok bool) {
	own := Cell{want.Row, want.Engine}
	switch want.Peer {
	case "":
		m, ok := t.Median(own) // its longest latency is that of all rounds
		rounds := max(len(t.cells[own]), int(m.Figures[Rounds]))
		return Ratio{want.Figure.Of(m), rounds}, want.Figure.Unit, ok
	case BestPeer:
		peer, ratio, ok := t.Best(want.Row)
		return ratio, " (" + peer + ")", ok
	}
	peer := Cell{want.Row, want.Peer}
	ratio, ok = t.Quotient(want.Figure.Of, own, peer)
	// The figure without that of the harness, in rounds that the harness took part in.
	net, has := t.Over(func(r ...result.Record) float64 {
		h := want.Figure.Of(r[2])
		return (want.Figure.Of(r[0]) - h) / (want.Figure.Of(r[1]) - h)
	}, own, peer, Cell{want.Row, result.Harness})
	if has && want.Figure.Name == SettledCPU.Name {
		note = " (net of the harness " + Number(net.Value) + ")"
	}
	return ratio, note, ok
}

// SettledCPU is processor time until background work is done, which the harness has a
// share in.
var SettledCPU = Figure{"CPU, background included", " ns", Key(result.SettledCPU, 1)}

func (w Target) wanted() string {
	unit := ""
	if w.Peer == "" {
		unit = w.Figure.Unit
	}
	sign := map[[2]bool]string{
		{true, false}: "≥ ", {true, true}: "> ", {false, false}: "≤ ", {false, true}: "< ",
	}[[2]bool{w.Above, w.Strict}]
	return sign + Number(w.Bound) + unit
}

func (w Target) holds(v float64) bool {
	switch {
	case w.Strict && v == w.Bound:
		return false
	case w.Above:
		return v >= w.Bound
	}
	return v <= w.Bound
}

// checks returns the checks of a kind as rows, and a sentence that counts the verdicts.
func (t *Table) checks(k *Kind) (rows [][]string, tally string) {
	checks, remark := k.Checks(t)
	n, last := map[Verdict]int{}, ""
	for _, c := range checks {
		n[c.Verdict]++
		rounds := "–"
		if c.Rounds > 0 {
			rounds = fmt.Sprint(c.Rounds)
		}
		name := c.Target
		if name == last {
			name = ""
		}
		last = c.Target
		rows = append(rows, []string{name, c.Case, c.Figure, c.Want, c.Got, rounds,
			string(c.Verdict)})
	}
	tally = fmt.Sprintf("%d reached, %d missed, %d not measured.", n[Reached], n[Missed],
		n[Unknown])
	if remark != "" {
		tally += " " + remark
	}
	if len(t.Failed) > 0 {
		tally += fmt.Sprintf(" **%d failed**, without figures.", len(t.Failed))
	}
	if slices.ContainsFunc(checks, func(c Check) bool { return c.Rounds > 0 && c.Rounds < 3 }) {
		tally += " Some figures are of fewer than three rounds."
	}
	return rows, tally
}

var checkHead = []string{"target", "case", "figure", "wanted", "measured", "rounds", "verdict"}
