package report_test

import (
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// meta of a run on a machine that does not exist.
func meta() report.Meta {
	return report.Meta{
		Time: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Command: []string{"-repeat", "3"},
		CPU: "Abacus", Cores: 2, MemoryKB: 8 << 20, Kernel: "6.0", Go: "go1.26", Commit: "c0ffee",
		Load: "0.01", Repeats: 3, Records: 2_000_000, ValueBytes: 100, Seconds: 4,
		WriteBuffer: 64 << 20, Cache: 256 << 20,
		Versions: map[string]string{"kstone": "c0ffee", "pebble": "v2", "lmdb": "0.9"},
		Unsynced: map[string]string{"kstone": "kill", "pebble": "nothing", "lmdb": "kill"},
	}
}

// speeds makes one result for each round of an engine with these throughputs.
func speeds(chain, name, engine string, goroutines int, all ...float64) []workload.Result {
	var out []workload.Result
	for i, v := range all {
		out = append(out, workload.Result{
			Chain: chain, Workload: name, Engine: engine, Repeat: i, Goroutines: goroutines,
			Records: 2_000_000, ValueBytes: 100, Ops: 1000, Seconds: 1000 / v, PerSecond: v,
			CPUNs: 1e9 / v, P50: 1e6 / v, P99: 2e6 / v, P999: 1e7 / v, Max: 1e8 / v,
		})
	}
	return out
}

// run is a run of these results.
func run(m report.Meta, results ...[]workload.Result) report.Run {
	r := report.Run{Meta: m}
	for _, part := range results {
		r.Results = append(r.Results, part...)
	}
	return r
}

// fills makes results of fillseq with processor time including the background.
func fills(engine string, cpu float64, all ...float64) []workload.Result {
	out := speeds("seq", "fillseq", engine, 1, all...)
	for i := range out {
		out[i].SettledCPUNs = cpu
		out[i].UserBytes, out[i].WrittenBytes = 1000, 2000
		out[i].LiveBytes, out[i].DiskBytes = 1000, 1500
		out[i].PeakRSSBytes = 300 << 20
	}
	return out
}
