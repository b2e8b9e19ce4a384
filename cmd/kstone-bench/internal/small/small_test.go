package small_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/small"
)

// A tiny run has a record for each database and case.
func TestRun(t *testing.T) {
	s := small.Settings{
		Dir: t.TempDir(), Cases: []small.Case{{Items: 3, Opens: 1}, {Items: 6, Opens: 3}},
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := s.Run(t.Context(), func(r result.Record) error {
		n++
		f := r.Figures
		if f["files"] == 0 || f["bytes"] == 0 || f["open_ms"] <= 0 || f["put_ms"] <= 0 ||
			f["close_low_ms"] <= 0 || f["close_low_ms"] > f["close_ms"] {
			t.Errorf("%+v", r)
		}
		if r.Engine == "kstone" && (f["files"] > 5 || f["bytes"]-f["reserve"] > 4000) {
			t.Errorf("kstone: %+v", r)
		}
		return nil
	})
	if err != nil || n != 10 {
		t.Errorf("%d records, %v", n, err)
	}
	if left, err := filepath.Glob(filepath.Join(s.Dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	s.Cases[0].Opens = 4
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "4 openings") {
		t.Errorf("more openings than items: %v", err)
	}
}
