package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// Markdown writes the whole report: machine, targets, and for every group of
// workloads throughput with ratios, processor time, latencies and bytes. If links is
// not empty, it is the folder of the charts as seen from the page.
func Markdown(w io.Writer, runs []Run, links string) error {
	t := NewTable(runs)
	p := &page{w: w, links: links}
	p.head(runs)
	p.targets(t)
	p.ratios(t)
	for _, g := range groups {
		if len(t.in(g)) > 0 {
			p.group(t, g)
		}
	}
	if len(t.Failed) > 0 {
		p.printf("## Failures\n\n")
	}
	for _, f := range t.Failed {
		p.printf("- %s, chain %s, round %d: %s\n", f.Engine, f.Chain, f.Repeat+1,
			strings.Join(strings.Fields(f.Error), " "))
	}
	return p.err
}

type page struct {
	w     io.Writer
	links string
	err   error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *page) row(cells ...string) { p.printf("| %s |\n", strings.Join(cells, " | ")) }

func (p *page) header(cells ...string) {
	p.row(cells...)
	p.printf("|%s\n", strings.Repeat("---|", len(cells)))
}

func (p *page) pictures(all ...picture) {
	for _, c := range all {
		if p.links != "" {
			p.printf("![%s](%s/%s)\n\n", c.alt, p.links, c.file)
		}
	}
}

func (p *page) picture(c *picture) {
	if c != nil {
		p.pictures(*c)
	}
}

func (p *page) head(runs []Run) {
	p.printf("## Machine and versions\n\n")
	if len(runs) == 0 {
		return
	}
	m := runs[0].Meta
	p.printf("%s, %d cores, %d GiB, Linux %s, %s; write buffer %d MiB, block cache %d MiB.\n\n",
		m.CPU, m.Cores, m.MemoryKB>>20, m.Kernel, m.Go, m.WriteBuffer>>20, m.Cache>>20)
	p.header("run", "started", "records", "rounds", "kstone", "load before", "command")
	versions, unsynced := map[string][]string{}, map[string]string{}
	for i, r := range runs {
		m := r.Meta
		rounds := fmt.Sprint(m.Repeats)
		if r.Torn {
			rounds += ", not to its end"
		}
		p.row(fmt.Sprint(i+1), m.Time.Format("2006-01-02 15:04"),
			Size{m.Records, m.ValueBytes}.String(), rounds, m.Commit, m.Load,
			"`kstone-bench "+strings.Join(m.Command, " ")+"`")
		for e, v := range m.Versions {
			if !slices.Contains(versions[e], v) {
				versions[e] = append(versions[e], v)
			}
		}
		maps.Copy(unsynced, m.Unsynced)
	}
	p.printf("\n")
	p.header("engine", "version", "an unsynced write survives")
	for _, e := range slices.SortedFunc(maps.Keys(versions), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	}) {
		p.row(e, strings.Join(versions[e], ", "), unsynced[e])
	}
	p.printf("\n")
}

func (p *page) targets(t *Table) {
	checks := CheckTargets(t)
	p.printf("## Targets\n\n%s. Ratios are medians over rounds of ratios within a round.%s\n\n",
		tally(checks), t.caution(checks))
	p.header("target", "workload", "figure", "wanted", "measured", "rounds", "verdict")
	last := ""
	for _, c := range checks {
		name, verdict := c.Target, string(c.Verdict)
		if name == last {
			name = ""
		}
		if last = c.Target; c.Verdict == Missed {
			verdict = "**" + verdict + "**"
		}
		p.row(name, c.Workload, c.Figure, c.Want, c.Got, c.rounds(), verdict)
	}
	p.printf("\n")
}

// ratios writes the chart of all ratios and their means.
func (p *page) ratios(t *Table) {
	p.printf("## All ratios\n\n")
	p.pictures(t.ratioCharts()...)
	p.header("peer", "rows", "geometric mean of kstone ÷ peer")
	for _, e := range t.peers() {
		if mean, n := t.GeometricMean(t.Rows, e); n > 0 {
			p.row(e, fmt.Sprint(n), number(mean))
		}
	}
	p.printf("\n")
}

