package large_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/large"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// A tiny run has all figures of each database, and a page.
func TestRun(t *testing.T) {
	s := large.Full()
	s.Quick()
	s.Dir, s.Bytes, s.Sizes, s.Overwrites, s.Reads = t.TempDir(), 4<<20, s.Sizes[1:], 1, 50
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	run := result.Run{Meta: s.Meta()}
	err := s.Run(t.Context(), func(r result.Record) error {
		run.Records = append(run.Records, r)
		for name, v := range r.Figures {
			if v <= 0 {
				t.Errorf("%s: %s is %v", r.Engine, name, v)
			}
		}
		if len(r.Figures) != 7 {
			t.Errorf("%s: %d figures", r.Engine, len(r.Figures))
		}
		return nil
	})
	if err != nil || len(run.Records) != len(s.Engines) {
		t.Fatalf("%d records, %v", len(run.Records), err)
	}
	if left, err := filepath.Glob(filepath.Join(s.Dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	var page bytes.Buffer
	if err := report.Write(&page, &large.Kind, []result.Run{run}, "", ""); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "| 64KiB |") {
		t.Errorf("a page without a row: %s", &page)
	}
	s.Sizes = []string{"2KiB"}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "-sizes 2KiB") {
		t.Errorf("an unknown size: %v", err)
	}
}
