package sst

import "slices"

// rankedSpan is how many entries come before each end of a span of keys. Why they are kept: to
// search both ends takes as long as to read ten rows.
type rankedSpan struct{ from, to int64 }

// seekSpan is seek of lo, forward. The cursor ends before hi.
func (c *Cursor) seekSpan(lo, hi []byte) bool {
	c.span, c.met = nil, metSpan{}
	if c.near != nil {
		return c.seek(lo, false)
	}
	if !c.start() {
		return false
	}
	s := c.t.known.Find(lo, hi)
	var ranks []uint32
	if s != nil {
		ranks = c.t.entriesBefore(c.x)
	}
	if ranks == nil {
		ok := c.seek(lo, false)
		if ok && (c.pruner == nil || c.pos >= 0) { // else blocks may have been left out
			c.met = metSpan{lo: lo, block: c.block, pos: c.pos + 1, some: true}
		}
		return ok
	}
	if s.from == s.to {
		return false
	}
	i, found := slices.BinarySearch(ranks[:c.x.n], uint32(s.from))
	if !found {
		i--
	}
	if kept := c.keptFrom(i, false); kept != i {
		return c.enter(kept, false) && c.within(s, ranks)
	}
	if !c.load(i) {
		return false
	}
	c.pos = int(s.from) - int(ranks[i]) - 1
	return c.within(s, ranks)
}

// within makes the cursor end at the end of a span, and reports whether it stands before that.
func (c *Cursor) within(s *rankedSpan, ranks []uint32) bool {
	c.span, c.ranks = s, ranks
	return int64(ranks[c.block])+int64(c.pos)+1 < s.to
}

// metSpan is where a cursor has begun to read a span that is not known.
type metSpan struct {
	lo         []byte
	block, pos int
	some       bool
}

// endOf returns how many entries of the block that the cursor is in come before hi, which is nil or
// that of the span, and takes note of the span if that is known now.
func (c *Cursor) endOf(hi []byte) int {
	b := c.b
	if c.span != nil {
		return int(min(int64(b.n), max(0, c.span.to-int64(c.ranks[c.block]))))
	}
	end := b.n
	if hi != nil {
		end = b.before(hi)
	}
	last := c.block+1 == c.x.n
	if c.met.some && (end < b.n || last) && (c.pruner == nil || end > 0) {
		if c.t.known.Meet(c.met.lo, hi) {
			if ranks := c.t.entriesBefore(c.x); ranks != nil {
				c.t.known.Keep(c.met.lo, hi, rankedSpan{int64(ranks[c.met.block]) +
					int64(c.met.pos), int64(ranks[c.block]) + int64(end)})
			}
		}
		c.met.some = false
	}
	return end
}
