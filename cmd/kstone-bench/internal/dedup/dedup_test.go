package dedup_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dedup"
)

// TestRun measures tiny sizes, reads the raw output back and makes a page of it.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	s := dedup.Settings{Rows: 40_000, Large: true, Repeat: 2, Queries: 3000, Dir: dir,
		Builds: []int{10_000}, EngineRows: 20_000, EngineQueries: 5000}
	var raw bytes.Buffer
	rows, _, err := dedup.Run(t.Context(), s, &raw, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	meta, again, err := dedup.Read(&raw)
	if err != nil || len(again) != len(rows) || meta.Repeats != 2 {
		t.Fatalf("%d rows read, %d measured, %v", len(again), len(rows), err)
	}
	for i, r := range rows {
		if r != again[i] {
			t.Errorf("row reads back as %+v, was %+v", again[i], r)
		}
		if strings.Contains(r.Case, "outside") && r.Positive != 0 {
			t.Errorf("keys outside of the zones are present: %+v", r)
		}
		if strings.Contains(r.Case, "sorted questions") && r.Positive != 1 && r.Positive != 0 {
			t.Errorf("present keys are denied: %+v", r)
		}
		if r.Table == "exact" && r.Contestant == "batch" && strings.Contains(r.Case, "absent") &&
			r.Positive != 0 {
			t.Errorf("exact answers are wrong: %+v", r)
		}
	}
	page := filepath.Join(dir, "dedup.md")
	if err := dedup.WritePage(page, meta, rows); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "| 40 K in 10, sorted data,") {
		t.Errorf("page of %d bytes, %v", len(text), err)
	}
	if strings.Contains(string(text), "reached") || strings.Contains(string(text), "missed") {
		t.Error("tiny sizes are judged")
	}
	for _, want := range []string{
		"| 5 K keys, 90 % new, in 20 K, wall time | pebble |",
		"| 5 K keys, 90 % new, in 20 K, processor time | kstone |",
		"| 5 K keys, 90 % new, in 20 K, wall time | kstone, one worker |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "kstone-bench*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "charts", "dedup.svg")); err != nil {
		t.Error(err)
	}
	if _, _, err := dedup.Run(t.Context(), dedup.Settings{}, &raw, io.Discard); err == nil {
		t.Error("no rows are accepted")
	}
}
