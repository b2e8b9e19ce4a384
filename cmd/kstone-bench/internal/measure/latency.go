// Package measure takes the measurements of the benchmarks: latencies, and what the
// process has used of processors, memory and disk.
package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

var epoch = time.Now()

// Clock returns the time since the start of the process. It reads the monotonic clock
// only, which is half the price of time.Now.
func Clock() time.Duration { return time.Since(epoch) }

// Latencies is a histogram of durations from 1 ns to 100 s with three significant
// digits. It is for one goroutine; Merge combines several.
type Latencies struct{ h *hdrhistogram.Histogram }

const (
	lowestNs  = 1
	highestNs = int64(100 * time.Second)
)

// NewLatencies returns an empty histogram.
func NewLatencies() *Latencies {
	return &Latencies{hdrhistogram.New(lowestNs, highestNs, 3)}
}

// Record adds one duration; those beyond 100 s count as 100 s.
func (l *Latencies) Record(d time.Duration) {
	_ = l.h.RecordValue(min(max(int64(d), lowestNs), highestNs)) // always in range
}

// Merge adds what other has recorded.
func (l *Latencies) Merge(other *Latencies) { l.h.Merge(other.h) }

// Count is the number of recorded durations.
func (l *Latencies) Count() int64 { return l.h.TotalCount() }

// Quantile returns the duration that the given share of all, 0 to 1, does not
// exceed; 1 is the maximum.
func (l *Latencies) Quantile(q float64) time.Duration {
	if q >= 1 {
		return time.Duration(l.h.Max())
	}
	return time.Duration(l.h.ValueAtQuantile(q * 100))
}
