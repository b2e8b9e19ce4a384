package small_test

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/small"
)

// A tiny run has a row for each database and case, and reads back.
func TestRun(t *testing.T) {
	s := small.Settings{
		Dir: t.TempDir(), Cases: []small.Case{{Items: 3, Opens: 1}, {Items: 6, Opens: 3}},
	}
	var raw bytes.Buffer
	rows, _, err := small.Run(t.Context(), s, &raw, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	_, again, err := small.Read(&raw)
	if err != nil || !slices.Equal(rows, again) {
		t.Errorf("read back: %v, %v", again, err)
	}
	if len(rows) != 10 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r.Files == 0 || r.Bytes == 0 || r.Open.Median <= 0 || r.Close.Low <= 0 {
			t.Errorf("%+v", r)
		}
		if r.Database == "kstone" && (r.Files > 5 || r.Bytes-r.Reserve > 4000) {
			t.Errorf("kstone: %+v", r)
		}
	}
	if left, err := filepath.Glob(filepath.Join(s.Dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	s.Cases[0].Opens = 4
	if _, _, err := small.Run(t.Context(), s, io.Discard, io.Discard); err == nil {
		t.Error("more openings than items are accepted")
	}
}
