package overview

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/figure"
)

// advice is something to do, with the command for it.
type advice struct{ Text, Command string }

// Thresholds of advice. Why these: below them following it changes nothing noticeable.
const (
	muchGarbage   = 1.3     // bytes in files by bytes of items
	manyRuns      = 6       // of a stripe
	muchLog       = 8 << 20 // bytes
	largePart     = 0.25    // of all bytes in one partition
	enoughToJudge = 4 << 20 // bytes
)

// adviceFor returns what needs attention.
func adviceFor(r *Data) (all []advice) {
	add := func(command, format string, args ...any) {
		all = append(all, advice{fmt.Sprintf(format, args...), "kstone-cli " + command})
	}
	raw := r.Metrics.Total.RawBytes
	if r.LiveBytes > enoughToJudge && float64(raw) > muchGarbage*float64(r.LiveBytes) {
		add("compact "+r.Path, "Files hold %s for %s of items: overwritten, deleted and expired"+
			" ones wait for merges. Merging everything makes reads faster and files smaller.",
			figure.Bytes(raw), figure.Bytes(r.LiveBytes))
	}
	most := 0
	for i := range r.Metrics.Stripes {
		most = max(most, r.Metrics.Stripes[i].Runs)
	}
	if most > manyRuns {
		add("compact "+r.Path, "A stripe has %d runs, and a scan reads all of them.", most)
	}
	if r.Metrics.LogBytes > muchLog {
		add("flush "+r.Path, "The log has %s that an open reads again.",
			figure.Bytes(r.Metrics.LogBytes))
	}
	if len(r.Largest) > 0 && r.LiveBytes > enoughToJudge &&
		float64(r.Largest[0].Bytes) > largePart*float64(r.LiveBytes) {
		p := r.Largest[0]
		add("keys advise FILE --query …", "The partition %s of %s has %s of all bytes, and is"+
			" in one stripe. A further field in the partition key, or a sharded one, spreads it.",
			p.Name, p.Owner, shareOf(p.Bytes, r.LiveBytes))
	}
	for _, s := range r.Owners {
		if s.owner.Table != nil && s.owner.Index == nil && s.Statistics == "none" && s.Count > 0 {
			add(fmt.Sprintf("sql %s 'ANALYZE %s'", r.Path, s.owner.Table.Name),
				"Queries of %s are planned without statistics.", s.Name)
		}
	}
	for _, s := range r.Settings {
		if s.Name == "filter-bits" && s.Value == "none" {
			add(fmt.Sprintf("settings %s filter-bits=8", r.Path),
				"There are no filters: a lookup of an absent key reads a block of every run.")
		}
	}
	if len(all) == 0 {
		all = append(all, advice{Text: "Nothing needs attention."})
	}
	return append(slices.Clip(all), advice{"This page has not checked the stored bytes.",
		"kstone-cli verify " + r.Path})
}
