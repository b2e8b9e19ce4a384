package histogram

import (
	"sync"
	"testing"
)

// TestGoroutinesSpreadOverShards checks the reason for choosing shards by stack:
// goroutines that are alive together use different counters.
func TestGoroutinesSpreadOverShards(t *testing.T) {
	const goroutines = 64
	var h Histogram
	var ready, done sync.WaitGroup
	ready.Add(goroutines)
	for range goroutines {
		done.Go(func() {
			ready.Done()
			ready.Wait() // all stacks exist at once
			h.Record(100)
		})
	}
	done.Wait()
	used := 0
	for i := range h.shards {
		if n := h.shards[i].counts[bucket(100)].Load(); n > 0 {
			used++
		}
	}
	if used < numShards/2 {
		t.Errorf("%d goroutines used %d of %d shards", goroutines, used, numShards)
	}
}

// TestBucketsTile checks that the buckets cover [0, 2^63) without gap or overlap.
func TestBucketsTile(t *testing.T) {
	next := uint64(0)
	for b := range numBuckets {
		lo, hi := bucketRange(b)
		if lo != next || bucket(lo) != b || bucket(hi-1) != b {
			t.Fatalf("bucket %d is [%d, %d), the one before ends at %d", b, lo, hi, next)
		}
		next = hi
	}
	if next != 1<<63 {
		t.Errorf("the buckets end at %d", next)
	}
}
