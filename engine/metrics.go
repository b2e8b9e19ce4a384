package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/internal/histogram"
)

// Latency summarises a latency distribution. One operation in 32 is timed.
type Latency struct {
	P50, P99, P999, Max time.Duration
	// Count is how many operations were measured, Sum their time, and Within[i] how many of them
	// took Bounds()[i] at most. Times are off by up to 1.6 %.
	Count  uint64
	Sum    time.Duration
	Within [len(latencyBounds)]uint64
}

// Bounds returns the bounds of Within, ascending.
func (Latency) Bounds() []time.Duration { return slices.Clone(latencyBounds[:]) }

var latencyBounds = [...]time.Duration{
	250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, // nanoseconds
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 10 * time.Second,
}

func latency(s *histogram.Snapshot) Latency {
	l := Latency{P50: s.Quantile(0.5), P99: s.Quantile(0.99), P999: s.Quantile(0.999), Max: s.Max(),
		Count: s.Count(), Sum: s.Mean() * time.Duration(s.Count())}
	s.CountWithin(latencyBounds[:], l.Within[:])
	return l
}

// StripeMetrics describe one stripe.
type StripeMetrics struct {
	// Records is the number of entries in runs and of keys in memtables: tombstones,
	// and versions that a merge has not dropped yet, are counted. After Compact it is
	// the number of items.
	Records uint64
	// Tombstones are the deletions of single keys among them.
	Tombstones uint64
	// DiskBytes is the size of the stripe's SSTs and value files, RawBytes that of their keys and
	// values before compression, MemtableBytes the memory of its write buffers.
	DiskBytes, RawBytes, MemtableBytes int64
	// ValueBytes are those of DiskBytes in value files, see Options.LargeValue, and GarbageBytes
	// those of ValueBytes that no SST needs any more.
	ValueBytes, GarbageBytes int64
	Runs, Files              int
	// FlushedBytes and MergedBytes are what flushes and merges have written to the
	// stripe's SSTs since Open.
	FlushedBytes, MergedBytes int64
}

// WriteAmplification is the bytes written to SSTs divided by the bytes flushed, 0 before
// the first flush. It leaves out the log, which all stripes share.
func (s *StripeMetrics) WriteAmplification() float64 {
	if s.FlushedBytes == 0 {
		return 0
	}
	return float64(s.FlushedBytes+s.MergedBytes) / float64(s.FlushedBytes)
}

// Metrics is a picture of the database at work. Counters start at zero with Open.
type Metrics struct {
	Stripes [256]StripeMetrics
	Total   StripeMetrics

	Commits, Operations, Conflicts uint64
	Gets, Queries, Scans           uint64
	// Scanned is how many items these queries and scans have read so far.
	Scanned uint64
	// WrittenBytes is what callers have written, as log payload.
	WrittenBytes uint64

	Flushes, FlushedBytes                       uint64
	Compactions                                 uint64
	CompactionReadBytes, CompactionWrittenBytes uint64
	// WriteAmplification is the bytes written to log and SSTs divided by WrittenBytes.
	WriteAmplification float64

	LogBytes, LogBudgetBytes int64
	LogSegments              int
	// RetainedBytes and RetainedSegments are log that is kept for changes, and no part of the two
	// above.
	RetainedBytes                 int64
	RetainedSegments              int
	MemtableBytes, MemtableBudget int64
	CacheBytes, CacheBudget       int64
	BlockHits, BlockMisses        uint64
	// PrunedBlocks and PrunedFiles are what scans and queries have left out, because zone maps
	// say that nothing in them is wanted.
	PrunedBlocks, PrunedFiles     uint64
	FilterChecks, FilterNegatives uint64
	FilterFalsePositives          uint64
	OpenFiles                     int
	OpenSnapshots                 int
	// Stalls are the waits of writers for flushes, merges and the log, those that go on
	// included.
	Stalls                    uint64
	StallTime, LongestStall   time.Duration
	WriteLatency, ReadLatency Latency
	LastVersion               uint64
	StripesUsed               int
	ReadOnlyCause             error
}

