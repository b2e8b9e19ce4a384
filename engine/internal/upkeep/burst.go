package upkeep

import (
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/compaction"
)

// burstDetector notices that writes come so fast that memtables are flushed one group after the
// other. Merges then wait for twice as many runs.
//
// Why: a merge that waits is a merge of more runs, so that each item is written less
// often, and meanwhile the processors belong to writers and flushes. When the burst is
// over the merges that are due follow at once; when it is not, they come at twice the
// number of runs, long before the back-pressure of runsSoft. Figures are in
// docs/decisions/0009-merges-wait-for-bursts.md.
type burstDetector struct {
	last  time.Time    // of the newest flush; only the flush loop's
	until atomic.Int64 // Unix nanoseconds
}

const (
	// burstRate is the rate of flushing from which on there is a burst.
	burstRate = 8 << 20 // bytes a second
	// burstPause is how long after the last flush it is over.
	burstPause = 150 * time.Millisecond
)

// flushed notes a flush of n bytes that a budget asked for.
func (b *burstDetector) flushed(now time.Time, n int64) {
	since := now.Sub(b.last)
	b.last = now
	if float64(n) > burstRate*since.Seconds() {
		b.until.Store(now.Add(burstPause).UnixNano())
	}
}

// left returns how long the burst goes on, or 0.
func (b *burstDetector) left(now time.Time) time.Duration {
	left := time.Duration(b.until.Load() - now.UnixNano())
	return min(max(0, left), burstPause) // the clock may have been set back
}

// burstOptions returns what merges wait for.
func burstOptions(o compaction.Options, busy bool) compaction.Options {
	if busy {
		o.Trigger *= 2
		o.MaxRuns = max(o.MaxRuns, o.Trigger)
		o.GarbagePercent = burstGarbagePercent
	}
	return o
}

// burstGarbagePercent is the share of garbage that is worth a merge during a burst.
const burstGarbagePercent = 50
