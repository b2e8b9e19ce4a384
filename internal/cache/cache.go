package cache

import (
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/garbage"
)

// maxSpared bounds how many referenced entries one eviction passes over before it
// takes the next one regardless. Why: without it an insertion into a cache whose
// entries are all marked would walk the whole ring under the mutex.
const maxSpared = 256

// Cache is a byte budget shared by the values of many files, with CLOCK eviction:
// a hand walks a ring of entries, takes a mark from each marked entry and evicts
// the first unmarked one (Corbató, "A Paging Experiment with the Multics System",
// 1968; several marks per entry as in generalised CLOCK).
//
// Invariant: the charged bytes never exceed the budget. Beyond them live only the
// values that readers still refer to after their eviction, and those being
// decoded for insertion; both are bounded by the number of concurrent readers.
//
// All methods are safe for concurrent use.
type Cache struct {
	mu     sync.Mutex
	budget int64     // Guarded by mu.
	used   int64     // Guarded by mu.
	owed   int64     // Guarded by mu. See NewGroup.
	count  int       // Guarded by mu. Entries in the ring.
	ring   []evictee // Guarded by mu. From 1 on; nil where an entry was removed.
	free   []int32   // Guarded by mu. Indexes of the nil places.
	hand   int       // Guarded by mu.
	gone   int64     // Guarded by mu. Removed, and not yet reported as garbage.

	asked                       uint64 // Guarded by mu. Questions to Admits when full.
	inserts, rejects, evictions uint64 // Guarded by mu.
}

// admitEvery is how many values that would push out others are asked for until one of
// them is admitted. Why: what is read over and over is asked for often enough to get
// in; what is read once costs one short lock, and three times of four no memory and no
// eviction.
const admitEvery = 4

// reportAt is how many bytes are removed until one in garbageWeight is reported as garbage. Why not
// all of them: each cached value is an object that collections look at, and reads which miss evict
// several times a cache's bytes in a second.
const reportAt, garbageWeight = 1 << 20, 2

// evictee is an Item of any type.
type evictee interface {
	base() *node
	unlink()
}

// node is the part of an Item that does not depend on its type. Why its neighbours are indexes:
// the garbage collector follows each pointer of each entry.
type node struct {
	marks  atomic.Uint32 // passes of the hand it still survives
	weight uint32        // marks a hit restores
	bytes  int64
	group  *Group
	of     *Group // is dropped with it, or nil; see InsertRoot
	place  int32  // Guarded by Cache.mu. Index in the ring, 0 outside of it.
	// Guarded by Cache.mu. Places of the neighbours in the group's list, 0 at its ends.
	next, prev int32
}

func (n *node) base() *node { return n }

// owedPart is the part of the budget that what lies outside of the cache can take of it.
const owedPart = 0.75

// New returns a cache of budgetBytes. A budget of 0 caches nothing.
func New(budgetBytes int64) *Cache {
	return &Cache{budget: budgetBytes, ring: make([]evictee, 1)}
}

// SetBudget changes the budget and evicts what no longer fits.
func (c *Cache) SetBudget(budgetBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget = budgetBytes
	c.makeRoomLocked(0)
}

// roomLocked returns how many bytes of the budget are for values.
func (c *Cache) roomLocked() int64 {
	return c.budget - min(c.owed, int64(owedPart*float64(c.budget)))
}

// Metrics is a snapshot of a cache's counters. Hits are not among them: counting
// them would make readers contend; the owners of the slots count accesses.
type Metrics struct {
	BudgetBytes int64
	UsedBytes   int64 // charged at the moment
	Entries     int   // cached at the moment
	Inserts     uint64
	Rejects     uint64 // values larger than the whole budget, never cached
	Evictions   uint64 // entries pushed out for room; dropped files do not count
}

// Metrics returns the counters.
func (c *Cache) Metrics() Metrics {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Metrics{
		BudgetBytes: c.budget, UsedBytes: c.used, Entries: c.count,
		Inserts: c.inserts, Rejects: c.rejects, Evictions: c.evictions,
	}
}

