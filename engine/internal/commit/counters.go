package commit

import (
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/histogram"
)

// counters are about commits. They grow for ever.
type counters struct {
	commits, ops, bytes atomic.Uint64
	times               histogram.Histogram
}

// sampleEvery is how many commits share one measurement. Why not all: reading the clock twice
// costs 50 to 80 ns, a tenth of a write.
const sampleEvery = 32

// start begins a commit's measurement; a zero time means it is not sampled.
func (c *counters) start() time.Time {
	if c.commits.Load()%sampleEvery != 0 {
		return time.Time{}
	}
	return time.Now()
}

func (c *counters) done(start time.Time) {
	if !start.IsZero() {
		c.times.Record(time.Since(start))
	}
}

// commit counts a commit.
func (c *counters) commit(ops int, bytes int64) {
	c.commits.Add(1)
	c.ops.Add(uint64(ops))
	c.bytes.Add(uint64(bytes))
}

// Metrics are figures about commits since New.
type Metrics struct {
	Commits, Operations uint64
	Bytes               uint64             // of log records
	Times               histogram.Snapshot // of one commit in 32
}

// Metrics returns the present figures.
func (p *Pipeline) Metrics() Metrics {
	c := &p.counters
	return Metrics{c.commits.Load(), c.ops.Load(), c.bytes.Load(), c.times.Snapshot()}
}
