package dedup

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/chart"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

func remove(name string) { _ = os.Remove(name) }

// about says what each table compares.
var about = map[string]string{
	"build": "Building one filter. The first three are processor time of the thread; the last " +
		"two are wall time of two segments of this size, with one goroutine and with two.",
	"space": "The size of a filter with 8 bits.",
	"memory": "A filter for each segment. `loop` is the study's way: segment by segment, zone " +
		"map, filter of the library. `single` and `batch` are `Set.Contains` and " +
		"`Set.ContainsBatch`; `batch, blocks` has a filter for each block.",
	"blocks": "A filter for each of 40 blocks of a segment, which is sorted. `loop` searches the " +
		"zone maps of each segment.",
	"stripes": "Four segments of 256 shards, against the loop over 10 segments.",
	"exact":   "Positives are checked against stored keys; those of the loop are not checked.",
	"16 bits": "Fingerprints of 16 bits, against the loop with 8.",
	"growth":  "The same data in more segments that do not overlap; the ratio is to 10 segments.",
	"dense":   "Integers without gaps need no filter, with gaps a bitmap.",
	"open":    "Opening a saved filter.",
	"engine": "Which keys are new, asked of whole databases with the same records, durability, " +
		"write buffer and cache: `FilterNew` of kstone, a loop of reads of Pebble, batched reads " +
		"of RocksDB where it is compiled in. The ratio is to kstone: how many times as long. " +
		"Processor time is that of the process.",
}

var order = []string{"build", "space", "memory", "blocks", "stripes", "exact", "16 bits", "growth",
	"dense", "open", "engine"}

// WritePage writes the generated part of a page, and its chart beside it in charts.
func WritePage(file string, meta report.Meta, rows []Row) error {
	dir := filepath.Join(filepath.Dir(file), "charts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "dedup.svg"), ratioChart(rows), 0o644); err != nil {
		return err
	}
	var text appender
	Markdown(&text, meta, rows)
	return report.UpdatePage(file, text)
}

type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// Markdown writes the machine, the aims and the tables.
func Markdown(w io.Writer, m report.Meta, rows []Row) {
	fmt.Fprintf(w, "%s, %d cores, %s, commit %s, load at the start %s; medians of %d rounds.\n\n",
		m.CPU, m.Cores, m.Go, m.Commit, m.Load, m.Repeats)
	fmt.Fprint(w, "![How many times as fast as the loop over segments](charts/dedup.svg)\n\n")
	writeAims(w, rows)
	for _, table := range order {
		writeTable(w, table, rows)
	}
}

// writeAims writes the figures that there is an aim for, with verdicts.
func writeAims(w io.Writer, rows []Row) {
	fmt.Fprint(w, "## Aims\n\n")
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.hasAim() }) {
		fmt.Fprint(w, "There are none for a run of this size.\n")
		return
	}
	fmt.Fprint(w, "Figures that have no aim for their size are in the tables only.\n\n")
	fmt.Fprint(w, "| table | case | contestant | wanted | measured | |\n")
	fmt.Fprint(w, "|---|---|---|---|---|---|\n")
	for i := range rows {
		r := &rows[i]
		if !r.hasAim() {
			continue
		}
		verdict := "reached"
		if !r.Reached() {
			verdict = "**missed**"
		}
		wanted, measured := "", ""
		if r.WantRatio > 0 {
			wanted = fmt.Sprintf("%.3g x ", r.WantRatio)
			measured = fmt.Sprintf("%.3g x ", r.Ratio)
		}
		if r.WantValue > 0 {
			wanted += fmt.Sprintf("≤ %g %s", r.WantValue, r.Unit)
			measured += fmt.Sprintf("%.4g %s", r.Value, r.Unit)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", r.Table, r.Case, r.Contestant, wanted,
			measured, verdict)
	}
}

func writeTable(w io.Writer, table string, rows []Row) {
	fmt.Fprintf(w, "\n## Table: %s\n\n%s\n\n", table, about[table])
	fmt.Fprint(w, "| case | contestant | measured | ratio | called present | the study |\n")
	fmt.Fprint(w, "|---|---|---|---|---|---|\n")
	for _, r := range rows {
		if r.Table != table {
			continue
		}
		optional := func(format string, v float64) string {
			if v == 0 {
				return ""
			}
			return fmt.Sprintf(format, v)
		}
		fmt.Fprintf(w, "| %s | %s | %.4g %s | %s | %s | %s |\n", r.Case, r.Contestant, r.Value,
			r.Unit, optional("%.2f", r.Ratio), optional("%.4g %%", 100*r.Positive),
			optional("%.4g", r.Document))
	}
}

// ratioChart shows by how much single questions and batches are ahead of the loop.
func ratioChart(rows []Row) []byte {
	c := chart.Ratios{Title: "How many times as fast as the loop over segments",
		Note: "Processor time a key; 1 is the loop", Peers: []string{"single", "batch"}}
	at := map[string]int{}
	for _, r := range rows {
		if r.Unit != "ns/key" || r.Contestant != "single" && r.Contestant != "batch" {
			continue
		}
		name := r.Table + ": " + r.Case
		i, ok := at[name]
		if !ok {
			i = len(c.Rows)
			at[name] = i
			c.Rows = append(c.Rows, chart.RatioRow{Name: name, Values: map[string]float64{}})
		}
		c.Rows[i].Values[r.Contestant] = r.Ratio
	}
	return c.SVG()
}
