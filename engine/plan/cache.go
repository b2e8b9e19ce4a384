package plan

import (
	"encoding/binary"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/logical"
)

// Cache keeps prepared queries, the least recently used ones leaving first: by their shape, the
// versions of their tables and the epochs of the statistics, and by the class of the values of
// their parameters, see Fitting. What it keeps is right for all values: which index, which
// joins, compiled templates; never spans, never that something is empty or NULL, never the
// length of a list.
//
// A layer whose queries have another form than Select keeps what it prepares in the same
// cache, under keys of its own: see Get and Keep.
//
// A Cache may be used concurrently. The zero Cache keeps nothing; see NewCache.
type Cache struct {
	most int

	mu      sync.Mutex
	entries map[string]*cached
	recent  cached // the head of a ring: next is the last used one, prev the one that leaves first
	hits    uint64
	misses  uint64
	once    []uint32 // sums of keys: see again
}

// cached is an entry, and its place in the ring of all. It is in the ring as long as in the map.
type cached struct {
	next, prev *cached
	key        string
	prepared   any // a *Prepared, or what Keep was given
}

// unlink takes an entry out of the ring.
func (e *cached) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// linkAfter puts an entry that is in no ring after another one.
func (e *cached) linkAfter(at *cached) {
	e.prev, e.next = at, at.next
	e.prev.next, e.next.prev = e, e
}

// NewCache returns a cache of at most so many queries.
func NewCache(most int) *Cache {
	c := &Cache{most: most, entries: map[string]*cached{}}
	c.recent.next, c.recent.prev = &c.recent, &c.recent
	return c
}

// CacheStats are the counters of a cache.
type CacheStats struct {
	Hits, Misses uint64
	Entries      int
}

// Stats returns the counters since the cache was made.
func (c *Cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheStats{c.hits, c.misses, len(c.entries)}
}

// Prepare is the function Prepare, or what it has returned before for a query of the same
// shape. Options other than Stats must be the same in all calls. A cursor of sel is not
// part of the result: use BindAfter.
func (c *Cache) Prepare(sel *Select, opt Options) (*Prepared, error) {
	return c.prepare(sel, opt, c.Keep)
}

func (c *Cache) prepare(sel *Select, opt Options, keep func([]byte, any)) (*Prepared, error) {
	s := logical.KeyOf(sel, opt.Stats)
	defer s.Release()
	if p, ok := c.Get(s.Bytes()).(*Prepared); ok {
		return p, nil
	}
	if sel.After != nil {
		shared := *sel
		shared.Page, shared.After = true, nil
		sel = &shared
	}
	p, err := Prepare(sel, opt)
	if err == nil {
		keep(s.Bytes(), p)
	}
	return p, err
}

// KeepAgain is Keep for what may never be asked again, a text with its values: it is kept from the
// second time on. Why: plans that are asked once were most of what the garbage collector had to
// look at.
func (c *Cache) KeepAgain(key []byte, prepared any) {
	if c.again(key) {
		c.Keep(key, prepared)
	}
}

// again reports whether a key was asked for before, as far as that is remembered. It counts a miss
// if it was not.
func (c *Cache) again(key []byte) bool {
	sum := sumOf(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.once == nil {
		c.once = make([]uint32, max(1, min(sumsOfKey*c.most, maxSums)))
	}
	at := &c.once[sum%uint32(len(c.once))]
	if *at == sum {
		return true
	}
	*at = sum
	c.misses++
	return false
}

// sumOf returns a sum of a key. Why not one of hash/crc32: they make the caller's buffer escape.
func sumOf(key []byte) uint32 {
	const prime = 0x9E3779B97F4A7C15
	sum := uint64(len(key))
	for ; len(key) >= 8; key = key[8:] {
		sum = (sum ^ binary.LittleEndian.Uint64(key)) * prime
		sum ^= sum >> 29
	}
	for _, b := range key {
		sum = (sum ^ uint64(b)) * prime
	}
	return uint32(sum >> 32)
}

// For each key that a cache keeps it remembers so many that were asked for once.
const (
	sumsOfKey = 4
	maxSums   = 1 << 13
)

// literalsMatter is kept for a query with parameters for the values in its text if its plan depends
// on the values, or if it has no plan.
type literalsMatter struct{}

// PrepareLiterals is Prepare of a query without parameters whose values come from a text. From the
// second query on that differs from another one by values alone, and if the choice of a plan needs
// no count of what they find, it has parameters in their place: then values are returned for them.
func (c *Cache) PrepareLiterals(sel *Select, opt Options) (p *Prepared, values []expr.Value,
	err error) {
	var s *logical.Shape
	if !opt.RefuseFullScan && c.most > 0 {
		s = logical.LiteralKeyOf(keyOfLiterals, sel, opt.Stats)
	}
	if s == nil {
		p, err = c.prepare(sel, opt, c.KeepAgain)
		return p, nil, err
	}
	defer s.Release()
	known := c.Get(s.Bytes())
	again := known == nil && c.again(s.Bytes())
	if known == nil && !again { // nor is it kept with its values
		p, err = Prepare(sel, opt)
		return p, nil, err
	}
	if again {
		known = literalsMatter{}
		same := logical.WithLiterals(sel)
		if p, err = Prepare(same, opt); err == nil && p.q.scope.params == len(s.Literals()) {
			known = p
		}
		c.Keep(s.Bytes(), known)
	}
	if p, ok := known.(*Prepared); ok && (p.variants == nil || !counts(sel, &opt)) {
		return p, s.Literals(), nil
	}
	p, err = c.prepare(sel, opt, c.KeepAgain)
	return p, nil, err
}

// counts reports whether what conditions find in a table of a query is counted.
func counts(sel *Select, opt *Options) bool {
	for _, s := range sel.From {
		var known *TableStats
		if opt.Stats != nil {
			known = opt.Stats.Table(s.Table)
		}
		live := estimate.NewLive(opt.Counter)
		if estimate.ForTable(s.Table, known, nil).WithLive(live).Counts() {
			return true
		}
	}
	return false
}

// Get returns what is kept under a key, nil if there is nothing.
func (c *Cache) Get(key []byte) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[string(key)]
	if !ok {
		return nil
	}
	c.hits++
	e.unlink()
	e.linkAfter(&c.recent)
	return e.prepared
}

// Marks begin the keys of what is not the shape of a Select, which begins with the varint of a
// number of sources: those of negative numbers are odd.
const (
	KeyOfStructs  = 1 // queries of structs
	keyOfClass    = 3 // a Select with values of a class
	KeyOfText     = 5 // statements by their text
	keyOfLiterals = 7 // a Select with parameters for the values in a text
)

// Keep keeps what was prepared instead of what Get has found: a miss. The key of a layer begins
// with its mark.
func (c *Cache) Keep(key []byte, prepared any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.misses++
	if c.most <= 0 {
		return
	}
	if e, ok := c.entries[string(key)]; ok {
		e.prepared = prepared
		return
	}
	var e *cached
	if len(c.entries) < c.most {
		e = new(cached)
	} else { // the memory of the one that leaves is used again
		e = c.recent.prev
		e.unlink()
		delete(c.entries, e.key)
	}
	e.key, e.prepared = string(key), prepared
	e.linkAfter(&c.recent)
	c.entries[e.key] = e
}
