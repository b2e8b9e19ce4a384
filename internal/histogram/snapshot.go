package histogram

import (
	"fmt"
	"math"
	"time"
)

// Snapshot is the content of a Histogram at one moment. The zero value is empty.
// Copies share their buckets, which never change, so copying is cheap and safe; a
// Snapshot may be read concurrently, but not while Merge runs on it.
type Snapshot struct {
	counts []uint64 // by bucket, up to the last one that is not zero
	count  uint64
	max    uint64 // nanoseconds
}

// Count returns the number of durations.
func (s Snapshot) Count() uint64 { return s.count }

// Max returns the longest duration, exactly, or 0.
func (s Snapshot) Max() time.Duration { return time.Duration(s.max) }

// Mean returns the average duration, at most 1.6 % off, or 0.
func (s Snapshot) Mean() time.Duration {
	if s.count == 0 {
		return 0
	}
	sum := 0.0 // a sum of nanoseconds may exceed 64 bits
	for b, n := range s.counts {
		sum += float64(n) * float64(middle(b))
	}
	return min(time.Duration(sum/float64(s.count)), s.Max())
}

// Quantile returns the duration that a share q of the durations does not exceed, at
// most 1.6 % off: Quantile(0.5) is the median. q is clamped to [0, 1]; 1 gives Max.
// An empty snapshot gives 0.
func (s Snapshot) Quantile(q float64) time.Duration {
	if s.count == 0 {
		return 0
	}
	if !(q > 0) { // also not a number
		q = 0
	}
	rank := max(1, uint64(math.Ceil(min(q, 1)*float64(s.count))))
	if rank >= s.count {
		return s.Max()
	}
	seen := uint64(0)
	for b, n := range s.counts {
		if seen += n; seen < rank {
			continue
		}
		return min(middle(b), s.Max())
	}
	return s.Max()
}

// CountWithin stores for each bound, which ascend, how many durations do not exceed it; those of
// the bound's own bucket count if its middle does not. Requires: within is as long as bounds.
func (s Snapshot) CountWithin(bounds []time.Duration, within []uint64) {
	seen, b := uint64(0), 0
	for i, bound := range bounds {
		for ; b < len(s.counts) && middle(b) <= bound; b++ {
			seen += s.counts[b]
		}
		within[i] = seen
	}
}

// middle returns the duration that stands for all of a bucket.
func middle(b int) time.Duration {
	lo, hi := bucketRange(b)
	return time.Duration(lo + (hi-1-lo)/2)
}

// Merge adds the content of o to s, as if both had been recorded in one Histogram.
func (s *Snapshot) Merge(o Snapshot) {
	counts := make([]uint64, max(len(s.counts), len(o.counts)))
	copy(counts, s.counts)
	for b, n := range o.counts {
		counts[b] += n
	}
	s.counts = counts
	s.count += o.count
	s.max = max(s.max, o.max)
}

// String returns count, mean, quantiles and maximum on one line.
func (s Snapshot) String() string {
	return fmt.Sprintf("count %d  mean %v  p50 %v  p90 %v  p99 %v  p99.9 %v  max %v",
		s.count, round(s.Mean()), round(s.Quantile(0.5)), round(s.Quantile(0.9)),
		round(s.Quantile(0.99)), round(s.Quantile(0.999)), round(s.Max()))
}

// round keeps three digits; the rest would pretend to be exact.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
