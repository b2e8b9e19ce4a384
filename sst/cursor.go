package sst

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/zonemap"
)

// Cursor moves over the entries of a file that are visible at a sequence number. It
// implements cursor.Cursor; see there for the contract. The zero Cursor must be
// initialised with Reader.InitCursor; the same Cursor may be initialised again and
// again, which keeps its buffers.
//
// Invariant: while the cursor stands on an entry, key holds the whole key, its
// first shared bytes are the prefix of b, and (block, pos) is the newest version of
// the key that snap sees. While it has a block, x is the part of the index with it, or nil.
type Cursor struct {
	r    *Reader
	t    *tail
	x    *indexBlock
	snap base.SeqNum

	b     *dataBlock
	block int // number of b
	pos   int // entry in b
	// streak is how many blocks in a row have been loaded in order.
	streak int
	valid  bool

	key    []byte
	entry  base.Entry
	seq    sequential
	route  route     // in place of x
	own    dataBlock // a block that is not in the cache, decoded in raw or in seq
	raw    []byte
	yields bool         // see MakeRoom
	owing  *cache.Group // of the cache that owes for them, or nil
	owed   int64
	err    error

	pruner Pruner // nil: every block is read
	bounds []byte // memory of the keys that it is asked about
	zone   zonemap.Map

	// Of entries that are read together: the span that they end with, if it is known.
	span *rankedSpan
	met  metSpan // if it is not

	near    *Approach // to the key of the next seek, nil if there was none
	touched byte      // keeps loads that fill the processor's cache
}

// NewCursor returns a cursor that shows what a read at snap sees. It stands
// nowhere until it is positioned.
func (r *Reader) NewCursor(snap base.SeqNum) *Cursor {
	c := &Cursor{}
	r.InitCursor(c, snap)
	return c
}

// InitCursor makes c a cursor like NewCursor's, whatever it was before.
func (r *Reader) InitCursor(c *Cursor, snap base.SeqNum) {
	// Field by field, since to clear and copy all of it costs a tenth of a short query. What is
	// not here is set before it is read.
	c.r, c.t, c.x, c.snap = r, nil, nil, snap
	c.b, c.block, c.pos, c.streak, c.valid = nil, 0, 0, 0, false
	c.key, c.err, c.pruner, c.near, c.span, c.met = c.key[:0], nil, nil, nil, nil, metSpan{}
	c.yields = false
	c.seq.reset()
	c.route.reset()
}

// LimitReadAhead bounds the memory that a forward scan of uncached blocks reads ahead
// into; a larger block is still read whole. Call it after InitCursor. Merges of many
// cursors need it: by default each may hold 256 KiB. With a low limit the cursor keeps no part of
// the index, either: see route.
func (c *Cursor) LimitReadAhead(bytes int) { c.seq.limit = bytes }

// MakeRoom gives the cache less room until Release, once the cursor has blocks of its own: about
// what these and all else of the cursor take. Call it after LimitReadAhead. It is for readings of
// whole files: of short ones, the cache would lose more than they take.
func (c *Cursor) MakeRoom() { c.yields = true }

// OneOfMany reports whether a limit of reading ahead is that of cursors so many that each keeps a
// block alone.
func OneOfMany(ahead int) bool { return ahead > 0 && ahead < firstAheadBytes }

func (c *Cursor) isOneOfMany() bool { return OneOfMany(c.seq.limit) }

// Release lets go of the file, its blocks and large buffers, so that a pooled cursor
// does not keep them in memory. Before its next use it needs InitCursor.
func (c *Cursor) Release() {
	c.r, c.t, c.x, c.b, c.err, c.pruner, c.near = nil, nil, nil, nil, nil, nil, nil
	c.valid, c.entry.Value, c.own.data, c.span = false, nil, nil, nil
	c.met = metSpan{}
	if c.seq.buf = c.seq.buf[:0]; cap(c.seq.buf) > maxPooledBytes {
		c.seq.buf = nil
	}
	if cap(c.raw) > maxPooledBytes {
		c.raw = nil
	}
	if c.owing != nil {
		c.owing.Owe(-c.owed)
		c.owing = nil
	}
}

// maxPooledBytes bounds each of the buffers that a released cursor keeps.
const maxPooledBytes = 16 << 10

