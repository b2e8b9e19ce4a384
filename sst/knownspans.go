package sst

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
)

// knownSpans are the ranks of the ends of some spans of keys, which never change. Why: the rows of
// a table are such a span of each file, and a table that was counted or scanned is counted or
// scanned again. To search both ends takes as long as to read ten rows. A span is kept when it is
// met again, so that ranges which differ each time leave nothing.
type knownSpans struct {
	spans [maxKnownSpans]atomic.Pointer[rankedSpan]
	seen  [maxKnownSpans]atomic.Uint64 // hashes of spans that were met
}

// rankedSpan is the keys of [lo, hi), where nil hi is no bound, and how many entries come before
// each of its ends.
type rankedSpan struct {
	lo, hi   []byte
	from, to int64
}

const (
	maxKnownSpans = 4
	// maxKnownBytes bounds the keys of a span that is kept.
	maxKnownBytes = 128
)

// find returns a span, nil if it is not known.
func (k *knownSpans) find(lo, hi []byte) *rankedSpan {
	for i := range k.spans {
		s := k.spans[i].Load()
		if s == nil {
			break
		}
		if bytes.Equal(s.lo, lo) && bytes.Equal(s.hi, hi) && (s.hi == nil) == (hi == nil) {
			return s
		}
	}
	return nil
}

// met takes note of the ranks of a span that is not known.
func (k *knownSpans) met(lo, hi []byte, from, to int64) {
	if len(lo)+len(hi) > maxKnownBytes {
		return
	}
	h := base.Hash(lo, base.Hash(hi, 1))
	at := &k.seen[h%maxKnownSpans]
	if at.Swap(h) != h {
		return
	}
	s := &rankedSpan{bytes.Clone(lo), bytes.Clone(hi), from, to}
	for i := range k.spans {
		if k.spans[i].CompareAndSwap(nil, s) {
			return
		}
	}
	k.spans[h%maxKnownSpans].Store(s)
}

// seekSpan is seek of lo, forward. The cursor ends before hi.
func (c *Cursor) seekSpan(lo, hi []byte) bool {
	c.span, c.met = nil, metSpan{}
	if c.near != nil {
		return c.seek(lo, false)
	}
	if !c.start() {
		return false
	}
	s := c.t.known.find(lo, hi)
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
		if ranks := c.t.entriesBefore(c.x); ranks != nil {
			c.t.known.met(c.met.lo, hi, int64(ranks[c.met.block])+int64(c.met.pos),
				int64(ranks[c.block])+int64(end))
		}
		c.met.some = false
	}
	return end
}
