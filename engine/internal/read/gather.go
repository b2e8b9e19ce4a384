package read

import (
	"bytes"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// Gather selects items of several partitions, ordered by sort key over all of them.
type Gather struct {
	// PKs are the partitions, in ascending order and each of them once.
	PKs [][]byte
	// Spans restrict the sort keys in all partitions, or, if Each is not nil, Each[i] those in
	// PKs[i]: ranges in ascending order that do not overlap, and empty ones anywhere. None
	// select all items of the partition.
	Spans []keycodec.Span
	Each  [][]keycodec.Span
	// ByPartition orders by partition first.
	ByPartition bool
	// Reverse turns the order around.
	Reverse bool
	// After, if Resumed, is the position after which to start.
	After   keycodec.Key
	Resumed bool
}

// side is where the partitions of a gathering lie in relation to the position that it
// resumes at: how much of them is left.
type side uint8

const (
	allLeft side = iota // everything
	fromAt              // what has the sort key of the position, and what lies after it
	after               // what lies after the sort key of the position
	noneLeft
)

// sideOf returns what is left of a partition when reading goes on after a key.
func (g *Gather) sideOf(pk []byte) side {
	d := bytes.Compare(pk, g.After.PK)
	if g.Reverse {
		d = -d
	}
	switch {
	case !g.Resumed:
		return allLeft
	case d == 0 || d < 0 && !g.ByPartition:
		return after
	case d < 0:
		return noneLeft
	case g.ByPartition:
		return allLeft
	}
	return fromAt
}

// gathering is the state of a Gather under way; pooled.
type gathering struct {
	reverse bool
	at      keycodec.Key // the position to resume after, see part.side
	parts   []part
	bounds  []stripe.Bounds // of the parts, if they are merged
	next    step            // that walk opens
	walked  []byte          // memory of the span that is read
	keys    []byte          // memory of bounds
	places  []place         // of the partitions, and of those of earlier gatherings
}

// part is one partition of a gathering. It is the stripe.Spans that are read of it.
type part struct {
	of     *gathering // nil for that of a query
	pk     []byte     // the caller's
	prefix []byte     // its ordered form
	spans  []keycodec.Span
	skip   int // length of prefix
	stripe uint8
	side   side
	eager  bool      // its first row is wanted at once
	bounds base.Span // of all that is left, later of the span that is read
}

var gatheringPool = sync.Pool{New: func() any { return new(gathering) }}

// Gather begins to read what g selects: in its order, or partition by partition if that is
// wanted, or if the order does not matter. It opens nothing if nothing is left.
func (it *Iteration) Gather(g *Gather, ordered bool) {
	s := gatheringPool.Get().(*gathering)
	it.gathering = s
	s.plan(g)
	if c := &it.state.counters; c.query() {
		for i := range s.parts {
			c.hot.note(s.parts[i].stripe, s.parts[i].prefix)
		}
	}
	if it.reader.tx != nil {
		s.note(it.reader.tx)
	}
	if ordered && !g.ByPartition && len(s.parts) > 1 {
		it.err = s.merge(it)
	} else {
		it.advance()
	}
}

// plan makes the parts that have something left to read.
func (g *gathering) plan(q *Gather) {
	g.at, g.reverse = q.After, q.Reverse
	for i, pk := range q.PKs {
		g.parts = append(g.parts, part{of: g, pk: pk, spans: q.Spans, side: q.sideOf(pk)})
		p := &g.parts[len(g.parts)-1]
		if q.Each != nil {
			p.spans = q.Each[i]
		}
		if p.side == noneLeft {
			g.parts = g.parts[:len(g.parts)-1]
			continue
		}
		g.locate(p, i)
		if !g.outline(p) {
			g.parts = g.parts[:len(g.parts)-1]
		}
	}
}

// place is what follows from the key of a partition alone.
type place struct {
	pk, prefix []byte
	stripe     uint8
}

// Places of more partitions than maxPlaces, and with longer keys, are not kept.
const (
	maxPlaces     = 64
	maxPlaceBytes = 64
)

// locate sets the place of partition number i. Why they are kept: a query gathers the same
// partitions again and again, and comparing keys is faster than what is done to them.
func (g *gathering) locate(p *part, i int) {
	if i >= maxPlaces || len(p.pk) > maxPlaceBytes {
		from := len(g.keys)
		g.keys = keycodec.AppendOrderedPK(g.keys, p.pk)
		p.stripe, p.prefix = keycodec.Stripe(p.pk), g.keys[from:len(g.keys):len(g.keys)]
		p.skip = len(p.prefix)
		return
	}
	for len(g.places) <= i {
		g.places = append(g.places, place{})
	}
	at := &g.places[i]
	if !bytes.Equal(at.pk, p.pk) {
		at.pk = append(at.pk[:0], p.pk...)
		at.prefix = keycodec.AppendOrderedPK(at.prefix[:0], p.pk)
		at.stripe = keycodec.Stripe(p.pk)
	}
	p.stripe, p.prefix, p.skip = at.stripe, at.prefix, len(at.prefix)
}

// outline sets the bounds of all that is left of the partition; it reports whether that
// can be anything.
func (g *gathering) outline(p *part) bool {
	n := p.Len()
	first := 0
	for ; first < n; first++ { // empty are also those before the position
		if s, buf := g.span(p, first, g.keys); !s.Empty() {
			p.bounds, g.keys = s, buf
			break
		}
	}
	for last := n - 1; last > first; last-- {
		if s, buf := g.span(p, last, g.keys); !s.Empty() {
			p.bounds.Hi, g.keys = s.Hi, buf
			break
		}
	}
	return first < n
}

// span returns span i of the partition as ordered keys, without what lies before the
// position. The keys are appended to buf, which is returned.
func (g *gathering) span(p *part, i int, buf []byte) (base.Span, []byte) {
	from := len(buf)
	buf = append(buf, p.prefix...)
	whole := len(p.spans) == 0
	var s keycodec.Span
	if !whole {
		s = p.spans[i]
	}
	lo := s.Start
	clipLo := p.side != allLeft && !g.reverse && bytes.Compare(g.at.SK, lo) >= 0
	if clipLo {
		lo = g.at.SK
	}
	buf = append(buf, lo...)
	if clipLo && p.side == after || len(lo) == 0 && !whole {
		buf = append(buf, 0)
	}
	mid := len(buf)
	buf = append(buf, buf[from:from+p.skip]...)
	clipHi := p.side != allLeft && g.reverse &&
		(s.End == nil || bytes.Compare(g.at.SK, s.End) < 0)
	switch {
	case clipHi:
		buf = append(buf, g.at.SK...)
		if p.side == fromAt {
			buf = append(buf, 0)
		}
	case s.End == nil:
		PartitionEnd(buf[mid:])
	default:
		buf = append(buf, s.End...)
	}
	return base.Span{Lo: buf[from:mid:mid], Hi: buf[mid:len(buf):len(buf)]}, buf
}

// note registers with the transaction what is about to be read.
func (g *gathering) note(tx *Overlay) {
	var buf []byte
	for i := range g.parts {
		p := &g.parts[i]
		for j := range p.Len() {
			var s base.Span
			if s, buf = g.span(p, j, buf[:0]); !s.Empty() {
				tx.note(p.stripe, s)
			}
		}
	}
}

// release gives the state back. The bounds in its memory are no longer in use.
func (g *gathering) release() {
	clear(g.parts)
	clear(g.bounds)
	if cap(g.keys) > maxPooledBytes {
		g.keys = nil
	}
	if cap(g.walked) > maxPooledBytes {
		g.walked = nil
	}
	*g = gathering{
		parts: g.parts[:0], bounds: g.bounds[:0], keys: g.keys[:0], places: g.places,
		walked: g.walked[:0],
	}
	gatheringPool.Put(g)
}

// step is a span of a part, both counted in the direction of reading.
type step struct{ part, span int }

// walk opens the next span of a partition that is not empty, and reports whether there is one.
func (g *gathering) walk(it *Iteration) bool {
	if it.seeking.on {
		it.found(nil)
	}
	for g.next.part < len(g.parts) {
		i, j := g.next.part, g.next.span
		if g.reverse {
			i = len(g.parts) - 1 - i
		}
		p := &g.parts[i]
		if j == p.Len() {
			g.next = step{g.next.part + 1, 0}
			continue
		}
		g.next.span++
		if g.reverse {
			j = p.Len() - 1 - j
		}
		s := p.bounds
		if len(p.spans) > 1 {
			s, g.walked = g.span(p, j, g.walked[:0])
		}
		if s.Empty() {
			continue
		}
		it.sinceOK++
		if it.err = it.pause(); it.err != nil { // there may be many that hold nothing
			return false
		}
		it.part = p
		if s = it.seek(p, s, g.reverse); s.Empty() {
			continue
		}
		it.open(p.stripe, s, g.reverse, firstRows(max(0, it.left)))
		return it.err == nil
	}
	return false
}

// leave leaves out the voids at the beginning of partitions, and the partitions that end in them.
func (g *gathering) leave(it *Iteration) {
	if !it.mayLeave() {
		return
	}
	n := 0
	for i := range g.parts {
		p := &g.parts[i]
		if len(p.spans) <= 1 && !it.state.voids.none(p) {
			if p.bounds = it.leave(p, p.bounds, g.reverse); p.bounds.Empty() {
				continue
			}
		}
		if n < i {
			g.parts[n] = *p
		}
		n++
	}
	clear(g.parts[n:])
	g.parts = g.parts[:n]
	it.seeking = seeking{on: n > 0 && n <= maxVoidParts && it.mayNote()}
}

// merge opens all partitions, to be read as one sequence.
func (g *gathering) merge(it *Iteration) error {
	if g.leave(it); len(g.parts) == 0 {
		return nil
	}
	g.choose()
	it.readMerged()
	g.bounds = slices.Grow(g.bounds[:0], len(g.parts))[:len(g.parts)]
	for i := range g.parts {
		it.sinceOK++
		if err := it.pause(); err != nil {
			return err
		}
		p := &g.parts[i]
		b := &g.bounds[i]
		it.mergedBounds(b, p.bounds, g.reverse, len(g.parts))
		b.Part, b.Skip = int32(i), int32(p.skip)
		if !p.eager || len(p.spans) > 1 {
			b.Spans, b.Eager = p, p.eager
		}
		over := it.reader.overlay(p.stripe)
		if err := it.source.Add(&it.node.gen.stripes[p.stripe], b, over); err != nil {
			return err
		}
	}
	it.parts = g.parts
	return nil
}

// choose marks the partitions that are read at once, because nothing is known to come
// before them: those whose spans begin first. The others wait for their fences.
func (g *gathering) choose() {
	var first []byte
	open := false // a partition without bound on the side where reading begins
	for i := range g.parts {
		edge, unbound := g.parts[i].edge(g.reverse)
		switch {
		case unbound:
			open = true
		case i == 0 || (bytes.Compare(edge, first) < 0) != g.reverse:
			first = edge
		}
	}
	for i := range g.parts {
		edge, unbound := g.parts[i].edge(g.reverse)
		g.parts[i].eager = unbound || !open && bytes.Equal(edge, first)
	}
}

// edge returns the sort key where reading begins; unbound if that is the end of the
// partition.
func (p *part) edge(reverse bool) (sk []byte, unbound bool) {
	if !reverse {
		return p.bounds.Lo[p.skip:], false
	}
	return p.bounds.Hi[p.skip:], p.bounds.Hi[p.skip-1] != 0
}

// Len implements stripe.Spans.
func (p *part) Len() int { return max(1, len(p.spans)) }

// Span implements stripe.Spans.
func (p *part) Span(i int, buf []byte) (lo, hi, keys []byte) {
	if p.of.reverse {
		i = p.Len() - 1 - i
	}
	if len(p.spans) <= 1 {
		return p.bounds.Lo, p.bounds.Hi, buf
	}
	s, keys := p.of.span(p, i, buf)
	return s.Lo, s.Hi, keys
}
