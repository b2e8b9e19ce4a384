// Package histogram counts latencies in log-linear buckets. Recording takes a few
// nanoseconds, allocates nothing and takes no lock; quantiles are read from a
// [Snapshot] and are off by at most 1.6 %.
//
// # Buckets
//
// Durations below 32 ns have a bucket each. Above, every power of two is divided
// into 32 buckets of equal width, so a bucket is at most 1/32 of its lower bound
// wide, and its middle is at most half of that away from any value in it. All
// durations that exist have a bucket.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	subBits    = 5 // 32 buckets per power of two
	subBuckets = 1 << subBits
	numBuckets = (63 - subBits + 1) * subBuckets

	// numShards divides the counters so that goroutines on different processors
	// rarely write to the same cache line.
	shardBits = 3
	numShards = 1 << shardBits
)

// Histogram counts durations. The zero value is empty and ready; it must not be
// copied. All methods may be called concurrently. It takes 119 KiB;
// only the buckets in use are ever touched.
type Histogram struct {
	shards [numShards]shard
}

// shard is one set of counters. The padding keeps the maximum, which is read often
// and written rarely, off the cache lines of counters, its own and the neighbour's.
//
// Why no sum: it would be a second contended write per Record, as dear as the rest
// of it, and the buckets give the mean as precisely as everything else.
type shard struct {
	counts [numBuckets]atomic.Uint64
	_      [64]byte
	max    atomic.Uint64 // nanoseconds
	_      [56]byte
}

// Record adds one duration. A negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	v := uint64(max(d, 0))
	s := &h.shards[shardIndex()]
	s.counts[bucket(v)].Add(1)
	for {
		old := s.max.Load()
		if v <= old || s.max.CompareAndSwap(old, v) {
			return
		}
	}
}

// Snapshot returns what has been recorded so far. A Record that runs at the same
// time is in it or not.
func (h *Histogram) Snapshot() Snapshot {
	var counts [numBuckets]uint64
	var out Snapshot
	used := 0
	for i := range h.shards {
		s := &h.shards[i]
		for b := range s.counts {
			if n := s.counts[b].Load(); n > 0 {
				counts[b] += n
				out.count += n
				used = max(used, b+1)
			}
		}
		out.max = max(out.max, s.max.Load())
	}
	out.counts = append([]uint64(nil), counts[:used]...)
	return out
}

// shardIndex chooses a shard by the address of the caller's stack. Why: goroutines
// have stacks of at least 2 KiB of their own, so those that record at the same time
// mostly differ, and one goroutine stays with one shard and its cache lines. The
// address is only hashed, never followed.
func shardIndex() uint64 {
	var here byte
	const spread = 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	page := uint64(uintptr(unsafe.Pointer(&here))) >> 11
	return page * spread >> (64 - shardBits)
}

// bucket returns the bucket of a duration in nanoseconds, below 2^63.
func bucket(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	k := bits.Len64(v) - 1 - subBits
	return k*subBuckets + int(v>>k)
}

// bucketRange returns the durations [lo, hi) of a bucket.
func bucketRange(b int) (lo, hi uint64) {
	if b < 2*subBuckets {
		return uint64(b), uint64(b) + 1
	}
	k := b/subBuckets - 1
	lo = uint64(b-k*subBuckets) << k
	return lo, lo + 1<<k
}
