package read

import (
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/histogram"
)

// counters are about reads. They grow for ever.
type counters struct {
	cache.Striped                     // see below
	times         histogram.Histogram // of lookups of one key
	timed         atomic.Uint64       // how many of them are in times
	hot           hotReads
}

const (
	gets = iota
	queries
	scans
	scanned // entries of queries and scans
)

// sampleEvery is how many lookups share one measurement. Why not all: reading the clock twice
// costs 50 to 80 ns, a third of a lookup.
const sampleEvery = 32

// start begins a lookup's measurement; a zero time means it is not sampled.
func (c *counters) start() time.Time {
	if c.Add(gets, 1)%sampleEvery != 0 {
		return time.Time{}
	}
	return time.Now()
}

// done ends the measurement of a lookup of a key in ordered form.
func (c *counters) done(start time.Time, id uint8, key []byte) {
	if !start.IsZero() { // done itself is inlined
		c.sampled(start, id, key)
	}
}

func (c *counters) sampled(start time.Time, id uint8, key []byte) {
	c.times.Record(time.Since(start))
	if c.timed.Add(1)%(hotEvery/sampleEvery) == 0 {
		c.hot.note(id, key)
	}
}

// query counts a query. If it returns true, its partitions are to be noted.
func (c *counters) query() (note bool) { return c.Add(queries, 1)%hotEvery == 0 }

// group counts lookups of many keys.
func (c *counters) group(l *lookups) {
	n := uint64(len(l.ids))
	for past := c.Add(gets, n) % hotEvery; past < n; past += hotEvery {
		number := n - 1 - past
		if l.few {
			c.hot.note(l.ids[number], l.list[number].Key)
			continue
		}
		s := &l.slots[number]
		c.hot.note(l.ids[s.number], l.text[s.at:s.at+int(s.size)])
	}
}

// Metrics are figures about reads since New.
type Metrics struct {
	Gets, Queries, Scans, Scanned uint64
	Times                         histogram.Snapshot // of one lookup of a key in 32
}

// Metrics returns the present figures.
func (s *State) Metrics() Metrics {
	c := &s.counters
	return Metrics{c.Load(gets), c.Load(queries), c.Load(scans), c.Load(scanned),
		c.times.Snapshot()}
}
