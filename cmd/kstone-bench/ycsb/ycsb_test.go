package main

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

// TestWorkloads runs every workload over every store, small.
func TestWorkloads(t *testing.T) {
	var out bytes.Buffer
	o := options{records: 200, ops: 200, threads: 2, workloads: "ABCDEF", dir: t.TempDir(),
		stores: "kstone,kstone-partition,badger"}
	if err := o.run(&out); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
	if len(rows) != 18 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		f := strings.Fields(row)
		if failed, err := strconv.Atoi(f[len(f)-1]); err != nil || failed > 20 || len(f) < 7 {
			t.Errorf("%s: %v", row, err)
		}
	}
	for _, bad := range []options{{records: 1, ops: 1, threads: 2},
		{records: 9, ops: 9, threads: 1, workloads: "G"},
		{records: 9, ops: 9, threads: 1, workloads: "A", stores: "none"}} {
		if err := bad.run(&out); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
