package read

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
)

// Goal: the visible number never passes an unfinished commit and reaches the last
// one. Method: many goroutines take numbers from a counter and publish them in the
// order the scheduler likes; each checks that its own number is not visible before
// it publishes.
func TestVisibleNeverPassesAnUnfinishedCommit(t *testing.T) {
	var v visible
	var next atomic.Uint64
	var wg sync.WaitGroup
	const workers, each = 16, 20000
	for range workers {
		wg.Go(func() {
			for range each {
				seq := base.SeqNum(next.Add(1))
				if v.load() >= seq {
					t.Errorf("seq %d visible before it was published", seq)
					return
				}
				v.publish(seq)
			}
		})
	}
	wg.Wait()
	v.wait(workers * each)
	if got := v.load(); got != workers*each {
		t.Fatalf("visible = %d, want %d", got, workers*each)
	}
}
