package tables_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/tables"
)

func small(dir string) tables.Settings {
	s := tables.Quick()
	s.Rows, s.Repeat, s.Dir = 300, 1, dir
	s.Turn, s.Short = time.Millisecond, 100*time.Microsecond
	return s
}

// TestRun measures tiny sizes: every engine answers as the data says, or Run fails. The raw
// output reads back, and makes a page with charts.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	var raw bytes.Buffer
	r, err := tables.Run(t.Context(), small(dir), &raw, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d databases are left, %v", len(left), err)
	}
	again, err := tables.Read(bytes.NewReader(append(raw.Bytes(), `{"group":"torn`...)))
	if err != nil || len(again.Samples) != len(r.Samples) || again.Meta.Records != 300 {
		t.Fatalf("%d samples read, %d measured, %v", len(again.Samples), len(r.Samples), err)
	}
	measured := map[string]bool{}
	for i, s := range r.Samples {
		if got := again.Samples[i]; got.Case != s.Case || got.Ops != s.Ops {
			t.Errorf("sample reads back as %+v, was %+v", got, s)
		}
		if s.Ops < 1 || s.Seconds <= 0 {
			t.Errorf("nothing is measured: %+v", s)
		}
		measured[s.Group+" "+s.Engine] = true
		checkSpread(t, &s)
	}
	for _, e := range tables.Engines() {
		if !measured["reads "+e] || !measured["inserts "+e] {
			t.Errorf("%s is not measured", e)
		}
	}
	page := filepath.Join(dir, "tables.md")
	if err := tables.WritePage(page, filepath.Join(dir, "charts"), again); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-tags sqlite . tables", "## Targets",
		"](charts/tables-ratio.svg)",
		"| point get by primary key, prepared, 2 goroutines |", "| ORDER BY seq LIMIT 10 |",
		"| insert, 3 indexes, batches of 100, synced |", "| Get and decode | ",
		"| `a = ?` |", "| 256 buckets |", "badgerhold** "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	checkLines(t, string(text))
	charts, err := filepath.Glob(filepath.Join(dir, "charts", "tables-*.svg"))
	if err != nil || len(charts) != 4 {
		t.Errorf("charts %q, %v", charts, err)
	}
}

// checkLines looks for prose that is wider than pages are.
func checkLines(t *testing.T, text string) {
	t.Helper()
	for l := range strings.Lines(text) {
		if len(l) > 121 && !strings.HasPrefix(l, "|") && !strings.HasPrefix(l, "!") {
			t.Errorf("a line of %d columns: %s", len(l), l)
		}
	}
}

// checkSpread checks what follows from the number of buckets, whatever the values are.
func checkSpread(t *testing.T, s *tables.Sample) {
	t.Helper()
	if s.Group != "shards" {
		if s.Spread != nil {
			t.Errorf("%s has a spread", s.Case)
		}
		return
	}
	most := map[string]int{"plain": 1, "16 buckets": 16, "256 buckets": 256}[s.Engine]
	p := s.Spread
	if p == nil || p.Used < 1 || p.Used > most || p.Max < s.Ops/int64(p.Used) {
		t.Fatalf("%s has the spread %+v of %d entries", s.Engine, p, s.Ops)
	}
	if s.Engine == "plain" && p.Share != 1 || s.Engine == "16 buckets" && p.Share > 0.3 {
		t.Errorf("the busiest stripe of %s has %g of the entries", s.Engine, p.Share)
	}
}

func TestSettings(t *testing.T) {
	for what, change := range map[string]func(*tables.Settings){
		"rows":    func(s *tables.Settings) { s.Rows = 99 },
		"-repeat": func(s *tables.Settings) { s.Repeat = 0 },
		"turns":   func(s *tables.Settings) { s.Turn = 0 },
		"mysql":   func(s *tables.Settings) { s.Engines = []string{"mysql"} },
	} {
		s := small(t.TempDir())
		change(&s)
		if _, err := tables.Run(t.Context(), s, io.Discard, io.Discard); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := small(t.TempDir())
	s.Engines = []string{"kstone"}
	if _, err := tables.Run(ctx, s, io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after cancelling", err)
	}
	if !slices.Contains(tables.Engines(), "sqlite") {
		t.Errorf("engines %q", tables.Engines())
	}
}

func TestRead(t *testing.T) {
	for _, bad := range []string{"", "x\n", "{\"meta\":{}}\nx\n"} {
		if _, err := tables.Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
