// Package peers reports the chains of workloads on kstone and other databases.
package peers

import (
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// Kind is the page of the chains.
var Kind = report.Kind{
	Tables: workload.ChainNames(), Section: section, Notes: "an unsynced write survives",
	Checks: checks, Body: body,
}

// group is a section of the page: workloads that are read together.
type group struct {
	name, title, about string
	// times: shown as milliseconds, not as operations a second.
	times bool
}

var groups = []group{
	{name: "write", title: "Writes",
		about: "Unsynced: what they survive is in the table of engines."},
	{name: "sync", title: "Synced writes",
		about: "Acknowledged when they survive a power cut; ×8 and ×64 are goroutines."},
	{name: "read", title: "Reads by key",
		about: "One record each, verified; multiget asks for 32 at a time."},
	{name: "scan", title: "Queries and scans",
		about: "A query reads 20 of the 100 records of a partition. Scans count rows."},
	{name: "ycsb", title: "YCSB", about: "The core workloads, two goroutines."},
	{name: "cold", title: "Data 4 × the block cache",
		about: "Blocks have to be brought in, from files in the page cache of the system."},
	{name: "large", title: "Values of 1 KiB", about: "An eighth of the records."},
	{name: "stall", title: "The longest write",
		about: "Five times the records, at random, in one go."},
	{name: "open", title: "Opening", times: true,
		about: "After a kill while writing, after a clean close, and with a full log."},
}

// section returns the name of the group a row belongs to.
func section(r report.Row) string {
	switch r.Table {
	case "sync", "ycsb", "cold", "large", "stall":
		return r.Table
	case "reopen":
		return "open"
	}
	w := r.Case
	switch {
	case strings.HasPrefix(w, "fill"), w == "overwrite", w == "load",
		w == "deleterandom", w == "putifabsent":
		return "write"
	case strings.HasPrefix(w, "query"), strings.HasPrefix(w, "scan"), w == "readseq":
		return "scan"
	}
	return "read"
}

// speed is the figure that a group is about.
func (g group) speed(r result.Record) float64 {
	if g.times {
		return r.Figures[result.Seconds] * 1e3
	}
	return r.Figures[result.PerSecond] / 1e3
}