// Metrics returns the present figures. It costs some microseconds.
func (db *DB) Metrics() Metrics {
	r, c, u := db.reads.Metrics(), db.commits.Metrics(), db.upkeep.Metrics()
	m := Metrics{
		Commits: c.Commits, Operations: c.Operations, Conflicts: db.conflicts.Load(),
		Gets: r.Gets, Queries: r.Queries, Scans: r.Scans, Scanned: r.Scanned,
		WrittenBytes: c.Bytes,
		Flushes:      u.Flushes, FlushedBytes: u.FlushedBytes,
		Compactions: u.Merges, CompactionReadBytes: u.MergeReadBytes,
		CompactionWrittenBytes: u.MergeWrittenBytes,
		Stalls:                 u.Stalls, StallTime: u.StallTime, LongestStall: u.LongestStall,
		MemtableBytes: db.upkeep.MemtableBytes().Load(), MemtableBudget: db.opts.MemtableBytes,
		LogBudgetBytes: db.opts.LogBytes,
		OpenSnapshots:  db.reads.Registered(), OpenFiles: db.env.Files.Open(),
		WriteLatency: latency(&c.Times), ReadLatency: latency(&r.Times),
		LastVersion: uint64(db.reads.Visible()),
	}
	if f := db.failure.Load(); f != nil {
		m.ReadOnlyCause = f.cause
	}
	m.RetainedBytes, m.RetainedSegments = db.history.Held()
	log := db.log
	if db.follow != nil {
		log = db.follow.Log()
	}
	if log != nil {
		m.LogBytes = log.SizeBytes() - m.RetainedBytes
		m.LogSegments = len(log.Segments()) - m.RetainedSegments
	}
	cm := db.env.Cache.Metrics()
	m.CacheBytes, m.CacheBudget = cm.UsedBytes, cm.BudgetBytes
	st := db.env.Stats.Snapshot()
	m.BlockHits, m.BlockMisses = st.BlockHits, st.BlockMisses
	m.PrunedBlocks, m.PrunedFiles = st.PrunedBlocks, st.PrunedFiles
	m.FilterChecks, m.FilterNegatives = st.FilterChecks, st.FilterNegatives
	m.FilterFalsePositives = st.FilterFalsePositives
	db.stripeMetrics(&m)
	if m.WrittenBytes > 0 {
		all := m.WrittenBytes + m.FlushedBytes + m.CompactionWrittenBytes
		m.WriteAmplification = float64(all) / float64(m.WrittenBytes)
	}
	return m
}

// HotReads says where reads of late went, from a sample of one Get, looked up key or query in
// 256. Scans are not in it. Of a database with few reads it is empty.
type HotReads struct {
	// Reads is about how many reads the others are parts of: up to a million.
	Reads   uint64
	Stripes [256]uint64
	// Partitions are those with the most reads first: at most 64, which had at least one read
	// in 200.
	Partitions []HotPartition
}

// HotPartition is a partition with an estimate of its reads, which tends to be low.
type HotPartition struct {
	PK    []byte
	Reads uint64
}

// HotReads returns where the reads of this process went of late.
func (db *DB) HotReads() HotReads {
	h := db.reads.Hot()
	out := HotReads{Reads: h.Reads, Stripes: h.Stripes}
	for _, p := range h.Partitions {
		out.Partitions = append(out.Partitions, HotPartition(p))
	}
	return out
}

