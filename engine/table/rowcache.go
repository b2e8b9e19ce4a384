package table

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// A cache must never give out a row that has been replaced. So a row leaves it before the
// commit that changes it begins, and none of its key comes in before that commit has ended:
// a reader that has found no row announces that it will fill its place, reads, and fills it
// only if no write of the key was under way or has begun since the announcement.

// CacheOptions of a RowCache. The zero value means the defaults.
type CacheOptions struct {
	// Rows is how many rows are kept; those used least recently make room. 0 is 10,000.
	Rows int
	// TTL is how long a row is kept; 0 is for ever. The cache needs none to be right: it is
	// for rows that are not asked for any more.
	TTL time.Duration
	// Clock is the time; nil is that of the DB.
	Clock func() time.Time
}

// RowCache keeps rows of a table in memory, by primary key. Writes through this DB, typed or
// not, are seen at once, transactions when they have committed; rows written in a
// transaction of DB.Join stay out of the cache from then on. It may be used by any number of
// goroutines.
type RowCache[T any] struct {
	table *TableOf[T]
	db    *DB
	core  *tableCore
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
func NewRowCache[T any](db *DB, t *TableOf[T], o *CacheOptions) (*RowCache[T], error) {
	b, err := t.bind(db)
	if err != nil {
		return nil, err
	}
	c := &RowCache[T]{table: t, db: db, core: b.core, byKey: map[string]*list.Element{},
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
		c.opt.Clock = db.opt.Clock
	}
	b.core.watch.add(c)
	// Why: writers that have begun without the cache must have ended before it reads.
	b.core.fence.Lock()
	defer b.core.fence.Unlock()
	return c, nil
}

// Close ends the cache; it has no rows any more.
func (c *RowCache[T]) Close() {
	c.core.watch.remove(c)
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

// Get is TableOf.Get by primary key, with an Eq for each column of it. What pointers and
// slices of the row point to is shared with the cache and must not be changed.
func (c *RowCache[T]) Get(ctx context.Context, key ...Predicate[T]) (row T, err error) {
	b, err := c.table.bind(c.db)
	if err != nil {
		return row, err
	}
	if b.core != c.core {
		return row, invalid("the table of the cache was dropped")
	}
	s := getPool.Get().(*getScratch)
	defer s.release()
	s.blank(len(b.schema.Columns))
	for i := range key {
		if f := key[i].field; f != nil {
			s.row[b.ordinals[f.index]] = key[i].value
		}
	}
	if !b.isKey(s.row, len(key)) {
		return row, invalid("a cache is read by primary key")
	}
	k, err := s.key(b.schema)
	if err != nil {
		return row, err
	}
	s.name = appendCacheKey(s.name[:0], k)
	if c.find(s.name, b.schema, &row) {
		c.hits.Add(1)
		return row, nil
	}
	c.misses.Add(1)
	return row, c.fill(ctx, b, string(s.name), k, &row)
}

// appendCacheKey appends a name for a key: no two keys have the same.
func appendCacheKey(dst []byte, k store.Key) []byte {
	dst = append(dst, byte(len(k.PK)>>8), byte(len(k.PK)))
	return append(append(dst, k.PK...), k.SK...)
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

	it, err := store.GetItem(ctx, c.db.store, k)
	for err == nil {
		if err = b.read(unsafe.Pointer(row), it.Key, it.Value, true); err == nil {
			break
		}
		now := c.core.state.Load().schema
		if now == b.schema {
			break
		}
		b, err = c.table.bindTo(c.db, c.core, now) // the row may be of a newer definition
	}

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
	until := it.Expiry
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

// begin implements watcher.
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

// end implements watcher.
func (c *RowCache[T]) end(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.keys[name]; st != nil && st.writes > 0 {
		st.writes--
		c.forget(name, st)
	}
}

// watcher is told of writes: before a commit, and when it has ended one way or the other.
type watcher interface {
	begin(name string)
	end(name string)
}

// watchers are the watchers of a table.
type watchers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]watcher] // replaced under mu; nil: none
}

func (w *watchers) add(x watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []watcher
	if old := w.list.Load(); old != nil {
		all = append(all, *old...)
	}
	all = append(all, x)
	w.list.Store(&all)
}

func (w *watchers) remove(x watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []watcher
	if old := w.list.Load(); old != nil {
		for _, have := range *old {
			if have != x {
				all = append(all, have)
			}
		}
	}
	w.list.Store(&all)
	if len(all) == 0 {
		w.list.Store(nil)
	}
}

// touched are rows whose writes have begun.
type touched struct {
	list  []watcher
	names []string
}

// touch notifies the watchers of a table that a commit is about to write its rows.
func (w *writer) touch(core *tableCore) (t touched) {
	list := core.watch.list.Load()
	if list == nil {
		return t
	}
	t.list = *list
	for i := range w.ops {
		if op := &w.set.Ops[i]; w.ops[i].index == nil && op.Kind != store.OpRequire {
			name := string(appendCacheKey(nil, op.Key))
			t.names = append(t.names, name)
			for _, x := range t.list {
				x.begin(name)
			}
		}
	}
	return t
}

// end notifies them that the commit has ended.
func (t touched) end() {
	for _, name := range t.names {
		for _, x := range t.list {
			x.end(name)
		}
	}
}

// touch keeps rows until the transaction has ended.
func (tx *Tx) touch(rows touched) {
	if len(rows.names) > 0 {
		tx.touched = append(tx.touched, rows)
	}
}

// ended notifies the watchers that the transaction has ended. Nil has none to notify.
func (tx *Tx) ended() {
	if tx == nil {
		return
	}
	for _, t := range tx.touched {
		t.end()
	}
	tx.touched = nil
}