// Entry returns the entry the cursor stands on, valid until the next move: a block that
// the cache has no room for is decoded in the cursor's own memory.
func (c *Cursor) Entry() *base.Entry { return &c.entry }

// Err returns the error that ended the movement.
func (c *Cursor) Err() error { return c.err }

// First implements cursor.Cursor.
func (c *Cursor) First() bool {
	if !c.start() || !c.enter(c.keptFrom(0, false), false) {
		return false
	}
	return c.forward()
}

// Last implements cursor.Cursor.
func (c *Cursor) Last() bool {
	if !c.start() || !c.enter(c.keptFrom(c.t.blocks-1, true), true) {
		return false
	}
	return c.backward()
}

// SeekGE implements cursor.Cursor.
func (c *Cursor) SeekGE(key []byte) bool {
	return c.seek(key, false) && c.forward()
}

// SeekLT implements cursor.Cursor.
func (c *Cursor) SeekLT(key []byte) bool {
	return c.seek(key, true) && c.backward()
}

// Next implements cursor.Cursor.
func (c *Cursor) Next() bool { return c.valid && c.forward() }

// Prev implements cursor.Cursor.
func (c *Cursor) Prev() bool { return c.valid && c.backward() }

// start makes the tail available and forgets the position.
func (c *Cursor) start() bool {
	c.valid, c.err, c.b, c.near = false, nil, nil, nil
	if c.r.meta.Entries == 0 {
		return false
	}
	if c.t == nil {
		t, err := c.r.loadTail()
		if err != nil {
			return c.fail(err)
		}
		c.t = t
	}
	return true
}

func (c *Cursor) fail(err error) bool {
	c.err, c.valid = err, false
	return false
}

// Approached reports what an approach has found about the key of the next call, which must be
// SeekGE, or SeekLT if the approach was one for it. It may have found nothing.
func (c *Cursor) Approached(a *Approach) {
	c.near = nil
	if a.found {
		c.near = a
	}
}

// Resume makes the cursor stand on the last row that Rows of an approach has shown, as if it
// had moved there itself.
func (c *Cursor) Resume(a *Approach, last *base.Entry) {
	c.near, c.valid, c.err = nil, true, nil
	c.take(a)
	c.pos = a.last
	c.key = append(c.key[:0], last.Key...)
	c.entry = *last
	c.entry.Key = c.key
}

// take takes over the block that an approach has found.
func (c *Cursor) take(a *Approach) {
	c.t, c.x, c.b, c.block, c.streak = a.t, a.x, a.b, a.block, 0
	if c.isOneOfMany() {
		c.x = nil
	}
}

// enter moves to before the first entry of block i, in reverse to after the last. It reports false
// if there is no such block.
func (c *Cursor) enter(i int, reverse bool) bool {
	if i < 0 || i >= c.t.blocks || !c.load(i, reverse) {
		return false
	}
	if c.pos = -1; reverse {
		c.pos = c.b.n
	}
	return true
}

// seek moves to before the first entry that is at or after (key, snap); in reverse to before the
// first of key or after it. It reports false if nothing can follow.
func (c *Cursor) seek(key []byte, reverse bool) bool {
	snap := c.snap
	if reverse {
		snap = base.MaxSeqNum
	}
	if a := c.near; a != nil {
		return c.finish(a, key, snap, reverse)
	}
	if !c.start() {
		return false
	}
	x, i, err := c.r.find(c.t, key, snap)
	if err != nil {
		return c.fail(err)
	}
	if i == c.t.blocks {
		return reverse && c.enter(c.keptFrom(i-1, true), true)
	}
	c.x = x
	if kept := c.keptFrom(i, reverse); kept != i {
		return c.enter(kept, reverse)
	}
	if !c.load(i, reverse) {
		return false
	}
	var ok bool
	if c.pos, _, ok = c.b.seek(key, snap); !ok {
		return c.fail(c.r.damagedEntry(c.t, i, c.pos))
	}
	if !reverse {
		c.pos--
	}
	return true
}

