package report

import (
	"fmt"
	"slices"
	"strings"
)

// group is a section of the report: workloads that are read together.
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

// groupOf returns the name of the group a row belongs to.
func groupOf(r Row) string {
	switch r.Chain {
	case "sync", "ycsb", "cold", "large", "stall":
		return r.Chain
	case "reopen":
		return "open"
	}
	w := r.Workload
	switch {
	case strings.HasPrefix(w, "fill"), w == "overwrite", w == "load",
		w == "deleterandom", w == "putifabsent":
		return "write"
	case strings.HasPrefix(w, "query"), strings.HasPrefix(w, "scan"), w == "readseq":
		return "scan"
	}
	return "read"
}

// in returns the rows of a group.
func (t *Table) in(g group) []Row {
	return slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return groupOf(r) != g.name })
}

// label names a row so that it can be told from the others: with its chain where
// another chain of its group has the workload too, with its size where there are
// several.
func (t *Table) label(r Row) string {
	chain, size := "", ""
	for _, o := range t.Rows {
		if o.Size != r.Size {
			size = ", " + r.Size.String()
		}
		if groupOf(o) == groupOf(r) && o.String() == r.String() && o.Chain != r.Chain {
			chain = " (" + r.Chain + ")"
		}
	}
	return r.String() + chain + size
}

// String writes "2 M × 100 B".
func (s Size) String() string {
	n := fmt.Sprint(s.Records)
	switch {
	case s.Records >= 1_000_000:
		n = fmt.Sprintf("%g M", float64(s.Records)/1e6)
	case s.Records >= 1000:
		n = fmt.Sprintf("%g k", float64(s.Records)/1e3)
	}
	return fmt.Sprintf("%s × %d B", n, s.ValueBytes)
}
