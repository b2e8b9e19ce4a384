// Package monitor shows a running database to other programs: its metrics in the text format of
// Prometheus and as a variable of expvar, and whether it is healthy. It depends on the standard
// library only.
package monitor

import (
	"time"

	"github.com/kstonedb/kstone/engine"
)

// Kind is what a value does over time.
type Kind string

// The kinds.
const (
	Counter Kind = "counter" // it grows, from zero at Open
	Gauge   Kind = "gauge"
)

// Sample is one value of the metrics. Sizes are in bytes, times in seconds.
type Sample struct {
	Name  string // "kstone_commits_total"
	Help  string
	Kind  Kind
	Label string // "quantile" or ""
	Of    string // the value of the label
	Value float64
}

// Histogram is the distribution of a time, in seconds.
type Histogram struct {
	Name  string // "kstone_write_seconds"
	Help  string
	Count uint64
	Sum   float64
	// Within[i] is how many took Bounds[i] at most.
	Bounds []float64
	Within []uint64
}

// Histograms returns the distributions of the metrics.
func Histograms(m *engine.Metrics) []Histogram {
	var bounds []float64
	for _, b := range m.WriteLatency.Bounds() {
		bounds = append(bounds, b.Seconds())
	}
	of := func(name, help string, l *engine.Latency) Histogram {
		return Histogram{"kstone_" + name, help, l.Count, l.Sum.Seconds(), bounds, l.Within[:]}
	}
	return []Histogram{
		of("write_seconds", "Duration of one write in 32.", &m.WriteLatency),
		of("read_seconds", "Duration of one read by key in 32.", &m.ReadLatency),
	}
}

// ID returns the name with the value of the label, if there is one.
func (s *Sample) ID() string {
	if s.Label == "" {
		return s.Name
	}
	return s.Name + "_" + s.Of
}

// Values returns the values of Samples by their ID.
func Values(m *engine.Metrics) map[string]float64 {
	out := map[string]float64{}
	for _, s := range Samples(m) {
		out[s.ID()] = s.Value
	}
	return out
}

// Samples returns the totals of the metrics. Those of one name follow each other.
func Samples(m *engine.Metrics) []Sample {
	var out []Sample
	add := func(kind Kind, name string, value float64, help string) {
		out = append(out, Sample{Name: "kstone_" + name, Help: help, Kind: kind, Value: value})
	}
	count := func(name string, n uint64, help string) {
		add(Counter, name+"_total", float64(n), help)
	}
	size := func(name string, n int64, help string) { add(Gauge, name, float64(n), help) }
	latency := func(name string, l engine.Latency, help string) {
		for _, q := range []struct {
			of string
			d  time.Duration
		}{{"0.5", l.P50}, {"0.99", l.P99}, {"0.999", l.P999}, {"1", l.Max}} {
			out = append(out, Sample{"kstone_" + name + "_seconds", help, Gauge, "quantile", q.of,
				q.d.Seconds()})
		}
	}
	readOnly := 0.0
	if m.ReadOnlyCause != nil {
		readOnly = 1
	}
	add(Gauge, "read_only", readOnly, "1 after a failed write or sync: open the database again.")

	count("commits", m.Commits, "Commits.")
	count("operations", m.Operations, "Puts and deletes in commits.")
	count("conflicts", m.Conflicts, "Transactions that failed with a conflict.")
	count("gets", m.Gets, "Items read by key.")
	count("queries", m.Queries, "Queries of one partition.")
	count("scans", m.Scans, "Scans of many partitions.")
	count("scanned", m.Scanned, "Items that queries and scans have read.")
	count("written_bytes", m.WrittenBytes, "Bytes that callers have written.")
	latency("write_latency", m.WriteLatency, "Duration of one write in 32.")
	latency("read_latency", m.ReadLatency, "Duration of one read by key in 32.")

	count("stalls", m.Stalls, "Waits of writers for flushes, merges and the log.")
	add(Counter, "stall_seconds_total", m.StallTime.Seconds(), "Time of these waits.")
	add(Gauge, "longest_stall_seconds", m.LongestStall.Seconds(), "The longest of these waits.")
	count("flushes", m.Flushes, "Flushes of write buffers to data files.")
	count("flushed_bytes", m.FlushedBytes, "Bytes that flushes have written.")
	count("compactions", m.Compactions, "Merges of data files.")
	count("compaction_read_bytes", m.CompactionReadBytes, "Bytes that merges have read.")
	count("compaction_written_bytes", m.CompactionWrittenBytes, "Bytes that merges have written.")
	add(Gauge, "write_amplification", m.WriteAmplification,
		"Bytes written to log and data files by bytes that callers have written.")

	size("log_bytes", m.LogBytes, "Log that a crash would have replayed.")
	size("log_budget_bytes", m.LogBudgetBytes, "Its budget.")
	size("retained_bytes", m.RetainedBytes, "Log that is kept for change streams.")
	size("memtable_bytes", m.MemtableBytes, "Write buffers.")
	size("memtable_budget_bytes", m.MemtableBudget, "Their budget.")
	size("cache_bytes", m.CacheBytes, "Cached blocks.")
	size("cache_budget_bytes", m.CacheBudget, "Their budget.")
	count("block_hits", m.BlockHits, "Blocks found in the cache.")
	count("block_misses", m.BlockMisses, "Blocks read from files.")
	count("pruned_blocks", m.PrunedBlocks, "Blocks left out, because of zone maps.")
	count("filter_checks", m.FilterChecks, "Probes of filters.")
	count("filter_negatives", m.FilterNegatives, "Probes answered with no.")
	count("filter_false_positives", m.FilterFalsePositives, "Probes answered with yes, wrongly.")

	size("disk_bytes", m.Total.DiskBytes, "Data files.")
	size("files", int64(m.Total.Files), "Number of data files.")
	size("runs", int64(m.Total.Runs), "Sorted runs of all stripes.")
	size("records", int64(m.Total.Records), "Records, overwritten and deleted ones included.")
	size("open_files", int64(m.OpenFiles), "Open data files.")
	size("open_snapshots", int64(m.OpenSnapshots), "Snapshots and iterations not closed.")
	size("stripes_used", int64(m.StripesUsed), "Stripes that hold something, of 256.")
	return out
}
