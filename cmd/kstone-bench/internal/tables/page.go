package tables

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// Command is how the measurements of the documents are repeated.
const Command = "cd cmd/kstone-bench && go run -tags sqlite . tables \\\n" +
	"    -out ../../docs/benchmarks/raw/tables.jsonl \\\n" +
	"    -page ../../docs/benchmarks/tables.md -charts ../../docs/benchmarks/charts"

// WritePage replaces the generated part of a page, which is made if it does not exist.
// Charts is the directory that gets the charts; "": none.
func WritePage(page, charts string, r *Result) error {
	if charts != "" {
		if err := WriteCharts(charts, r); err != nil {
			return err
		}
	}
	links, err := report.Links(page, charts)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := Markdown(&text, links, r); err != nil {
		return err
	}
	return report.UpdatePage(page, text.Bytes())
}

// What is said above the tables.
const (
	aboutReads = "Operations a second; whole answers are copied into structs. A range has 20 " +
		"rows, in the order of the index.\n\n"
	aboutInserts = "Rows a second, one goroutine, behind the rows that are loaded (where commits " +
		"are synced, a tenth of them). One index is over `at`, which is random; three are that, " +
		"a unique one over a random text, and one over another random number.\n\n"
	aboutShards = "Eight goroutines insert rows with random keys and ascending values in the one " +
		"index. Entries are counted in each of the 256 stripes after the insertion.\n\n"
)

// Markdown writes the conditions, targets and tables. Links is where the charts are.
func Markdown(w io.Writer, links string, r *Result) error {
	s, out := summarise(r.Samples), &bytes.Buffer{}
	head(out, r)
	picture := func(file, alt string) {
		if links != "" {
			fmt.Fprintf(out, "![%s](%s/%s)\n\n", alt, links, file)
		}
	}
	picture(fileRatio, titleRatio)
	targets(out, s)
	if lines := s.of(groupReads); len(lines) > 0 {
		out.WriteString("\n## Reads\n\n" + aboutReads)
		picture(fileReads, titleReads)
		speeds(out, s, lines)
		prepared(out, s, lines)
		memory(out, s, lines)
	}
	if lines := s.of(groupInserts); len(lines) > 0 {
		out.WriteString("\n## Insertion\n\n" + aboutInserts)
		picture(fileInserts, titleInserts)
		speeds(out, s, lines)
	}
	own(out, s)
	spans(out, s)
	if len(s.of(groupShards)) > 0 {
		out.WriteString("\n## Ascending values in sharded indexes\n\n" + aboutShards)
		picture(fileShards, titleShards)
		shards(out, s)
	}
	_, err := io.WriteString(w, wrap(out.String()))
	return err
}

// pageColumns is the width of prose in pages.
const pageColumns = 100

// wrap breaks the long lines of prose and lists.
func wrap(text string) string {
	var out strings.Builder
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "|") || strings.HasPrefix(l, "![") {
			out.WriteString(l)
			continue
		}
		indent := ""
		if strings.HasPrefix(l, "- ") {
			indent = "  "
		}
		for len(l) > pageColumns {
			at := strings.LastIndexByte(l[:pageColumns], ' ')
			if at <= len(indent) {
				break
			}
			out.WriteString(l[:at] + "\n")
			l = indent + l[at+1:]
		}
		out.WriteString(l)
	}
	return out.String()
}

func head(w io.Writer, r *Result) {
	m := r.Meta
	fmt.Fprintf(w, "Repeat this on a machine that has nothing else to do:\n\n```sh\n%s\n```\n\n",
		Command)
	fmt.Fprintf(w, "%s, %d cores, %s, commit %s, load at the start %s. %d rows of about 130 "+
		"bytes; medians of %d rounds, in which every engine has a turn of %.3g s for each line. "+
		"Ratios are medians of the ratios within rounds. Before measuring, every engine has "+
		"answered random questions of each kind as the data says, so all return equal rows.\n\n",
		m.CPU, m.Cores, m.Go, m.Commit, m.Load, m.Records, m.Repeats, m.Seconds)
	for _, e := range engines {
		if version, ok := m.Versions[e.name]; ok {
			fmt.Fprintf(w, "- **%s** %s. %s\n", e.name, version, e.tuning)
		}
	}
	fmt.Fprintln(w)
}

