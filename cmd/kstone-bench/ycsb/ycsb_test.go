package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	ycsbpage "github.com/kstonedb/kstone/cmd/kstone-bench/internal/ycsb"
)

// TestWorkloads runs every workload over every store, small.
func TestWorkloads(t *testing.T) {
	var out bytes.Buffer
	o := options{records: 200, ops: 200, threads: 2, workloads: "ABCDEF", dir: t.TempDir(),
		stores: "kstone,kstone-partition,badger", raw: filepath.Join(t.TempDir(), "raw.jsonl")}
	if err := o.run(&out); err != nil {
		t.Fatal(err)
	}
	runs, err := result.ReadFiles(o.raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs[0].Records {
		scans := r.Figures[ycsbpage.P50("scan")] > 0
		if r.Figures[ycsbpage.Failed] > 20 || r.Figures[ycsbpage.LoadPerSecond] <= 0 ||
			r.Figures[result.PerSecond] <= 0 || scans != (r.Case == "E") {
			t.Error(r)
		}
	}
	var page strings.Builder
	err = report.Write(&page, &ycsbpage.Kind, runs, "", "")
	for _, want := range []string{"`kstone-bench ycsb -", "| F ×2 |",
		"| kstone ÷ badger |", "scan_p99_us:",
		"| kstone-partition |"} {
		if err != nil || !strings.Contains(page.String(), want) {
			t.Errorf("%v: no %q in %s", err, want, &page)
		}
	}
	if len(runs[0].Records) != 18 || strings.Count(out.String(), "\n") != 18 {
		t.Errorf("%d records, printed %s", len(runs[0].Records), &out)
	}
	for _, bad := range []options{{records: 1, ops: 1, threads: 2},
		{records: 9, ops: 9, threads: 1, workloads: "G"},
		{records: 9, ops: 9, threads: 1, workloads: "A", stores: "none"}} {
		if err := bad.run(&out); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