func (p *page) group(t *Table, g group) {
	p.printf("## %s\n\n%s\n\n", g.title, g.about)
	rows := t.in(g)
	what := "Thousand operations (rows, for scans) a second; kstone ÷ peer"
	if g.times {
		what = "Milliseconds; speed of kstone ÷ peer"
	}
	p.picture(t.speedChart(g))
	p.printf("%s:\n\n", what)
	p.header(slices.Concat([]string{"workload"}, t.Engines, ratioHeads(t))...)
	for _, row := range rows {
		cells := t.line(row, t.Engines, func(r workload.Result) string {
			return number(g.speed(r))
		})
		p.row(append(cells, t.ratioCells(row)...)...)
	}
	p.printf("\n")
	p.cpu(t, g, rows)
	p.latency(t, g, rows)
	p.space(t, g, rows)
	p.extras(t, rows)
}

func (p *page) cpu(t *Table, g group, rows []Row) {
	engines := t.Engines
	if slices.ContainsFunc(rows, func(r Row) bool { return len(t.cells[r][store.Harness]) > 0 }) {
		engines = append(slices.Clone(engines), store.Harness)
	}
	unit, scale := "ns an operation, in brackets until background work is done", 1.0
	if g.times {
		unit, scale = "ms", 1e-6
	}
	p.fold("Processor time in "+unit, t.cpuChart(g))
	p.header(append([]string{"workload"}, engines...)...)
	for _, row := range rows {
		p.row(t.line(row, engines, func(r workload.Result) string {
			if r.SettledCPUNs == 0 {
				return number(r.CPUNs * scale)
			}
			return fmt.Sprintf("%s (%s)", number(r.CPUNs), number(r.SettledCPUNs))
		})...)
	}
	p.unfold()
}

func (p *page) latency(t *Table, g group, rows []Row) {
	if g.times {
		return
	}
	p.fold("Latency in µs: p50 / p99 / p99.9 / longest of all rounds", t.latencyChart(g))
	p.header(append([]string{"workload"}, t.Engines...)...)
	for _, row := range rows {
		p.row(t.line(row, t.Engines, func(r workload.Result) string {
			return strings.Join([]string{
				number(r.P50), number(r.P99), number(r.P999), number(r.Max),
			}, " / ")
		})...)
	}
	p.unfold()
}

func (p *page) space(t *Table, g group, rows []Row) {
	if g.times {
		return
	}
	p.fold("Bytes written by bytes given / bytes on disk by live bytes / peak RSS in MiB",
		t.spaceChart(g))
	p.header(append([]string{"workload"}, t.Engines...)...)
	for _, row := range rows {
		p.row(t.line(row, t.Engines, func(r workload.Result) string {
			return strings.Join([]string{
				number(writeAmplification(r)), number(spaceAmplification(r)), number(rssMiB(r)),
			}, " / ")
		})...)
	}
	p.unfold()
}

// extras lists the figures of single workloads.
func (p *page) extras(t *Table, rows []Row) {
	head := false
	for _, row := range rows {
		for _, name := range t.extraNames(row) {
			if !head {
				p.header(append([]string{"also"}, t.Engines...)...)
				head = true
			}
			cells := t.line(row, t.Engines, func(r workload.Result) string {
				if v, ok := r.Extra[name]; ok {
					return fmt.Sprintf("%.0f", v)
				}
				return "–"
			})
			cells[0] += ": " + strings.ReplaceAll(name, "_", " ")
			p.row(cells...)
		}
	}
	if head {
		p.printf("\n")
	}
}

func (t *Table) extraNames(row Row) []string {
	names := map[string]bool{}
	for _, samples := range t.cells[row] {
		for _, s := range samples {
			for name := range s.result.Extra {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// fold begins a part that readers open if they want it.
func (p *page) fold(summary string, chart *picture) {
	p.printf("<details><summary>%s</summary>\n\n", summary)
	p.picture(chart)
}

func (p *page) unfold() { p.printf("\n</details>\n\n") }

func ratioHeads(t *Table) []string {
	var out []string
	for _, e := range t.peers() {
		out = append(out, "÷ "+e)
	}
	return append(out, "÷ best")
}

func (t *Table) line(row Row, engines []string, f func(workload.Result) string) []string {
	out := []string{t.label(row)}
	for _, e := range engines {
		text := "–"
		if r, ok := t.Cell(row, e); ok {
			text = f(r)
		}
		out = append(out, text)
	}
	return out
}

func (t *Table) ratioCells(row Row) []string {
	var out []string
	for _, e := range t.peers() {
		text := "–"
		if r, ok := t.Ratio(row, e); ok {
			text = number(r.Value)
		}
		out = append(out, text)
	}
	if _, r, ok := t.Best(row); ok {
		return append(out, "**"+number(r.Value)+"**")
	}
	return append(out, "–")
}

// number prints three significant digits, and a dash for nothing.
func number(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v > -0.1 && v < 0.1:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
