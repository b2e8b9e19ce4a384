// Package ycsb reports what the module cmd/kstone-bench/ycsb measures: the core workloads of
// go-ycsb.
package ycsb

import (
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Table has all records. Their cases are the letters of the workloads.
const Table = "core"

// Figures of a record, beside result.PerSecond.
const (
	LoadPerSecond = "load_per_second"
	Failed        = "failed_ops" // reads, most of them: go-ycsb draws from one record too many
)

// P50 and P99 name the latencies of reads, writes or scans.
func P50(operation string) string { return operation + "_p50_us" }

// P99 is like P50.
func P99(operation string) string { return operation + "_p99_us" }

// Operations are those that have latencies.
func Operations() []string { return []string{"read", "write", "scan"} }

// Kind is the page.
var Kind = report.Kind{Tables: []string{Table}, Notes: "set-up", Body: body}

// body writes throughput with ratios, and the rest folded.
func body(p *report.Page) {
	p.Printf("## Thousand operations a second\n\n")
	p.Matrix(p.Rows, p.Engines, report.Numbers(report.Key(result.PerSecond, 1e-3)),
		p.Quotients("kstone ÷ ")...)
	p.Fold("Latency in µs: p50 and p99 of reads, writes and scans", func() {
		for _, op := range Operations() {
			for _, name := range []string{P50(op), P99(op)} {
				rows := slices.DeleteFunc(slices.Clone(p.Rows), func(r report.Row) bool {
					return !slices.ContainsFunc(p.Engines, func(e string) bool {
						m, _ := p.Median(report.Cell{Row: r, Engine: e})
						return m.Figures[name] > 0
					})
				})
				p.Printf("%s:\n\n", name)
				p.Matrix(rows, p.Engines, report.Numbers(report.Key(name, 1)))
			}
		}
	})
	p.Fold("Thousand records loaded a second; operations that failed", func() {
		p.Matrix(p.Rows, p.Engines, report.Numbers(report.Key(LoadPerSecond, 1e-3)))
		p.Matrix(p.Rows, p.Engines, report.Numbers(report.Key(Failed, 1)))
	})
}
