package growth

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

const (
	// bend is what kstone is to keep of a figure as the data grows, by what a peer keeps: less
	// than a tenth cannot be separated from noise by a few rounds.
	bend = 0.9
	// coldShare is the share of LMDB's throughput, which has no cache but that of the system.
	coldShare = 0.8
)

// checks compares how far figures fall from the smallest to the largest data that both engines
// have, and what is read with a small cache.
func checks(t *report.Table) (out []report.Check, remark string) {
	for _, peer := range []string{"pebble", "rocksdb"} {
		for i := range curves {
			out = append(out, curves[i].check(t, peer))
		}
	}
	for _, r := range t.In(cold) {
		if r.Case != "load" {
			name := "data 4 and 16 × the cache"
			out = append(out, t.Check(report.Faster(name, r, "lmdb", coldShare)))
		}
	}
	return out, ""
}

// check wants no curve to bend down faster than that of a peer.
func (c *curve) check(t *report.Table, peer string) report.Check {
	want := report.Faster("growth", report.Row{}, peer, bend)
	check := report.Check{Target: want.Name, Case: c.title, Figure: "kept ÷ " + peer}
	both := sizes(t, valueBytes)
	has := func(s result.Size) bool {
		return c.at(t, result.Subject, s) > 0 && c.at(t, peer, s) > 0
	}
	for len(both) > 0 && !has(both[0]) {
		both = both[1:]
	}
	for len(both) > 0 && !has(both[len(both)-1]) {
		both = both[:len(both)-1]
	}
	if len(both) < 2 {
		return check.Judge(want, report.Ratio{}, "", false)
	}
	small, large := both[0], both[len(both)-1]
	check.Case += fmt.Sprintf(", %s to %s", result.Count(small.Records),
		result.Count(large.Records))
	kept := func(e string) float64 {
		if !c.more {
			return c.at(t, e, small) / c.at(t, e, large)
		}
		return c.at(t, e, large) / c.at(t, e, small)
	}
	return check.Judge(want, report.Ratio{Value: kept(result.Subject) / kept(peer)}, "", true)
}

// valueBytes is the size of values that has curves.
const valueBytes = 100
