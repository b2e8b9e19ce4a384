package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// Markdown writes the tables: throughput with ratios, processor time, latencies,
// bytes.
func Markdown(w io.Writer, m Meta, t *Table) error {
	p := &page{w: w}
	p.head(m)
	for _, chain := range t.chains() {
		p.chain(t, chain)
	}
	p.means(t)
	for _, f := range t.Failed {
		p.printf("- failed: %s, chain %s, round %d: %s\n", f.Engine, f.Chain, f.Repeat+1, f.Error)
	}
	return p.err
}

type page struct {
	w   io.Writer
	err error
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

func (p *page) head(m Meta) {
	p.printf("%s, %d cores, %d GiB, Linux %s, %s. Commit %s, %s. Load at the start: %s.\n",
		m.CPU, m.Cores, m.MemoryKB>>20, m.Kernel, m.Go, m.Commit, m.Time.Format("2006-01-02 15:04"),
		m.Load)
	p.printf("\n`kstone-bench %s`\n\n", strings.Join(m.Command, " "))
	p.header("engine", "version", "an unsynced write survives")
	for _, e := range sortedKeys(m.Versions) {
		p.row(e, m.Versions[e], m.Unsynced[e])
	}
	p.printf("\n")
}

// chains lists the chains in the order they ran.
func (t *Table) chains() []string {
	var out []string
	for _, r := range t.Rows {
		if len(out) == 0 || out[len(out)-1] != r.Chain {
			out = append(out, r.Chain)
		}
	}
	return out
}

func (p *page) chain(t *Table, chain string) {
	p.printf("## Chain %s\n\nThousand operations (rows, for scans) a second:\n\n", chain)
	p.header(append([]string{"workload"}, append(t.Engines, ratioHeads(t)...)...)...)
	t.each(chain, func(row Row) {
		cells := t.line(row, func(r workload.Result) string { return number(r.PerSecond / 1000) })
		p.row(append(cells, t.ratios(row)...)...)
	})
	p.printf("\nProcessor time in ns an operation, in brackets until background work is done:\n\n")
	p.header(append([]string{"workload"}, t.Engines...)...)
	t.each(chain, func(row Row) {
		p.row(t.line(row, func(r workload.Result) string {
			if r.SettledCPUNs == 0 {
				return number(r.CPUNs)
			}
			return fmt.Sprintf("%s (%s)", number(r.CPUNs), number(r.SettledCPUNs))
		})...)
	})
	p.printf("\nLatency in µs: p50 / p99 / p99.9 / longest of all rounds:\n\n")
	p.header(append([]string{"workload"}, t.Engines...)...)
	t.each(chain, func(row Row) {
		p.row(t.line(row, func(r workload.Result) string {
			return strings.Join([]string{
				number(r.P50), number(r.P99), number(r.P999), number(r.Max),
			}, " / ")
		})...)
	})
	p.printf("\nBytes written by bytes given, bytes on disk by live bytes, peak RSS in MiB:\n\n")
	p.header(append([]string{"workload"}, t.Engines...)...)
	t.each(chain, func(row Row) {
		p.row(t.line(row, func(r workload.Result) string {
			return strings.Join([]string{
				fraction(r.WrittenBytes, r.UserBytes), fraction(r.DiskBytes, r.LiveBytes),
				number(float64(r.PeakRSSBytes) / (1 << 20)),
			}, " / ")
		})...)
	})
	p.printf("\n")
}

func ratioHeads(t *Table) []string {
	var out []string
	for _, e := range t.Engines {
		if e != subject {
			out = append(out, "÷ "+e)
		}
	}
	return append(out, "÷ best")
}

func (t *Table) each(chain string, f func(Row)) {
	for _, r := range t.Rows {
		if r.Chain == chain {
			f(r)
		}
	}
}

func (t *Table) line(row Row, f func(workload.Result) string) []string {
	out := []string{row.String()}
	for _, e := range t.Engines {
		text := "–"
		if r, ok := t.Cell(row, e); ok {
			text = f(r)
		}
		out = append(out, text)
	}
	return out
}

// Ratio is the throughput of kstone by that of another engine.
func (t *Table) Ratio(row Row, engine string) (float64, bool) {
	a, ok1 := t.Cell(row, subject)
	b, ok2 := t.Cell(row, engine)
	if !ok1 || !ok2 || b.PerSecond == 0 {
		return 0, false
	}
	return a.PerSecond / b.PerSecond, true
}

func (t *Table) ratios(row Row) []string {
	var out []string
	best := math.Inf(1)
	for _, e := range t.Engines {
		if e == subject {
			continue
		}
		text := "–"
		if r, ok := t.Ratio(row, e); ok {
			text, best = fmt.Sprintf("%.2f", r), min(best, r)
		}
		out = append(out, text)
	}
	if math.IsInf(best, 1) {
		return append(out, "–")
	}
	return append(out, fmt.Sprintf("**%.2f**", best))
}

// means writes the geometric means of the ratios.
func (p *page) means(t *Table) {
	p.printf("## Geometric mean of the ratios\n\n")
	p.header("peer", "rows", "kstone ÷ peer")
	for _, e := range t.Engines {
		sum, n := 0.0, 0
		for _, row := range t.Rows {
			if r, ok := t.Ratio(row, e); ok && e != subject {
				sum, n = sum+math.Log(r), n+1
			}
		}
		if n > 0 {
			p.row(e, fmt.Sprint(n), fmt.Sprintf("%.2f", math.Exp(sum/float64(n))))
		}
	}
	p.printf("\n")
}

func fraction(a, b int64) string {
	if b == 0 {
		return "–"
	}
	return number(float64(a) / float64(b))
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
	}
	return fmt.Sprintf("%.2f", v)
}