// insertLocked puts e into the ring if it can be charged.
func (c *Cache) insertLocked(e evictee) bool {
	n := e.base()
	if n.group.dropped {
		return false
	}
	if n.bytes > c.roomLocked() {
		c.rejects++
		return false
	}
	if c.makeRoomLocked(n.bytes); n.group.dropped { // its root has given way
		return false
	}
	if k := len(c.free); k > 0 {
		n.place = c.free[k-1]
		c.free = c.free[:k-1]
		c.ring[n.place] = e
	} else {
		n.place = int32(len(c.ring))
		c.ring = append(c.ring, e)
	}
	c.used += n.bytes
	c.count++
	c.inserts++
	n.group.addLocked(n)
	return true
}

// makeRoomLocked evicts until need more bytes fit, or nothing is left.
func (c *Cache) makeRoomLocked(need int64) {
	spared := 0
	for room := c.roomLocked(); c.used+need > room && c.count > 0; {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		e := c.ring[c.hand]
		c.hand++
		if e == nil {
			continue
		}
		n := e.base()
		if m := n.marks.Load(); m > 0 && spared < maxSpared {
			n.marks.Store(m - 1)
			spared++
			continue
		}
		spared = 0
		before := c.count
		c.removeLocked(n)
		c.evictions += uint64(before - c.count)
	}
}

// removeLocked takes n out of the ring, its group and its slot; a root with the group that it has
// the slots of.
func (c *Cache) removeLocked(n *node) {
	e := c.ring[n.place]
	n.group.removeLocked(n)
	c.ring[n.place] = nil
	c.free = append(c.free, n.place)
	n.place = 0
	c.used -= n.bytes
	if c.gone += n.bytes; c.gone >= reportAt {
		garbage.Add(c.gone / garbageWeight)
		c.gone = 0
	}
	c.count--
	e.unlink()
	if n.of != nil {
		n.of.dropLocked()
	}
}

// Group is the set of a file's entries, or of those that a root has the slots of. Dropping it
// releases them.
type Group struct {
	cache   *Cache
	dropped bool  // Guarded by cache.mu.
	head    int32 // Guarded by cache.mu. A place in the ring, 0 if empty.
	owed    int64
}

// NewGroup returns an empty group of a file that has owedBytes in memory outside of the cache until
// Drop. The values of all files have so much less room, down to a quarter of the budget: one
// budget bounds both, however many files there are.
func (c *Cache) NewGroup(owedBytes int64) *Group {
	g := &Group{cache: c, owed: owedBytes}
	g.Owe(owedBytes)
	return g
}

// Owe is about what readers of the file have in memory for a time: negative bytes give it back.
func (g *Group) Owe(bytes int64) {
	c := g.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed += bytes
	c.makeRoomLocked(0)
}

// Part returns an empty group for InsertRoot.
func (g *Group) Part() *Group { return &Group{cache: g.cache} }

// Drop removes every entry of the group from the cache and its slot. Later
// insertions into the group cache nothing. Values in use stay valid. Drop may be
// called more than once.
func (g *Group) Drop() {
	g.cache.mu.Lock()
	defer g.cache.mu.Unlock()
	g.dropLocked()
}

func (g *Group) dropLocked() {
	if !g.dropped {
		g.cache.owed -= g.owed
	}
	g.dropped = true
	for g.head != 0 {
		g.cache.removeLocked(g.cache.ring[g.head].base())
	}
}

// Admits reports whether a value of that size, which the caller could do without
// keeping, should be inserted: if there is room, or, unless it is read only once, every
// now and then.
func (g *Group) Admits(bytes int64, once bool) bool {
	c := g.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	room := c.roomLocked()
	switch {
	case g.dropped || bytes > room:
		return false
	case c.used+bytes <= room:
		return true
	case once:
		return false
	}
	c.asked++
	return c.asked%admitEvery == 0
}

func (g *Group) addLocked(n *node) {
	n.next, n.prev = g.head, 0
	if g.head != 0 {
		g.cache.ring[g.head].base().prev = n.place
	}
	g.head = n.place
}

func (g *Group) removeLocked(n *node) {
	if n.prev != 0 {
		g.cache.ring[n.prev].base().next = n.next
	} else {
		g.head = n.next
	}
	if n.next != 0 {
		g.cache.ring[n.next].base().prev = n.prev
	}
	n.next, n.prev = 0, 0
}