// finish is seek, of a key that was approached.
func (c *Cursor) finish(a *Approach, key []byte, snap base.SeqNum, reverse bool) (ok bool) {
	c.near, c.valid, c.err = nil, false, nil
	c.take(a)
	if !a.begun {
		c.r.stats.c.Add(statLookups, 1)
		if c.pruner != nil {
			c.pruner.Count(1, 0)
		}
	}
	if c.pos = a.lo; a.lo < a.hi {
		c.pos, _, ok = c.b.seekAmong(a.lo, a.hi, key[c.b.shared:], snap)
		if !ok {
			return c.fail(c.r.damagedEntry(c.t, c.block, c.pos))
		}
	}
	if !reverse {
		c.pos--
	}
	return true
}

// forward moves to the next visible key after (block, pos). If the cursor stands
// on an entry, older versions of its key are skipped.
func (c *Cursor) forward() bool {
	shown := c.valid // key holds a key to skip
	inBlock := shown // and its prefix is the one of b
	for {
		c.pos++
		if c.pos >= c.b.n {
			i := c.keptFrom(c.block+1, false)
			if i >= c.t.blocks {
				c.valid = false
				return false
			}
			if !c.load(i, false) {
				return false
			}
			c.pos, inBlock = 0, false
		}
		var e base.Entry
		if !c.b.entry(c.pos, &e) {
			return c.fail(c.r.damagedEntry(c.t, c.block, c.pos))
		}
		if e.Seq > c.snap || (shown && c.holds(e.Key, inBlock)) {
			continue
		}
		c.show(&e, inBlock)
		return true
	}
}

// backward moves to the last visible key before (block, pos). If the cursor stands
// on an entry, other versions of its key are skipped.
func (c *Cursor) backward() bool {
	shown, inBlock := c.valid, c.valid
	for {
		if c.pos == 0 {
			i := c.keptFrom(c.block-1, true)
			if i < 0 {
				c.valid = false
				return false
			}
			if !c.load(i, true) {
				return false
			}
			c.pos, inBlock = c.b.n, false
		}
		c.pos--
		var e base.Entry
		if !c.b.entry(c.pos, &e) {
			return c.fail(c.r.damagedEntry(c.t, c.block, c.pos))
		}
		if e.Seq > c.snap || (shown && c.holds(e.Key, inBlock)) {
			continue
		}
		c.show(&e, inBlock)
		return c.newest()
	}
}

// newest moves from a visible version of a key to the newest visible one, which is
// at the same place or before it.
func (c *Cursor) newest() bool {
	for {
		for c.pos > 0 && c.b.head(c.pos-1) == c.b.head(c.pos) {
			var e base.Entry
			if !c.b.entry(c.pos-1, &e) {
				return c.fail(c.r.damagedEntry(c.t, c.block, c.pos-1))
			}
			if e.Seq > c.snap || !c.holds(e.Key, true) {
				return true
			}
			c.pos--
			c.show(&e, true)
		}
		if c.pos > 0 || c.block == 0 || c.t.props.keys == c.r.meta.Entries {
			return true
		}
		// The block before decides by its last entry, which the index knows.
		x, err := c.r.partOf(c.t, c.x, c.block-1)
		if err != nil {
			return c.fail(err)
		}
		last, ok := x.lastSuffix(c.block - 1)
		if !ok {
			return c.fail(c.r.damagedIndex(c.t, c.block-1))
		}
		if x.lastSeq(c.block-1) > c.snap || !sameKey(c.key, x.prefix(), last) {
			return true
		}
		if !c.load(c.block-1, true) {
			return false
		}
		c.pos = c.b.n - 1
		var e base.Entry
		if !c.b.entry(c.pos, &e) {
			return c.fail(c.r.damagedEntry(c.t, c.block, c.pos))
		}
		c.show(&e, false)
	}
}

// holds reports whether key is the current block's prefix and suffix. inBlock says
// that the prefix is known to match.
func (c *Cursor) holds(suffix []byte, inBlock bool) bool {
	n := c.b.shared
	return len(c.key) == n+len(suffix) && bytes.Equal(c.key[n:], suffix) &&
		(inBlock || bytes.Equal(c.key[:n], c.b.prefix()))
}

// show makes e the entry the cursor stands on.
func (c *Cursor) show(e *base.Entry, inBlock bool) {
	if !inBlock {
		c.key = append(c.key[:0], c.b.prefix()...)
	}
	c.key = append(c.key[:c.b.shared], e.Key...)
	c.entry = *e
	c.entry.Key = c.key
	c.valid = true
}
