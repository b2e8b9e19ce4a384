package peers

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// The figures that targets are about, beside throughput.
var (
	tail     = report.Figure{Name: "p99.9", Unit: " µs", Of: report.Key(result.P999, 1)}
	openTime = report.Figure{Name: "time", Unit: " ms", Of: report.Key(result.Seconds, 1e3)}
	longest  = report.Figure{Name: "longest write", Unit: " ms", Of: report.Key(result.Max, 1e-3)}
	memory   = report.Figure{Name: "peak RSS", Unit: " B", Of: report.Key(result.PeakRSSBytes, 1)}
	disk     = report.Figure{Name: "bytes on disk", Unit: " B", Of: report.Key(result.DiskBytes, 1)}
	written  = report.Figure{Name: "bytes written", Unit: " B",
		Of: report.Key(result.WrittenBytes, 1)}
)

// target is wanted of several rows of any size.
type target struct {
	report.Target
	rows []report.Row
}

// at selects a workload of a chain, once for each number of goroutines.
func at(chain, workload string, goroutines ...int) []report.Row {
	var out []report.Row
	for _, g := range goroutines {
		out = append(out, report.Row{Table: chain, Case: workload, Goroutines: g})
	}
	return out
}

// The size that targets are for, unless a chain has its own.
var targetSize = result.Size{Records: 2_000_000, ValueBytes: 100}

// The bounds on means over all workloads that have a target for throughput.
const (
	meanOverPebble = 2.5
	meanOverOthers = 1.5
)

var (
	unsynced = slices.Concat(at("seq", "fillseq", 1), at("point", "fillrandom", 1),
		at("point", "overwrite", 1), at("point", "deleterandom", 1), at("batch", "fillbatch", 1))
	reads = slices.Concat(at("point", "readrandom", 1, 2, 8), at("point", "readzipf", 1, 2, 8))
	miss  = at("point", "readmissing", 1, 2)
	qs    = slices.Concat(at("query", "query", 1, 2), at("query", "querylatest", 1, 2))
	mixed = at("point", "readwhilewriting", 2)
	cold  = slices.Concat(at("cold", "readrandom", 1), at("cold", "query", 1))
	kills = slices.Concat(at("reopen", "reopen-killed", 1), at("reopen", "reopen-fulllog", 1))
	stall = at("stall", "fillrandom", 1)
)

var targets = []target{
	faster("unsynced writes", unsynced, "pebble", 3),
	faster("unsynced writes", unsynced, report.BestPeer, 1).strict(),
	atMost("unsynced writes", unsynced, report.SettledCPU, "pebble", 1./3),
	faster("synced writes", at("sync", "fillsync", 64), report.BestPeer, 2),
	faster("synced writes", at("sync", "fillsync", 8), report.BestPeer, 1.5),
	faster("synced writes", at("sync", "fillsync", 1), report.BestPeer, 1),
	faster("reads", reads, "pebble", 2.5),
	faster("reads", reads, "rocksdb", 2),
	faster("reads", reads, "bbolt", 1.3),
	faster("reads", reads, "lmdb", 1),
	faster("absent keys", miss, "pebble", 4),
	faster("absent keys", miss, report.BestPeer, 1.5),
	faster("queries of 20", qs, "pebble", 2.5),
	faster("queries of 20", qs, "rocksdb", 2.5),
	faster("queries of 20", qs, "bbolt", 1),
	faster("ordered scan", slices.Concat(at("seq", "readseq", 1), at("point", "readseq", 1)),
		"pebble", 0.8),
	faster("scan in stripe order", at("point", "scanunordered", 1), "pebble", 2.5),
	faster("put if absent", at("point", "putifabsent", 1), "pebble", 3),
	faster("put if absent", at("point", "putifabsent", 1), report.BestPeer, 1.5),
	faster("reads beside a writer", mixed, "pebble", 2.5),
	atMost("reads beside a writer", mixed, tail, "pebble", 1),
	atMost("opening after a kill", kills, openTime, "pebble", 0.5),
	atMost("opening after a clean close", at("reopen", "reopen-clean", 1), openTime, "", 50),
	faster("data larger than the cache", cold, "pebble", 1.5),
	atMost("longest write stall", stall, longest, "", 100).strict(),
	atMost("longest write stall", stall, longest, "pebble", 1).strict(),
	atMost("longest write stall", stall, longest, "rocksdb", 1).strict(),
	atMost("memory", unsynced, memory, "pebble", 1.2),
	atMost("bytes on disk", unsynced, disk, "pebble", 1.1),
	atMost("write amplification", unsynced, written, "pebble", 1),
}

// faster wants at least so many times the throughput of a peer.
func faster(name string, rows []report.Row, peer string, times float64) target {
	return target{report.Faster(name, report.Row{}, peer, times), rows}
}

// atMost bounds a figure or, with a peer, the ratio to that of the peer.
func atMost(name string, rows []report.Row, f report.Figure, peer string, bound float64) target {
	return target{report.Target{Name: name, Figure: f, Peer: peer, Bound: bound}, rows}
}

func (t target) strict() target {
	t.Strict = true
	return t
}

// checks compares every target with the results, and adds the means.
func checks(t *report.Table) (out []report.Check, remark string) {
	size := sizeOf(t)
	if size != targetSize {
		remark = fmt.Sprintf("The targets are for %s, this is %s.", targetSize, size)
	}
	var rows []report.Row // with a target for throughput or time
	for _, want := range targets {
		for _, want.Row = range want.rows {
			want.Row.Size = size
			out = append(out, t.Check(want.Target))
			speed := want.Figure.Name == report.Speed.Name || want.Figure.Name == openTime.Name
			if speed && !slices.Contains(rows, want.Row) {
				rows = append(rows, want.Row)
			}
		}
	}
	for _, peer := range t.Peers(t.Engines) {
		want := report.Faster("geometric mean", report.Row{}, peer, meanOverOthers)
		if peer == "pebble" {
			want.Bound = meanOverPebble
		}
		mean, n := t.GeometricMean(rows, peer)
		c := report.Check{Target: want.Name, Case: fmt.Sprintf("%d workloads", n),
			Figure: "throughput ÷ " + peer}
		out = append(out, c.Judge(want, report.Ratio{Value: mean}, "", n > 0))
	}
	return out, remark
}

// sizeOf is the size that the targets are for or, if no run has it, the first.
func sizeOf(t *report.Table) result.Size {
	if len(t.Rows) == 0 || slices.ContainsFunc(t.Rows, func(r report.Row) bool {
		return r.Size == targetSize
	}) {
		return targetSize
	}
	return t.Rows[0].Size
}
