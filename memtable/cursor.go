package memtable

import (
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

const (
	// A cursor reads its first batch after a positioning with minBatch entries and
	// multiplies by batchGrowth while it keeps going in one direction: a point lookup
	// stays cheap, a scan seeks in the tree once in maxBatch entries.
	minBatch    = 4
	batchGrowth = 4
	maxBatch    = 64

	// maxLooks bounds how many keys one batch looks at, visible or not, and how many versions
	// of a key, and with it the time that the table stays locked.
	maxLooks = 256
)

type direction int8

const (
	forward  direction = 1
	backward direction = -1
)

// Cursor is a cursor.Cursor over a table at a fixed sequence number, correct while a
// writer adds to the table: the versions it must not see are newer than that number.
// (At base.MaxSeqNum there are none it must not see; keys that appear during the
// movement may then be shown or not.)
//
// Keys and values of its entries are views into the table; both stay valid as long as
// they are referenced. It reads in batches under the table's lock, or without it once
// the table is frozen. Movement allocates nothing. Err is always nil.
//
// Requires: the cursor's sequence number is at least the horizon of every Put for as
// long as the cursor is used. A Cursor must not be copied after InitCursor.
type Cursor struct {
	t      *Table
	snap   base.SeqNum
	entry  base.Entry
	chunks chunkTable // as of the last batch

	dir   direction // of the batch
	bound []byte    // see Limit
	last  item      // of bound, if there is one
	flip  uint64    // all ones if the batch is backward
	edge  uint64    // last.prefix with flip; the highest without bound
	first int       // rows of the first batch after a positioning
	limit int       // most rows the batch may have
	n, i  int       // number of rows, current row; n is 0 if not on an entry
	done  bool      // nothing visible follows the batch in its direction
	far   uint32    // the last node the batch looked at
	skip  uint32    // the node before the batch, 0 for none
	deep  uint32    // a version of far at which the search for the visible one stopped, or 0
	looks int       // nodes the batch may still look at under this lock
	look  func(item) bool
	rows  [maxBatch]row
}

// row is one visible entry, as addresses: it is decoded when the cursor gets there.
type row struct {
	node, version uint32
}

var _ cursor.Cursor = (*Cursor)(nil)

// NewCursor returns a cursor that shows, for every key, the newest version with a
// sequence number of at most snap. It stands on no entry.
func (t *Table) NewCursor(snap base.SeqNum) *Cursor {
	c := new(Cursor)
	t.InitCursor(c, snap)
	return c
}

// InitCursor makes c what NewCursor returns. c may be new or have been used on any
// table; a used one costs no allocation.
func (t *Table) InitCursor(c *Cursor, snap base.SeqNum) {
	c.Release()
	c.t, c.snap, c.first, c.bound = t, snap, minBatch, nil
	if c.look == nil {
		c.look = c.collect
	}
}

// Release lets go of the table, so that a pooled cursor does not keep it in memory.
// Before its next use the cursor needs InitCursor.
func (c *Cursor) Release() {
	c.t, c.chunks, c.entry, c.bound = nil, nil, base.Entry{}, nil
	c.n, c.i, c.done = 0, 0, false
}

// Expect says how many rows are expected to be wanted after each positioning; it is read
// for so many at first, at least one. InitCursor forgets it.
func (c *Cursor) Expect(rows int) { c.first = min(max(rows, 1), maxBatch) }

// Limit says that rows after key, in the direction of movement, are not wanted: few of them are
// read, or none. Nil is no limit. The key is unchanged as long as the cursor moves. InitCursor
// forgets it.
func (c *Cursor) Limit(key []byte) { c.bound = key }

// start is where a batch begins.
type start struct {
	key   []byte // with probe: at this key
	probe bool
	node  uint32 // without: after this node, or for 0 at the end of the table
}

// First implements cursor.Cursor.
func (c *Cursor) First() bool { return c.position(forward, start{}) }

// Last implements cursor.Cursor.
func (c *Cursor) Last() bool { return c.position(backward, start{}) }

// SeekGE implements cursor.Cursor.
func (c *Cursor) SeekGE(key []byte) bool {
	return c.position(forward, start{key: key, probe: true})
}

// SeekLT implements cursor.Cursor.
func (c *Cursor) SeekLT(key []byte) bool {
	return c.position(backward, start{key: key, probe: true})
}

// Next implements cursor.Cursor.
func (c *Cursor) Next() bool { return c.step(forward) }

// Prev implements cursor.Cursor.
func (c *Cursor) Prev() bool { return c.step(backward) }

// Entry implements cursor.Cursor.
func (c *Cursor) Entry() *base.Entry { return &c.entry }

// Err implements cursor.Cursor.
func (c *Cursor) Err() error { return nil }

func (c *Cursor) position(dir direction, from start) bool {
	c.limit = c.first
	return c.read(dir, from)
}

func (c *Cursor) step(dir direction) bool {
	switch {
	case c.n == 0:
		return false
	case dir != c.dir && c.i > 0:
		// Why no new batch: between two rows there is nothing visible.
		c.i--
		return c.show()
	case dir != c.dir:
		c.limit = minBatch
		return c.read(dir, start{node: c.rows[0].node})
	case c.i+1 < c.n:
		c.i++
		return c.show()
	case c.done:
		c.n = 0
		return false
	}
	c.limit = min(c.limit*batchGrowth, maxBatch)
	return c.read(dir, start{node: c.far})
}

// show decodes the current row.
func (c *Cursor) show() bool {
	r := &c.rows[c.i]
	c.entry.Key = c.chunks.key(r.node)
	c.chunks.load(r.version, &c.entry)
	return true
}

// read fetches a batch and shows its first row. Where many keys in turn are invisible
// it takes the lock several times.
func (c *Cursor) read(dir direction, from start) bool {
	c.dir, c.n, c.i, c.done = dir, 0, 0, false
	for {
		c.looks, c.skip, c.far, c.deep = maxLooks, from.node, from.node, 0
		c.done = true // unless collect stops the walk
		c.t.walk(c, from)
		if c.deep != 0 {
			c.done = false
			if ver := c.t.older(c.chunks, c.deep, c.snap, false); ver != 0 {
				c.rows[c.n] = row{c.far, ver}
				c.n++
			}
		}
		if c.n > 0 {
			return c.show()
		}
		if c.done {
			return false
		}
		from = start{node: c.far}
	}
}

// collect takes the next node of a walk. It returns false to end the walk.
func (c *Cursor) collect(it item) bool {
	if it.node == c.skip {
		return true
	}
	if it.prefix^c.flip >= c.edge && c.passed(it) {
		return false // and done
	}
	c.far = it.node
	ver, ok := c.chunks.visible(c.chunks.word(it.node, nodeHead), c.snap)
	if !ok {
		c.deep = ver
		return false
	}
	if ver != 0 {
		c.rows[c.n] = row{it.node, ver}
		c.n++
	}
	c.looks--
	c.done = c.n < c.limit && c.looks > 0
	return c.done
}

// passed reports whether an item lies after the limit. Why not of all keys that do: to compare the
// keys themselves costs as much as to read one.
func (c *Cursor) passed(it item) bool {
	if c.bound == nil {
		return false
	}
	a, b := it, c.last
	if c.dir == backward {
		a, b = b, a
	}
	return a.prefix > b.prefix || a.prefix == b.prefix && a.tail > b.tail
}

// limited prepares passed for a walk.
func (c *Cursor) limited(prefix []byte) {
	c.flip, c.edge = 0, math.MaxUint64
	if c.dir == backward {
		c.flip = math.MaxUint64
	}
	if c.bound != nil {
		c.last = newItem(prefix, c.bound, 0)
		c.edge = c.last.prefix ^ c.flip
	}
}

// walk calls c.look for the items from a start on, in the cursor's direction.
func (t *Table) walk(c *Cursor, from start) {
	if t.state.Load() == stateEmpty {
		return
	}
	if t.state.Load() != stateFrozen {
		t.mu.Lock()
		if t.state.Load() != stateFrozen {
			t.walkTreeLocked(c, from)
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
	}
	t.walkSorted(c, from)
}

func (t *Table) walkTreeLocked(c *Cursor, from start) {
	t.settleLocked()
	c.chunks = t.arena.chunks
	c.limited(t.prefix)
	var pivot item
	switch {
	case from.probe:
		t.probe = from.key
		pivot = newItem(t.prefix, from.key, 0)
	case from.node != 0:
		pivot = newItem(t.prefix, c.chunks.key(from.node), from.node)
	case c.dir == forward:
		t.tree.Ascend(c.look)
		return
	default:
		t.tree.Descend(c.look)
		return
	}
	if c.dir == forward {
		t.tree.AscendGreaterOrEqual(pivot, c.look)
	} else {
		t.tree.DescendLessOrEqual(pivot, c.look)
	}
	t.probe = nil
}

func (t *Table) walkSorted(c *Cursor, from start) {
	c.chunks = t.arena.chunks
	items := t.sorted()
	c.limited(t.prefix)
	key := from.key
	if !from.probe && from.node != 0 {
		key = c.chunks.key(from.node)
	}
	bounded := from.probe || from.node != 0
	if c.dir == forward {
		i := 0
		if bounded {
			i = t.search(items, key)
		}
		for i < len(items) && c.look(items[i]) {
			i++
		}
		return
	}
	i := len(items)
	if bounded {
		i = t.search(items, key)
	}
	for i--; i >= 0 && c.look(items[i]); i-- {
	}
}
