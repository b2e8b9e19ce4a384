package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

const rawText = `{"meta":{"kind":"chains","cpu":"Abacus","cores":2,"records":2000000,` +
	`"value_bytes":100,"versions":{"kstone":"c0ffee"},"notes":{"kstone":"kill"}}}
{"table":"seq","case":"fillseq","engine":"kstone","goroutines":1,"figures":{"per_second":400000}}
{"table":"seq","case":"fillseq","engine":"pebble","goroutines":1,"figures":{"per_second":100000}}
{"table":"seq","cas`

func rawFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "raw.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// invoke runs the program and returns what it prints.
func invoke(args ...string) (string, error) {
	var out bytes.Buffer
	err := run(args, &out, io.Discard)
	return out.String(), err
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReportCommand(t *testing.T) {
	dir, raw := t.TempDir(), rawFile(t, rawText)
	page, charts := filepath.Join(dir, "page.md"), filepath.Join(dir, "charts")
	for range 2 { // the second time, the page exists
		out, err := invoke("report", "-page", page, "-charts", charts, raw)
		if err != nil || out != "" {
			t.Fatalf("report: %v, printed %q", err, out)
		}
	}
	if text := read(t, page); !strings.Contains(text, "](charts/ratio.svg)") ||
		!strings.Contains(text, "not to its end") {
		t.Errorf("page is %q", text)
	}
	read(t, filepath.Join(charts, "ratio.svg"))
	out, err := invoke("report", raw)
	if err != nil || strings.Contains(out, "![") || !strings.Contains(out, "4.00") {
		t.Errorf("report without charts: %v\n%s", err, out)
	}
	unknown := rawFile(t, strings.Replace(rawText, "chains", "guesses", 1))
	if _, err := invoke("report", unknown); err == nil {
		t.Error("raw results of an unknown kind pass")
	}
}

func TestTargetsCommand(t *testing.T) {
	out, err := invoke("targets", rawFile(t, rawText))
	if err != nil || !strings.Contains(out, "3 reached, 0 missed, ") {
		t.Errorf("targets: %v\n%s", err, out)
	}
	small := rawFile(t, strings.Replace(rawText, "chains", "small", 1))
	if _, err := invoke("targets", small); err == nil {
		t.Error("there are targets for small databases")
	}
}

func TestFilesOfDifferentMachinesAreRefused(t *testing.T) {
	other := rawFile(t, strings.Replace(rawText, "Abacus", "Slide rule", 1))
	_, err := invoke("targets", rawFile(t, rawText), other)
	if err == nil || !strings.Contains(err.Error(), "different machines") {
		t.Errorf("error %v", err)
	}
	if _, err := invoke("targets"); err == nil {
		t.Error("no file at all passes")
	}
}

// TestCommandsMeasureAndReport has every command measure a little. The page is that of its
// raw results.
func TestCommandsMeasureAndReport(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"keys": {[]string{"-codec-repeat", "3", "-n", "200"}, "| table, an index |"},
		"dedup": {[]string{"-n", "20000", "-repeat", "1", "-queries", "1000", "-engine-n", "10000",
			"-engine-queries", "1000"}, "## Table: growth"},
		"small": {nil, "## 40 items by 40 openings"},
		"tables": {[]string{"-engines", "kstone,bstore", "-n", "200", "-repeat", "1", "-turn",
			"1ms", "-short", "100us"}, "## Spans"},
	} {
		dir := t.TempDir()
		raw, page := filepath.Join(dir, "raw", "results.jsonl"), filepath.Join(dir, "page.md")
		args := append([]string{name, "-quick", "-out", raw, "-page", page}, c.args...)
		if name != "keys" {
			args = append(args, "-dir", dir)
		}
		if out, err := invoke(args...); err != nil || out != "" {
			t.Fatalf("%s: %v, printed %q", name, err, out)
		}
		text := read(t, page)
		again, err := invoke("report", raw)
		if err != nil || !strings.Contains(text, c.want) ||
			!strings.Contains(text, strings.TrimSpace(again)) {
			t.Errorf("%s: %v: the page is %s, of raw results %s", name, err, text, again)
		}
	}
}

// failing is a measurement with a failure.
type failing struct{ measurement }

func (failing) Check() error      { return nil }
func (failing) Meta() result.Meta { return result.Meta{Kind: "chains"} }
func (failing) Run(_ context.Context, emit func(result.Record) error) error {
	return emit(result.Record{Table: "seq", Case: "-", Engine: "kstone", Error: "boom"})
}

// TestFailuresFailTheCommand: the report is written nevertheless.
func TestFailuresFailTheCommand(t *testing.T) {
	var out bytes.Buffer
	c := command{setup: func(*flag.FlagSet) measurement { return failing{} }}
	err := c.run([]string{"-out", filepath.Join(t.TempDir(), "raw.jsonl")}, &out, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "1 failures") ||
		!strings.Contains(out.String(), "round 1: boom") {
		t.Errorf("error %v\n%s", err, &out)
	}
}

func TestCommandsThatAreRefused(t *testing.T) {
	raw := filepath.Join(t.TempDir(), "raw.jsonl")
	for _, bad := range [][]string{{"keys", "-n", "99"}, {"keys", "more"}, {"dedup", "-n", "1"},
		{"small", "more"}, {"tables", "-n", "1"}, {"tables", "-engines", "oracle"},
		{"-chains", "daisy"}, {"-skip", "x"}, {"small", "-out", t.TempDir()}, {"guess"}, {"ycsb"},
		{"-chains", "seq,seq"},
		{"report", raw}} {
		if len(bad) < 3 || bad[1] != "-out" {
			bad = append(bad[:1:1], append([]string{"-out", raw}, bad[1:]...)...)
		}
		if _, err := invoke(bad...); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestPagesAreOfTheirRawResults makes the pages of the documents again.
func TestPagesAreOfTheirRawResults(t *testing.T) {
	docs := filepath.FromSlash("../../docs/benchmarks")
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, file := range pages {
		name, want := strings.TrimSuffix(filepath.Base(file), ".md"), read(t, file)
		raw, err := filepath.Glob(filepath.Join(docs, "raw", name+"*.jsonl"))
		if err != nil || len(raw) == 0 {
			if strings.Contains(want, "## Machine and versions") {
				t.Errorf("raw results of %s: %v, %v", name, raw, err)
			}
			continue
		}
		made++
		dir := t.TempDir()
		page := filepath.Join(dir, name+".md")
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"report", "-page", page, "-charts", filepath.Join(dir, "charts")},
			raw...)
		if _, err := invoke(args...); err != nil {
			t.Fatal(err)
		}
		if read(t, page) != want {
			t.Errorf("%s.md is not that of its raw results", name)
		}
		charts, _ := filepath.Glob(filepath.Join(dir, "charts", "*.svg"))
		for _, c := range charts {
			if read(t, c) != read(t, filepath.Join(docs, "charts", filepath.Base(c))) {
				t.Errorf("%s is not that of its raw results", filepath.Base(c))
			}
		}
	}
	if made < 5 {
		t.Errorf("%d pages have raw results", made)
	}
}
