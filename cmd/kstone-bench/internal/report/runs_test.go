package report_test

import (
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// meta of a run on a machine that does not exist.
func meta() result.Meta {
	return result.Meta{
		Time: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Command: []string{"-repeat", "3"},
		CPU: "Abacus", Cores: 2, MemoryKB: 8 << 20, Kernel: "6.0", Go: "go1.26", Commit: "c0ffee",
		Load: "0.01", Rounds: 3, Records: 2_000_000, ValueBytes: 100, Seconds: 4,
		WriteBuffer: 64 << 20, Cache: 256 << 20,
		Versions: map[string]string{"kstone": "c0ffee", "pebble": "v2", "lmdb": "0.9"},
		Notes:    map[string]string{"kstone": "kill", "pebble": "nothing", "lmdb": "kill"},
	}
}

// speeds makes one result for each round of an engine with these throughputs.
func speeds(chain, name, engine string, goroutines int, all ...float64) []result.Record {
	var out []result.Record
	for i, v := range all {
		out = append(out, result.Record{
			Table: chain, Case: name, Engine: engine, Round: i, Goroutines: goroutines,
			Figures: result.Figures{
				result.Ops: 1000, result.Seconds: 1000 / v, result.PerSecond: v,
				result.CPU: 1e9 / v, result.P50: 1e6 / v, result.P99: 2e6 / v,
				result.P999: 1e7 / v, result.Max: 1e8 / v,
			},
		})
	}
	return out
}

// run is a run of these results.
func run(m result.Meta, results ...[]result.Record) result.Run {
	r := result.Run{Meta: m}
	for _, part := range results {
		r.Records = append(r.Records, part...)
	}
	return r
}

// fills makes results of fillseq with processor time including the background.
func fills(engine string, cpu float64, all ...float64) []result.Record {
	out := speeds("seq", "fillseq", engine, 1, all...)
	for i := range out {
		f := out[i].Figures
		f[result.SettledCPU] = cpu
		f[result.UserBytes], f[result.WrittenBytes] = 1000, 2000
		f[result.LiveBytes], f[result.DiskBytes] = 1000, 1500
		f[result.PeakRSSBytes] = 300 << 20
	}
	return out
}