func targets(w io.Writer, s *summary) {
	checks, reached := s.checks(), 0
	for _, c := range checks {
		if c.reached {
			reached++
		}
	}
	fmt.Fprintf(w, "## Targets\n\n%d reached, %d missed.\n\n", reached, len(checks)-reached)
	fmt.Fprint(w, "| line | wanted | measured | |\n|---|---|---|---|\n")
	for _, c := range checks {
		verdict := "reached"
		if !c.reached {
			verdict = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", c.what, c.wanted, c.measured, verdict)
	}
}

// header writes the head of a table with a column for each engine.
func header(w io.Writer, first string, engines []string) {
	fmt.Fprintf(w, "| %s | %s |\n|---|%s\n", first, strings.Join(engines, " | "),
		strings.Repeat("---:|", len(engines)))
}

// speeds writes operations a second and, behind those of the others, kstone's ratio to them.
func speeds(w io.Writer, s *summary, lines []line) {
	engines := s.engines[lines[0].group]
	header(w, "", engines)
	for _, l := range lines {
		fmt.Fprintf(w, "| %s |", l.label())
		for _, e := range engines {
			v, ok := s.middle(l, e, rate)
			if !ok {
				fmt.Fprint(w, " |")
				continue
			}
			fmt.Fprintf(w, " %s", thousands(v))
			if ratio, ok := s.ratio(l, subject, l, e); ok && e != subject {
				fmt.Fprintf(w, " (%s×)", figure(ratio))
			}
			fmt.Fprint(w, " |")
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "\nIn parentheses: how many times as fast kstone is.\n")
}

// thousands writes a rate.
func thousands(v float64) string {
	if v >= 1000 {
		return figure(v/1000) + " k"
	}
	return figure(v)
}

// prepared compares prepared queries with others, of engines that have them.
func prepared(w io.Writer, s *summary, lines []line) {
	fmt.Fprint(w, "\nPrepared beside not prepared, point get by primary key:\n\n")
	engines := s.engines[groupReads]
	header(w, "goroutines", engines)
	for _, l := range lines {
		if l.name != casePrepared {
			continue
		}
		fmt.Fprintf(w, "| %d |", l.goroutines)
		for _, e := range engines {
			once := line{l.group, caseUnprepared, l.goroutines}
			if v, ok := s.ratio(l, e, once, e); ok {
				fmt.Fprintf(w, " %s× |", figure(v))
			} else {
				fmt.Fprint(w, " |")
			}
		}
		fmt.Fprintln(w)
	}
}

// memory writes allocations, which goroutines share.
func memory(w io.Writer, s *summary, lines []line) {
	fmt.Fprint(w, "\nObjects allocated by Go for an operation, one goroutine:\n\n")
	engines := s.engines[groupReads]
	header(w, "", engines)
	for _, l := range lines {
		if l.goroutines != 1 {
			continue
		}
		fmt.Fprintf(w, "| %s |", l.name)
		for _, e := range engines {
			v, _ := s.middle(l, e, allocs)
			fmt.Fprintf(w, " %s |", figure(v))
		}
		fmt.Fprintln(w)
	}
}

func own(w io.Writer, s *summary) {
	for _, l := range s.of(groupOwn) {
		fmt.Fprint(w, "\n## What a query costs beside reading\n\nA point get by primary key. "+
			"`"+ownRaw+"` builds the key, reads it with the engine, and decodes the row.\n\n"+
			"| way | ns | × "+ownRaw+" | objects |\n|---|---:|---:|---:|\n")
		for _, e := range s.engines[groupOwn] {
			ns, _ := s.middle(l, e, nanoseconds)
			times, _ := s.ratio(l, ownRaw, l, e)
			n, _ := s.middle(l, e, allocs)
			fmt.Fprintf(w, "| %s | %.0f | %.2f | %s |\n", e, ns, times, figure(n))
		}
	}
}

func spans(w io.Writer, s *summary) {
	lines := s.of(groupSpans)
	if len(lines) == 0 {
		return
	}
	fmt.Fprint(w, "\n## Spans\n\nThe time from parameters to sorted, disjoint spans over an index "+
		"(a, b).\n\n| predicate | ns | objects |\n|---|---:|---:|\n")
	for _, l := range lines {
		ns, _ := s.middle(l, subject, nanoseconds)
		n, _ := s.middle(l, subject, allocs)
		fmt.Fprintf(w, "| `%s` | %.0f | %s |\n", l.name, ns, figure(n))
	}
}

func shards(w io.Writer, s *summary) {
	fmt.Fprint(w, "| | index | rows/s | × plain | stripes used | entries min | median | max | "+
		"busiest stripe |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, l := range s.of(groupShards) {
		for _, e := range s.engines[groupShards] {
			v, ok := s.middle(l, e, rate)
			samples := s.samples[l][e]
			if !ok || samples[0].Spread == nil {
				continue
			}
			ratio, _ := s.ratio(l, e, l, shardEngine(0))
			p := samples[0].Spread
			fmt.Fprintf(w, "| %s | %s | %s | %.2f | %d | %d | %d | %d | %.1f %% |\n", l.name, e,
				thousands(v), ratio, p.Used, p.Min, p.Median, p.Max, 100*p.Share)
		}
	}
}
