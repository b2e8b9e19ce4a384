package engine

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// rangeSource reads the spans of a partition one after the other, from one of its
// memtables or runs or, if source is nil, from the cursor over all of them. It shows a
// fence before a span, so that one that is not reached is not sought. It implements
// rowSource.
type rangeSource struct {
	g       *gathering
	part    *part
	source  *stripe.Source
	cursor  *stripe.Cursor
	overlay *memtable.Table
	bounds  stripe.Bounds // of the current span
	keys    []byte        // memory of bounds
	left    int           // spans behind the current one
	reading bool          // the current span is being read
	fenced  bool          // it is the next to be read
	fence   [1]base.Entry
	err     error
}

// source returns a source that stands before the first span of the partition.
func (g *gathering) source(p *part, src *stripe.Source, c *stripe.Cursor, b stripe.Bounds,
	overlay *memtable.Table,
) *rangeSource {
	if g.used == len(g.sources) {
		g.sources = append(g.sources, new(rangeSource))
	}
	r := g.sources[g.used]
	g.used++
	r.g, r.part, r.source, r.cursor, r.bounds, r.overlay = g, p, src, c, b, overlay
	r.left = max(1, len(p.spans))
	r.fenced = p.eager && r.locate()
	return r
}

// release lets go of everything but memory.
func (r *rangeSource) release() {
	keys := r.keys[:0]
	if cap(keys) > maxPooledBytes {
		keys = nil
	}
	*r = rangeSource{keys: keys}
}

// Rows implements rowSource.
func (r *rangeSource) Rows() []base.Entry {
	for {
		switch {
		case r.reading:
			if rows := r.read(); len(rows) > 0 || r.Err() != nil {
				return rows
			}
			r.reading = false
		case r.fenced:
			if r.err = r.enter(); r.err != nil {
				return nil
			}
			r.fenced, r.reading = false, true
		case !r.locate():
			return nil
		default:
			r.fenced = true
			return r.fenceRow()
		}
	}
}

// Err implements rowSource.
func (r *rangeSource) Err() error {
	switch {
	case r.err != nil:
		return r.err
	case r.source != nil:
		return r.source.Err()
	}
	return r.cursor.Err()
}

func (r *rangeSource) read() []base.Entry {
	if r.source != nil {
		return r.source.Rows()
	}
	return r.cursor.Rows()
}

// locate makes the next span that is not empty the current one.
func (r *rangeSource) locate() bool {
	n := max(1, len(r.part.spans))
	for r.left > 0 {
		r.left--
		i := r.left
		if !r.g.reverse {
			i = n - 1 - r.left
		}
		var s span
		if s, r.keys = r.g.span(r.part, i, r.keys[:0]); !s.empty() {
			r.bounds.Lo, r.bounds.Hi = s.lo, s.hi
			return true
		}
	}
	return false
}

// enter makes read return the rows of the current span.
func (r *rangeSource) enter() error {
	switch {
	case len(r.part.spans) < 2: // the bounds of the cursor are those of the span
		return nil
	case r.source != nil:
		r.source.Restrict(&r.bounds)
		return nil
	}
	r.cursor.Close()
	return r.cursor.OpenWith(&r.g.it.db.stripes[r.part.stripe], &r.bounds, r.overlay)
}

// fenceRow returns the row that stands for the current span.
func (r *rangeSource) fenceRow() []base.Entry {
	key := r.bounds.Lo
	if r.bounds.Reverse {
		key = r.bounds.Hi
	}
	r.fence[0] = base.Entry{Key: key, Kind: kindFence}
	return r.fence[:]
}
