package stripe

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/merge"
)

// Spans are ranges of keys in the direction of reading that do not overlap. Some may be
// empty. In reverse all have an upper bound.
type Spans interface {
	// Len returns how many there are, at least one.
	Len() int
	// Span appends the bounds of range i to buf, which it returns as keys.
	Span(i int, buf []byte) (lo, hi, keys []byte)
}

// spanSource reads the spans of a source one after the other. It shows a fence before a
// span, so that one that is not reached is not sought.
type spanSource struct {
	*source
	spans   Spans
	bounds  Bounds // of the current span
	keys    []byte // memory of bounds
	at      int    // the next of spans
	reading bool   // the current span is being read
	fenced  bool   // it is the next to be read
	fence   [1]base.Entry
}

// spansOf returns the source as one of the spans of its bounds.
func (s *source) spansOf(b *Bounds) *spanSource {
	if s.spans == nil {
		s.spans = &spanSource{source: s}
	}
	r := s.spans
	r.spans, r.bounds = b.Spans, *b
	r.fenced = b.Eager && r.locate()
	return r
}

// maxSpanBytes limits the memory for bounds that a source keeps.
const maxSpanBytes = 1 << 20

// release lets go of everything but memory.
func (r *spanSource) release() {
	keys := r.keys[:0]
	if cap(keys) > maxSpanBytes {
		keys = nil
	}
	*r = spanSource{source: r.source, keys: keys}
}

// Rows implements cursor.source.
func (r *spanSource) Rows() []base.Entry {
	for {
		switch {
		case r.reading:
			if rows := r.source.Rows(); len(rows) > 0 || r.Err() != nil {
				return rows
			}
			r.reading = false
		case r.fenced:
			if r.spans.Len() > 1 { // the bounds of one span are those of the source
				r.restrict(&r.bounds)
			}
			r.fenced, r.reading = false, true
		case !r.locate():
			return nil
		default:
			r.fenced = true
			r.fence[0] = merge.Fence(r.bounds.first())
			return r.fence[:]
		}
	}
}

// Leave implements merge.Seeker.
func (r *spanSource) Leave(start, end []byte) []base.Entry {
	if rows := r.source.Leave(start, end); len(rows) > 0 || r.Err() != nil {
		return rows
	}
	return r.Rows()
}

// locate makes the next span that is not empty the current one.
func (r *spanSource) locate() bool {
	for r.at < r.spans.Len() {
		lo, hi, keys := r.spans.Span(r.at, r.keys[:0])
		r.at++
		if r.keys = keys; hi == nil || bytes.Compare(lo, hi) < 0 {
			r.bounds.Lo, r.bounds.Hi = lo, hi
			return true
		}
	}
	return false
}
