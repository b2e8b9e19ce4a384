package commit

import (
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/histogram"
)

// counters are about commits. They grow for ever. What the log counts under its mutex is not
// counted again: each atomic addition costs a fiftieth of a write.
type counters struct {
	first base.SeqNum   // the log's last seq at Start
	more  atomic.Uint64 // operations of commits beyond one each
	times histogram.Histogram
}

// sampleEvery is how many commits share one measurement. Why not all: reading the clock twice
// costs 50 to 80 ns, a tenth of a write.
const sampleEvery = 32

// epoch is what moments are measured from: one word, where a time.Time is three.
var epoch = time.Now()

// start begins the measurement of a commit after the given one; 0 means it is not sampled.
func (c *counters) start(last base.SeqNum) time.Duration {
	if last%sampleEvery != 0 {
		return 0
	}
	return time.Since(epoch)
}

func (c *counters) done(start time.Duration) {
	if start != 0 {
		c.times.Record(time.Since(epoch) - start)
	}
}

// commit counts the operations of a commit.
func (c *counters) commit(ops int) {
	if ops > 1 {
		c.more.Add(uint64(ops - 1))
	}
}

// Metrics are figures about commits since Start.
type Metrics struct {
	Commits, Operations uint64
	Bytes               uint64             // of log records
	Times               histogram.Snapshot // of one commit in 32
}

// Metrics returns the present figures.
func (p *Pipeline) Metrics() Metrics {
	m := Metrics{Operations: p.counters.more.Load(), Times: p.counters.times.Snapshot()}
	if p.log != nil {
		m.Commits = uint64(p.log.LastSeq() - p.counters.first)
		m.Bytes = p.log.RecordBytes()
	}
	m.Operations += m.Commits
	return m
}
