package upkeep

import (
	"testing"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/stripe"
)

// On a full disk the merge that drops most of what it reads comes first, although another one
// reads more and has a few deletes, too.
func TestSpaceScorePrefersMergesThatDropMost(t *testing.T) {
	score := func(in compaction.RunInfo) float64 {
		v := &stripe.View{Runs: []*stripe.Run{{Info: in}}}
		return spaceScore(v, compaction.Plan{Lo: 0, Hi: 1})
	}
	few := score(compaction.RunInfo{Bytes: 10 << 20, Entries: 10_000, Tombstones: 2})
	half := score(compaction.RunInfo{Bytes: 1 << 20, Entries: 1000, Tombstones: 400})
	ranged := score(compaction.RunInfo{Bytes: 1 << 20, Entries: 1000, RangeTombstones: 1})
	if !(few < half && half < ranged) {
		t.Errorf("scores: few deletes %g, many %g, a range %g", few, half, ranged)
	}
}
