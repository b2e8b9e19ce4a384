package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTablesCommand(t *testing.T) {
	dir := t.TempDir()
	raw, page := filepath.Join(dir, "raw", "tables.jsonl"), filepath.Join(dir, "tables.md")
	var out bytes.Buffer
	args := []string{"-quick", "-engines", "kstone,bstore", "-rows", "200", "-repeat", "1",
		"-turn", "1ms", "-short", "100us", "-dir", dir, "-out", raw, "-page", page}
	if err := measureTables(args, &out); err != nil || out.Len() > 0 {
		t.Fatalf("tables: %v, printed %q", err, out.String())
	}
	if _, err := os.Stat(page); err != nil {
		t.Error(err)
	}
	charts := filepath.Join(dir, "charts")
	if err := measureTables([]string{"-from", raw, "-charts", charts}, &out); err != nil ||
		!strings.Contains(out.String(), "## Targets") {
		t.Errorf("page of raw results: %v, %q", err, out.String())
	}
	if _, err := os.Stat(filepath.Join(charts, "tables-shards.svg")); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{{"x"}, {"-rows", "1"}, {"-from", filepath.Join(dir, "no")},
		{"-engines", "oracle"}, {"-out", dir}} {
		if err := measureTables(append([]string{"-out", raw}, bad...), &out); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
