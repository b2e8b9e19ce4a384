package keyset

import "sync"

// A Cache decides how much of the filters and stored keys stays in memory that segments
// opened by OpenSegmentAt have read. Several segments may share one; nil has no limit.
// When the limit is passed, what has not been used for longest, roughly, is let go; a
// batch that is using it keeps it until it ends.
type Cache struct {
	limit int64

	mu   sync.Mutex
	used int64    // Guarded by mu
	ring []cached // Guarded by mu
	hand int      // Guarded by mu
	// Guarded by mu; loads are counted from the first on.
	loads, evictions int64
}

// cached is one thing that was read: the filter of a part, or its keys.
type cached struct {
	part  *part
	keys  bool
	bytes int
}

// NewCache returns a cache for about so many bytes. What was read last stays even if it
// is larger by itself.
func NewCache(limitBytes int64) *Cache { return &Cache{limit: limitBytes} }

// UsedBytes returns the bytes that are held.
func (c *Cache) UsedBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Loads returns how many filters and columns of keys were read, and how many of them
// were let go.
func (c *Cache) Loads() (loads, evictions int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loads, c.evictions
}

// add counts what has just been read, and lets go of others until the limit holds.
func (c *Cache) add(e cached) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads++
	c.used += int64(e.bytes)
	for c.used > c.limit && len(c.ring) > 0 {
		c.hand %= len(c.ring)
		old := c.ring[c.hand]
		if old.part.used.Swap(false) && old.part != e.part {
			c.hand++
			continue // has been used since: once more around
		}
		if old.keys {
			old.part.keyPtr.Store(nil)
		} else {
			old.part.tablePtr.Store(nil)
		}
		c.used -= int64(old.bytes)
		c.evictions++
		c.ring[c.hand] = c.ring[len(c.ring)-1]
		c.ring[len(c.ring)-1] = cached{}
		c.ring = c.ring[:len(c.ring)-1]
	}
	c.ring = append(c.ring, e)
}
