package sst

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
	if s == nil {
		ok := c.seek(lo, false)
		if ok && (c.pruner == nil || c.pos >= 0) { // else blocks may have been left out
			c.met = metSpan{lo: lo, block: c.block, pos: c.pos + 1, some: true}
		}
		return ok
	}
	if s.from == s.to {
		return false
	}
	x, i, before, err := c.r.blockAt(c.t, s.from)
	if err != nil {
		return c.fail(err)
	}
	c.x = x
	if kept := c.keptFrom(i, false); kept != i {
		return c.enter(kept, false) && c.within(s)
	}
	if !c.load(i, false) {
		return false
	}
	c.pos = int(s.from-before) - 1
	return c.within(s)
}

// within makes the cursor end at the end of a span, and reports whether it stands before that.
func (c *Cursor) within(s *rankedSpan) bool {
	c.span = s
	return c.left(c.block) > int64(c.pos)+1
}

// left returns how many entries of the span come from the first of a block on; 0 after an error.
func (c *Cursor) left(block int) int64 {
	rank, err := c.r.rankOf(c.t, c.x, block)
	if err != nil {
		c.fail(err)
		return 0
	}
	return max(0, c.span.to-rank)
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
		return int(min(int64(b.n), c.left(c.block)))
	}
	end := b.n
	if hi != nil {
		end = b.before(hi)
	}
	last := c.block+1 == c.t.blocks
	if c.met.some && (end < b.n || last) && (c.pruner == nil || end > 0) {
		if c.t.partRanks != nil && c.t.known.Meet(c.met.lo, hi) {
			from, err1 := c.r.rankOf(c.t, c.x, c.met.block)
			to, err2 := c.r.rankOf(c.t, c.x, c.block)
			if err1 == nil && err2 == nil { // else a part of the index is damaged
				c.t.known.Keep(c.met.lo, hi,
					rankedSpan{from + int64(c.met.pos), to + int64(end)})
			}
		}
		c.met.some = false
	}
	return end
}
