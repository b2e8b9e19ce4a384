package read

import (
	"runtime"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
)

const (
	// keysPerLane is how many keys make it worth while to start one more goroutine.
	keysPerLane = 8192
	maxLanes    = 8
)

// divide makes a lane for each of so many goroutines, the caller's included; 0 means as
// many as are useful for n keys.
func (l *lookups) divide(workers, n int) {
	if workers <= 0 {
		workers = min(runtime.GOMAXPROCS(0), maxLanes)
	}
	workers = min(workers, n/keysPerLane, base.NumStripes)
	for range workers - 1 {
		l.more = append(l.more, lanesPool.Get().(*lane))
	}
}

func (l *lookups) eachLane(f func(*lane)) {
	f(&l.lane)
	for _, w := range l.more {
		f(w)
	}
}

// inLanes calls f in all lanes at the same time.
func (l *lookups) inLanes(f func(*lane)) {
	var wg sync.WaitGroup
	for _, w := range l.more {
		wg.Go(func() { f(w) })
	}
	f(&l.lane)
	wg.Wait()
}