func (db *DB) stripeMetrics(m *Metrics) {
	stripes := &db.stripes
	if db.follow != nil {
		stripes = db.follow.Stripes()
	}
	for i := range stripes {
		v := stripes[i].View()
		if v == nil {
			continue
		}
		s := &m.Stripes[i]
		s.MemtableBytes = v.MemtableBytes()
		for _, t := range append(v.Frozen[:len(v.Frozen):len(v.Frozen)], v.Active) {
			s.Records += uint64(t.Len())
			s.Tombstones += uint64(t.Tombstones())
		}
		s.Runs = len(v.Runs)
		s.ValueBytes, s.GarbageBytes = v.ValueBytes, v.GarbageBytes
		s.DiskBytes += v.ValueBytes
		w := db.upkeep.Written(i)
		s.FlushedBytes, s.MergedBytes = w.Flushed.Load(), w.Merged.Load()
		for _, r := range v.Runs {
			s.Files += len(r.Files)
			for _, f := range r.Files {
				s.Records += f.Meta.Entries
				s.Tombstones += f.Meta.Tombstones
				s.DiskBytes += f.Meta.SizeBytes
				s.RawBytes += int64(f.Meta.RawBytes)
			}
		}
		if s.Records > 0 {
			m.StripesUsed++
		}
		m.Total.add(s)
	}
}

func (t *StripeMetrics) add(s *StripeMetrics) {
	t.Records += s.Records
	t.Tombstones += s.Tombstones
	t.DiskBytes += s.DiskBytes
	t.RawBytes += s.RawBytes
	t.ValueBytes += s.ValueBytes
	t.GarbageBytes += s.GarbageBytes
	t.MemtableBytes += s.MemtableBytes
	t.FlushedBytes += s.FlushedBytes
	t.MergedBytes += s.MergedBytes
	t.Runs += s.Runs
	t.Files += s.Files
}

// String prints the totals as an aligned table.
func (m Metrics) String() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("records", "%d in %d stripes, %d tombstones", m.Total.Records, m.StripesUsed,
		m.Total.Tombstones)
	row("disk", "%d bytes in %d files, %d runs; raw %d bytes", m.Total.DiskBytes,
		m.Total.Files, m.Total.Runs, m.Total.RawBytes)
	if m.Total.ValueBytes > 0 {
		row("large values", "%d bytes, %d of them garbage", m.Total.ValueBytes,
			m.Total.GarbageBytes)
	}
	row("memtables", "%d of %d bytes", m.MemtableBytes, m.MemtableBudget)
	row("log", "%d of %d bytes in %d segments", m.LogBytes, m.LogBudgetBytes, m.LogSegments)
	if m.RetainedSegments > 0 {
		row("retained log", "%d bytes in %d segments", m.RetainedBytes, m.RetainedSegments)
	}
	row("cache", "%d of %d bytes, %d hits, %d misses", m.CacheBytes, m.CacheBudget,
		m.BlockHits, m.BlockMisses)
	row("pruned", "%d blocks, %d files", m.PrunedBlocks, m.PrunedFiles)
	row("filters", "%d checks, %d negatives, %d false positives", m.FilterChecks,
		m.FilterNegatives, m.FilterFalsePositives)
	row("commits", "%d with %d operations, %d bytes, %d conflicts", m.Commits, m.Operations,
		m.WrittenBytes, m.Conflicts)
	row("reads", "%d gets, %d queries, %d scans, of %d items", m.Gets, m.Queries, m.Scans,
		m.Scanned)
	row("flushes", "%d, %d bytes", m.Flushes, m.FlushedBytes)
	row("compactions", "%d, %d bytes read, %d written", m.Compactions, m.CompactionReadBytes,
		m.CompactionWrittenBytes)
	row("write amp", "%.2f", m.WriteAmplification)
	row("stalls", "%d, %v in all, longest %v", m.Stalls, m.StallTime, m.LongestStall)
	row("write latency", "p50 %v, p99 %v, p99.9 %v, max %v", m.WriteLatency.P50,
		m.WriteLatency.P99, m.WriteLatency.P999, m.WriteLatency.Max)
	row("read latency", "p50 %v, p99 %v, p99.9 %v, max %v", m.ReadLatency.P50,
		m.ReadLatency.P99, m.ReadLatency.P999, m.ReadLatency.Max)
	return b.String()
}
