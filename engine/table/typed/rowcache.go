package typed

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/keycodec"
)

// A cache must never give out a row that has been replaced. So a row leaves it before the
// commit that changes it begins, and none of its key comes in before that commit has ended:
// a reader that has found no row announces that it will fill its place, reads, and fills it
// only if no write of the key was under way or has begun since the announcement.

// CacheOptions of a RowCache. The zero value means the defaults.
type CacheOptions struct {
	// Rows is how many rows are kept; those used least recently make room. 0 is 10,000.
	Rows int
	// TTL is how long a row is kept; 0 is for ever. Where only this DB writes, the cache needs none
	// to be right: it is for rows that are not asked for any more.
	TTL time.Duration
	// Clock is the time; nil is that of the DB.
	Clock func() time.Time
}

// RowCache keeps rows of a table in memory, by primary key. Writes through this DB, typed or
// not, are seen at once, transactions when they have committed; rows written in a
// transaction of DB.Join stay out of the cache from then on. Writes of other processes and of other
// DBs on the same engine are not seen: there, TTL is how old a row may be. It may be used by any
// number of goroutines.
type RowCache[T any] struct {
	table *Table[T]
	bound *table.Table
	stop  func() // ends the watch
	opt   CacheOptions

	mu     sync.Mutex
	byKey  map[string]*list.Element // Guarded by mu; of cachedRow[T]
	lru    list.List                // Guarded by mu; the most recently used first
	keys   map[string]*keyState     // Guarded by mu
	hits   atomic.Int64
	misses atomic.Int64
}

type cachedRow[T any] struct {
	key    string
	row    T
	schema *schema.Table // that it was read by
	until  int64         // Unix milliseconds, 0: for ever
}

// keyState is what goes on with one key.
type keyState struct {
	writes int  // that have begun and not ended
	fills  int  // that are announced
	dirty  bool // a write was under way during one of these fills
}

// NewRowCache returns a cache of the rows of a table. Close ends it. Requires: no transaction
// that has written to the table is under way.
func NewRowCache[T any](db *table.DB, t *Table[T], o *CacheOptions) (*RowCache[T], error) {
	b, err := t.bind(db)
	if err != nil {
		return nil, err
	}
	c := &RowCache[T]{table: t, bound: b.table, byKey: map[string]*list.Element{},
		keys: map[string]*keyState{}}
	if o != nil {
		c.opt = *o
	}
	if c.opt.Rows < 0 || c.opt.TTL < 0 {
		return nil, invalid("a cache of %d rows for %s", c.opt.Rows, c.opt.TTL)
	}
	if c.opt.Rows == 0 {
		c.opt.Rows = 10_000
	}
	if c.opt.Clock == nil {
		c.opt.Clock = db.Now
	}
	c.stop = b.table.Watch(&rowio.Watcher{Begin: c.begin, End: c.end})
	return c, nil
}

// Close ends the cache; it has no rows any more.
func (c *RowCache[T]) Close() {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opt.Rows = 0
	clear(c.byKey)
	c.lru.Init()
}

// CacheCounts are the counters of a RowCache.
type CacheCounts struct {
	Hits, Misses int64
	Rows         int
}

// Counts returns the counters.
func (c *RowCache[T]) Counts() CacheCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheCounts{c.hits.Load(), c.misses.Load(), len(c.byKey)}
}

// Get is Table.Get through the cache. What pointers and slices of the row point to is shared with
// the cache and must not be changed.
func (c *RowCache[T]) Get(ctx context.Context, key ...Predicate[T]) (row T, err error) {
	b, err := c.table.bind(c.bound.DB())
	if err != nil {
		return row, err
	}
	if b.table != c.bound {
		return row, invalid("the table of the cache was dropped")
	}
	s := getPool.Get().(*getScratch)
	defer s.release()
	if err := c.table.setKey(b, s, key); err != nil {
		return row, err
	}
	k, err := s.key(b.schema)
	if err != nil {
		return row, err
	}
	s.name = keycodec.AppendLengthPrefixed(s.name[:0], k)
	if c.find(s.name, b.schema, &row) {
		c.hits.Add(1)
		return row, nil
	}
	c.misses.Add(1)
	return row, c.fill(ctx, b, string(s.name), k, &row)
}

// find copies a row that is in the cache.
func (c *RowCache[T]) find(name []byte, s *schema.Table, row *T) bool {
	now := c.opt.Clock().UnixMilli()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[string(name)]
	if e == nil {
		return false
	}
	r := e.Value.(*cachedRow[T])
	if r.schema != s || r.until != 0 && now >= r.until {
		c.remove(e)
		return false
	}
	c.lru.MoveToFront(e)
	*row = r.row
	return true
}

// remove takes a row out. Requires: c.mu is held.
func (c *RowCache[T]) remove(e *list.Element) {
	delete(c.byKey, e.Value.(*cachedRow[T]).key)
	c.lru.Remove(e)
}

// fill reads a row and keeps it unless it was written meanwhile.
func (c *RowCache[T]) fill(ctx context.Context, b *binding, name string, k store.Key,
	row *T) error {
	c.mu.Lock()
	st := c.stateOf(name)
	st.fills++
	st.dirty = st.dirty || st.writes > 0
	c.mu.Unlock()

	var expiry int64
	err := c.bound.Read(ctx, func(def *schema.Table, from store.Reader) (err error) {
		now, err := c.table.at(b, def)
		if err != nil {
			return err
		}
		b = now
		it, err := store.GetItem(ctx, from, k)
		if err != nil {
			return err
		}
		expiry = it.Expiry
		return b.read(unsafe.Pointer(row), it.Key, it.Value, true)
	})

	c.mu.Lock()
	defer c.mu.Unlock()
	st.fills--
	dirty := st.dirty
	if st.fills == 0 {
		st.dirty = false
	}
	c.forget(name, st)
	if err != nil || dirty || c.opt.Rows == 0 {
		return err
	}
	until := expiry
	if c.opt.TTL > 0 {
		end := c.opt.Clock().Add(c.opt.TTL).UnixMilli()
		if until == 0 || end < until {
			until = end
		}
	}
	if e := c.byKey[name]; e != nil {
		c.remove(e)
	}
	c.byKey[name] = c.lru.PushFront(&cachedRow[T]{name, *row, b.schema, until})
	for c.lru.Len() > c.opt.Rows {
		c.remove(c.lru.Back())
	}
	return nil
}

// stateOf returns the state of a key. Requires: c.mu is held.
func (c *RowCache[T]) stateOf(name string) *keyState {
	st := c.keys[name]
	if st == nil {
		st = new(keyState)
		c.keys[name] = st
	}
	return st
}

// forget drops the state of a key with which nothing goes on. Requires: c.mu is held.
func (c *RowCache[T]) forget(name string, st *keyState) {
	if st.writes == 0 && st.fills == 0 {
		delete(c.keys, name)
	}
}

// begin takes a row out, and keeps it out, before a commit that writes it.
func (c *RowCache[T]) begin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[name]; e != nil {
		c.remove(e)
	}
	st := c.stateOf(name)
	st.writes++
	st.dirty = st.fills > 0
}

// end lets the row in again when that has ended.
func (c *RowCache[T]) end(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.keys[name]; st != nil && st.writes > 0 {
		st.writes--
		c.forget(name, st)
	}
}
