package tables_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/tables"
)

func small(dir string) *tables.Settings {
	s := tables.Full()
	s.Rows, s.Repeat, s.Dir = 300, 1, dir
	s.Turn, s.Short = time.Millisecond, 100*time.Microsecond
	return s
}

// TestRun measures tiny sizes: every engine answers as the data says, or Run fails. The
// records make a page with charts.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	s := small(dir)
	run, measured := result.Run{Meta: s.Meta()}, map[string]bool{}
	err := s.Run(t.Context(), func(r result.Record) error {
		run.Records = append(run.Records, r)
		if r.Figures[result.Ops] < 1 || r.Figures[result.Seconds] <= 0 {
			t.Errorf("nothing is measured: %+v", r)
		}
		measured[r.Table+" "+r.Engine] = true
		checkSpread(t, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d databases are left, %v", len(left), err)
	}
	for _, e := range tables.Engines() {
		if !measured["reads "+e] || !measured["inserts "+e] {
			t.Errorf("%s is not measured", e)
		}
	}
	page := filepath.Join(dir, "tables.md")
	if err := report.Write(io.Discard, &tables.Kind, []result.Run{run}, page,
		filepath.Join(dir, "charts")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Targets",
		"](charts/tables-ratio.svg)",
		"| point get by primary key, prepared ×2 |", "| ORDER BY seq LIMIT 10 |",
		"| insert, 3 indexes, batches of 100, synced |", "| Get and decode | ",
		"| a = ? |", "| 256 buckets |", "| badgerhold | "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	charts, err := filepath.Glob(filepath.Join(dir, "charts", "tables-*.svg"))
	if err != nil || len(charts) != 4 {
		t.Errorf("charts %q, %v", charts, err)
	}
}

// checkSpread checks what follows from the number of buckets, whatever the values are.
func checkSpread(t *testing.T, r result.Record) {
	t.Helper()
	used, spread := r.Figures["stripes_used"]
	if spread != (r.Table == "shards") {
		t.Fatalf("%+v: a spread: %v", r, spread)
	}
	if !spread {
		return
	}
	most := map[string]float64{"plain": 1, "16 buckets": 16, "256 buckets": 256}[r.Engine]
	if used < 1 || used > most || r.Figures["stripe_max"] < r.Figures[result.Ops]/used {
		t.Fatalf("%+v", r)
	}
	share := r.Figures["busiest_share"]
	if r.Engine == "plain" && share != 1 || r.Engine == "16 buckets" && share > 0.3 {
		t.Errorf("the busiest stripe of %s has %g of the entries", r.Engine, share)
	}
}

func TestSettings(t *testing.T) {
	for what, change := range map[string]func(*tables.Settings){
		"-n":      func(s *tables.Settings) { s.Rows = 99 },
		"-repeat": func(s *tables.Settings) { s.Repeat = 0 },
		"turns":   func(s *tables.Settings) { s.Turn = 0 },
		"mysql":   func(s *tables.Settings) { s.Engines = []string{"mysql"} },
	} {
		s := small(t.TempDir())
		change(s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := small(t.TempDir())
	s.Engines = []string{"kstone"}
	err := s.Run(ctx, func(result.Record) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after cancelling", err)
	}
	if !slices.Contains(tables.Engines(), "sqlite") {
		t.Errorf("engines %q", tables.Engines())
	}
}
