package report_test

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/peers"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// sample is two runs: one with everything that a report shows, one with an engine that
// has nothing to be compared with.
func sample() []result.Run {
	opened := speeds("reopen", "reopen-killed", "pebble", 1, 2)
	opened[0].Figures["lost_records"] = 17
	first := run(meta(),
		fills("kstone", 2000, 500_000, 400_000, 600_000),
		fills("pebble", 6000, 100_000, 200_000, 200_000),
		fills("harness", 100, 5e6, 5e6, 5e6),
		speeds("seq", "readseq", "kstone", 1, 2e6), speeds("point", "readseq", "kstone", 1, 3e6),
		speeds("point", "readrandom", "kstone", 8, 1e6),
		speeds("point", "readrandom", "pebble", 8, 4e5),
		speeds("reopen", "reopen-killed", "kstone", 1, 4), opened,
		[]result.Record{{Table: "ycsb", Engine: "pebble", Round: 1, Case: "-",
			Error: "exit status 2:\nboom"}},
	)
	second := run(meta(), speeds("point", "readrandom", "lmdb", 8, 3e6))
	second.Torn, second.Meta.Commit = true, "decade"
	return []result.Run{first, second}
}

// write makes the page of the sample, and charts beside it.
func write(t *testing.T) (text, charts string) {
	t.Helper()
	dir := t.TempDir()
	page, charts := filepath.Join(dir, "page.md"), filepath.Join(dir, "charts")
	if err := report.Write(io.Discard, &peers.Kind, sample(), page, charts); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), charts
}

func TestPageGolden(t *testing.T) {
	text, _ := write(t)
	if *update {
		if err := os.WriteFile("testdata/report.golden", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/report.golden")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(want), "\n")
	got := strings.Split(text, "\n")
	for i, line := range got {
		if i >= len(lines) || line != lines[i] {
			t.Fatalf("line %d is %q; the golden file, which -update writes, has %q", i+1, line,
				lines[min(i, len(lines)-1)])
		}
	}
	if len(got) < len(lines) {
		t.Fatalf("the page ends before line %d, %q", len(got)+1, lines[len(got)])
	}
	var b strings.Builder
	if err := report.Write(&b, &peers.Kind, sample(), "", ""); err != nil ||
		strings.Contains(b.String(), "![") || !strings.Contains(b.String(), "| fillseq |") {
		t.Errorf("without charts: %v\n%s", err, &b)
	}
}

// TestEveryLinkedChartIsWritten compares the page with the files.
func TestEveryLinkedChartIsWritten(t *testing.T) {
	text, charts := write(t)
	linked := map[string]bool{}
	for part := range strings.SplitSeq(text, "](charts/") {
		if name, _, ok := strings.Cut(part, ".svg)"); ok {
			linked[name+".svg"] = true
		}
	}
	files, err := os.ReadDir(charts)
	if err != nil || len(files) < 5 {
		t.Fatalf("%d charts, %v", len(files), err)
	}
	for _, f := range files {
		if !linked[f.Name()] {
			t.Errorf("%s is not on the page", f.Name())
		}
		delete(linked, f.Name())
	}
	if len(linked) > 0 {
		t.Errorf("linked but not there: %v", linked)
	}
}

func TestUpdatePageReplacesTheGeneratedPartOnly(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	for _, text := range []string{"first", "second"} {
		if err := report.UpdatePage(page, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := os.ReadFile(page)
	if !strings.Contains(string(got), "-->\n\nsecond\n\n<!--") ||
		strings.Contains(string(got), "first") {
		t.Fatalf("page is %q", got)
	}
	kept := strings.Replace(string(got), "# Measurements", "# Peers\n\nBy hand.", 1) + "\nAfter.\n"
	if err := os.WriteFile(page, []byte(kept), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := report.UpdatePage(page, "third"); err != nil {
		t.Fatal(err)
	}
	got, _ = os.ReadFile(page)
	if want := strings.Replace(kept, "second", "third", 1); string(got) != want {
		t.Errorf("page is %q, want %q", got, want)
	}
	if err := os.WriteFile(page, []byte("# No marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if report.UpdatePage(page, "") == nil {
		t.Error("a page without the comments is changed")
	}
}

func TestLinks(t *testing.T) {
	for _, c := range [][3]string{
		{"docs/benchmarks/peers.md", "docs/benchmarks/charts", "charts"},
		{"build/a.md", "build/charts/a", "charts/a"}, {"", "build/charts", "build/charts"},
		{"docs/a.md", "build/charts", "../build/charts"}, {"docs/a.md", "", ""},
	} {
		if got, err := report.Links(c[0], c[1]); got != c[2] || err != nil {
			t.Errorf("Links(%q, %q) = %q, %v; want %q", c[0], c[1], got, err, c[2])
		}
	}
}

// TestThePageOfResultsCanBeUpdated replaces the results on a copy of the page.
func TestThePageOfResultsCanBeUpdated(t *testing.T) {
	before, err := os.ReadFile("../../../../docs/benchmarks/peers.md")
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "peers.md")
	if err := os.WriteFile(page, before, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := report.UpdatePage(page, "## New\n"); err != nil {
		t.Fatal(err)
	}
	after, _ := os.ReadFile(page)
	head, _, _ := strings.Cut(string(before), "<!--")
	if !strings.HasPrefix(string(after), head) || !strings.Contains(string(after), "\n## New\n") {
		t.Errorf("the page becomes %q", after)
	}
}
