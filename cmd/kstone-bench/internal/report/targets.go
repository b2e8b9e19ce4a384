package report

import "slices"

// target is one thing that is wanted of some workloads: a figure of kstone, or the
// ratio of it to that of a peer, above or below a bound.
type target struct {
	name   string // of the group of targets
	rows   []selector
	figure figure
	peer   string // empty: an absolute figure; bestPeer: the ratio to whichever is best
	bound  float64
	above  bool // at least the bound; otherwise at most
	strict bool // and not the bound itself
}

// bestPeer stands for the peer with the highest throughput.
const bestPeer = "best peer"

// selector chooses rows of all sizes.
type selector struct {
	chain, workload string
	goroutines      int
}

func (s selector) matches(r Row) bool {
	return r.Chain == s.chain && r.Workload == s.workload && r.Goroutines == s.goroutines
}

// at selects a workload of a chain, once for each number of goroutines.
func at(chain, workload string, goroutines ...int) []selector {
	var out []selector
	for _, g := range goroutines {
		out = append(out, selector{chain, workload, g})
	}
	return out
}

// The size that targets are for, unless a chain has its own.
var targetSize = Size{Records: 2_000_000, ValueBytes: 100}

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
	ahead("unsynced writes", unsynced),
	{name: "unsynced writes", rows: unsynced, figure: settledCPU, peer: "pebble", bound: 1. / 3},
	faster("synced writes", at("sync", "fillsync", 64), bestPeer, 2),
	faster("synced writes", at("sync", "fillsync", 8), bestPeer, 1.5),
	faster("synced writes", at("sync", "fillsync", 1), bestPeer, 1),
	faster("reads", reads, "pebble", 2.5),
	faster("reads", reads, "rocksdb", 2),
	faster("reads", reads, "bbolt", 1.3),
	faster("reads", reads, "lmdb", 1),
	faster("absent keys", miss, "pebble", 4),
	faster("absent keys", miss, bestPeer, 1.5),
	faster("queries of 20", qs, "pebble", 2.5),
	faster("queries of 20", qs, "rocksdb", 2.5),
	faster("queries of 20", qs, "bbolt", 1),
	faster("ordered scan", slices.Concat(at("seq", "readseq", 1), at("point", "readseq", 1)),
		"pebble", 0.8),
	faster("scan in stripe order", at("point", "scanunordered", 1), "pebble", 2.5),
	faster("put if absent", at("point", "putifabsent", 1), "pebble", 3),
	faster("put if absent", at("point", "putifabsent", 1), bestPeer, 1.5),
	faster("reads beside a writer", mixed, "pebble", 2.5),
	{name: "reads beside a writer", rows: mixed, figure: tail, peer: "pebble", bound: 1},
	{name: "opening after a kill", rows: kills, figure: openTime, peer: "pebble", bound: 0.5},
	{name: "opening after a clean close", rows: at("reopen", "reopen-clean", 1),
		figure: openTime, bound: 50},
	faster("data larger than the cache", cold, "pebble", 1.5),
	{name: "longest write stall", rows: stall, figure: longest, bound: 100, strict: true},
	{name: "longest write stall", rows: stall, figure: longest, peer: "pebble", bound: 1,
		strict: true},
	{name: "longest write stall", rows: stall, figure: longest, peer: "rocksdb", bound: 1,
		strict: true},
	{name: "memory", rows: unsynced, figure: memory, peer: "pebble", bound: 1.2},
	{name: "bytes on disk", rows: unsynced, figure: disk, peer: "pebble", bound: 1.1},
	{name: "write amplification", rows: unsynced, figure: written, peer: "pebble", bound: 1},
}

// faster wants at least so many times the throughput of a peer.
func faster(name string, rows []selector, peer string, times float64) target {
	return target{name: name, rows: rows, figure: speed, peer: peer, bound: times, above: true}
}

// ahead wants more throughput than any peer has.
func ahead(name string, rows []selector) target {
	t := faster(name, rows, bestPeer, 1)
	t.strict = true
	return t
}
