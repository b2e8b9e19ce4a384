package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const rawText = `{"meta":{"cpu":"Abacus","cores":2,"records":2000000,"value_bytes":100,` +
	`"versions":{"kstone":"c0ffee"},"unsynced":{"kstone":"kill"}}}
{"chain":"seq","workload":"fillseq","engine":"kstone","goroutines":1,"per_second":400000}
{"chain":"seq","workload":"fillseq","engine":"pebble","goroutines":1,"per_second":100000}
{"chain":"seq","workl`

func rawFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "raw.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReportCommand(t *testing.T) {
	dir, raw := t.TempDir(), rawFile(t, rawText)
	page, charts := filepath.Join(dir, "page.md"), filepath.Join(dir, "charts")
	for range 2 { // the second time, the page exists
		var out bytes.Buffer
		err := makeReport([]string{"-page", page, "-charts", charts, raw}, &out)
		if err != nil || out.Len() > 0 {
			t.Fatalf("report: %v, printed %q", err, out.String())
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "](charts/ratio.svg)") ||
		!strings.Contains(string(text), "not to its end") {
		t.Errorf("page is %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(charts, "ratio.svg")); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if err := makeReport([]string{raw}, &out); err != nil ||
		strings.Contains(out.String(), "![") || !strings.Contains(out.String(), "4.00") {
		t.Errorf("report without charts: %v\n%s", err, out.String())
	}
}

func TestTargetsCommand(t *testing.T) {
	var out bytes.Buffer
	if err := checkTargets([]string{rawFile(t, rawText)}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "3 reached, 0 missed, ") {
		t.Errorf("targets:\n%s", out.String())
	}
}

func TestFilesOfDifferentMachinesAreRefused(t *testing.T) {
	other := rawFile(t, strings.Replace(rawText, "Abacus", "Slide rule", 1))
	err := checkTargets([]string{rawFile(t, rawText), other}, new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "different machines") {
		t.Errorf("error %v", err)
	}
	if err := checkTargets(nil, new(bytes.Buffer)); err == nil {
		t.Error("no file at all passes")
	}
}

func TestKeysCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	var out bytes.Buffer
	args := []string{"-rounds", "3", "-db-rounds", "1", "-n", "200", "-json", file}
	err := measureKeys(args, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kstone, struct", "google/orderedcode", "TiKV/TiDB codec",
		"FoundationDB", "specification", "one key", "two keys", "200 records"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, out.String())
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"prefix_scans"`) {
		t.Errorf("JSON %.200s, %v", text, err)
	}
	for _, bad := range [][]string{{"-rounds", "0"}, {"-db-rounds", "-1"}, {"-n", "99"}, {"x"},
		{"-json", t.TempDir(), "-rounds", "1", "-db-rounds", "1", "-n", "100"}} {
		if err := measureKeys(bad, new(bytes.Buffer)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestDedupCommand(t *testing.T) {
	dir := t.TempDir()
	raw, page := filepath.Join(dir, "raw", "dedup.jsonl"), filepath.Join(dir, "dedup.md")
	err := measureDedup([]string{"-quick", "-rows", "20000", "-repeat", "1", "-queries", "1000",
		"-dir", dir, "-out", raw, "-page", page}, os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "## Aims") {
		t.Errorf("page is %q, %v", text, err)
	}
	again := filepath.Join(dir, "again.md")
	if err := measureDedup([]string{"-from", raw, "-page", again}, os.Stdout); err != nil {
		t.Fatal(err)
	}
	if same, err := os.ReadFile(again); err != nil || !bytes.Equal(same, text) {
		t.Errorf("page of raw results is %q, %v", same, err)
	}
	for _, bad := range [][]string{{"more"}, {"-from", filepath.Join(dir, "no")}} {
		if err := measureDedup(bad, os.Stdout); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestSmallCommand(t *testing.T) {
	dir := t.TempDir()
	raw, page := filepath.Join(dir, "small.jsonl"), filepath.Join(dir, "small.md")
	if err := measureSmall([]string{"-quick", "-dir", dir, "-out", raw, "-page", page},
		os.Stdout); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "## 40 items by 40 openings") {
		t.Errorf("page is %q, %v", text, err)
	}
	var again bytes.Buffer
	if err := measureSmall([]string{"-from", raw}, &again); err != nil ||
		!strings.Contains(string(text), strings.TrimSpace(again.String())) {
		t.Errorf("page of raw results is %q, %v", again.String(), err)
	}
	for _, bad := range [][]string{{"more"}, {"-from", filepath.Join(dir, "no")}} {
		if err := measureSmall(bad, os.Stdout); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
