package read

import (
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/histogram"
)

// counters are about reads. They grow for ever.
type counters struct {
	gets, queries, scans atomic.Uint64
	times                histogram.Histogram // of lookups of one key
}

// sampleEvery is how many lookups share one measurement. Why not all: reading the clock twice
// costs 50 to 80 ns, a third of a lookup.
const sampleEvery = 32

// start begins a lookup's measurement; a zero time means it is not sampled.
func (c *counters) start() time.Time {
	if c.gets.Add(1)%sampleEvery != 0 {
		return time.Time{}
	}
	return time.Now()
}

func (c *counters) done(start time.Time) {
	if !start.IsZero() {
		c.times.Record(time.Since(start))
	}
}

// Metrics are figures about reads since New.
type Metrics struct {
	Gets, Queries, Scans uint64
	Times                histogram.Snapshot // of one lookup of a key in 32
}

// Metrics returns the present figures.
func (s *State) Metrics() Metrics {
	c := &s.counters
	return Metrics{c.gets.Load(), c.queries.Load(), c.scans.Load(), c.times.Snapshot()}
}
