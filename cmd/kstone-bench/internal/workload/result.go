// Package workload holds the work that is measured: one file for each family, and
// the chains that put them in order.
package workload

import (
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
)

// Result is one measured workload of one engine; a line of the raw output.
type Result struct {
	Chain      string `json:"chain"`
	Workload   string `json:"workload"`
	Engine     string `json:"engine"`
	Repeat     int    `json:"repeat"`
	Records    int64  `json:"records"`
	ValueBytes int    `json:"value_bytes"`
	Goroutines int    `json:"goroutines"`

	// Ops is the number of operations, or of rows where Rows is set.
	Ops       int64   `json:"ops"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`

	// CPUNs is processor time of the whole process per operation while the work
	// ran, SettledCPUNs until background work was done too (0 if not awaited).
	CPUNs        float64 `json:"cpu_ns_per_op"`
	SettledCPUNs float64 `json:"settled_cpu_ns_per_op,omitempty"`

	// Latencies in microseconds. Reads are sampled, one in 8; writes are not.
	P50  float64 `json:"p50_us,omitempty"`
	P99  float64 `json:"p99_us,omitempty"`
	P999 float64 `json:"p999_us,omitempty"`
	Max  float64 `json:"max_us,omitempty"`

	// UserBytes are keys and values given to the engine, WrittenBytes what the
	// process then made dirty until it settled.
	UserBytes     int64 `json:"user_bytes,omitempty"`
	WrittenBytes  int64 `json:"written_bytes,omitempty"`
	DiskBytes     int64 `json:"disk_bytes,omitempty"`
	LiveBytes     int64 `json:"live_bytes,omitempty"`
	PeakRSSBytes  int64 `json:"peak_rss_bytes,omitempty"`
	PeakAnonBytes int64 `json:"peak_anon_bytes,omitempty"`

	// Extra holds figures of single workloads, by name.
	Extra map[string]float64 `json:"extra,omitempty"`
	// Error is set instead of the rest if the workload failed.
	Error string `json:"error,omitempty"`
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func (r *Result) latencies(l *measure.Latencies) {
	if l.Count() == 0 {
		return
	}
	r.P50, r.P99 = micros(l.Quantile(0.5)), micros(l.Quantile(0.99))
	r.P999, r.Max = micros(l.Quantile(0.999)), micros(l.Quantile(1))
}

func (r *Result) extra(name string, v float64) {
	if r.Extra == nil {
		r.Extra = map[string]float64{}
	}
	r.Extra[name] = v
}
