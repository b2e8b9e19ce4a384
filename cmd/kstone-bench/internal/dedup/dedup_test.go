package dedup_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dedup"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// TestRun measures tiny sizes and makes a page of them.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	s := dedup.Settings{Rows: 40_000, Large: true, Repeat: 2, Queries: 3000, Dir: dir,
		Builds: []int{10_000}, EngineRows: 20_000, EngineQueries: 5000}
	var records []result.Record
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	err := s.Run(t.Context(), func(r result.Record) error {
		records = append(records, r)
		positive := r.Figures["positive"]
		if strings.Contains(r.Case, "outside") && positive != 0 {
			t.Errorf("keys outside of the zones are present: %+v", r)
		}
		if strings.Contains(r.Case, "sorted questions") && positive != 1 && positive != 0 {
			t.Errorf("present keys are denied: %+v", r)
		}
		if r.Table == "exact" && r.Engine == "batch" && strings.Contains(r.Case, "absent") &&
			positive != 0 {
			t.Errorf("exact answers are wrong: %+v", r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "dedup.md")
	if err := report.Write(io.Discard, &dedup.Kind, []result.Run{{Meta: s.Meta(),
		Records: records}}, page, filepath.Join(dir, "charts")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "| 40 k in 10, sorted data,") {
		t.Errorf("page of %d bytes, %v", len(text), err)
	}
	if !strings.Contains(string(text), "0 reached, 0 missed") {
		t.Error("tiny sizes are judged")
	}
	for _, want := range []string{
		"| 5 k keys, 90 % new, in 20 k, wall time | pebble |",
		"| 5 k keys, 90 % new, in 20 k, processor time | kstone |",
		"| 5 k keys, 90 % new, in 20 k, wall time | kstone, one worker |"} {
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
	if err := new(dedup.Settings).Check(); err == nil {
		t.Error("no rows are accepted")
	}
}
