package engine

import (
	"bytes"
	"context"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// gathering is the state of a Gather under way; pooled.
type gathering struct {
	it      *iteration
	reader  reader
	limit   int
	reverse bool
	at      Key // the position to resume after, see part.side
	parts   []part
	keys    []byte  // memory of bounds
	places  []place // of the partitions, and of those of earlier gatherings
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
	eager  bool // its first row is wanted at once
	bounds span // of all that is left, later of the span that is read
}

var gatheringPool = sync.Pool{New: func() any { return new(gathering) }}

func (db *DB) gather(
	ctx context.Context, q *Gather, r reader, yield func(Item, error) bool,
) outcome {
	g := gatheringPool.Get().(*gathering)
	defer g.release()
	if err := g.plan(q); err != nil {
		return outcome{err: err}
	}
	it := iterationPool.Get().(*iteration)
	if err := it.start(ctx, db, r, q.Limit, q.Filter); err != nil {
		return outcome{err: err}
	}
	defer it.close()
	g.it, g.reader = it, r
	db.metrics.queries.Add(1)
	if r.tx != nil {
		g.note(r.tx)
	}
	if q.ByPartition || len(g.parts) == 1 || yield == nil { // a count needs no order
		return it.ended(g.walk(yield))
	}
	return it.ended(g.merge(yield))
}

// plan validates q and makes the parts of which something is left.
func (g *gathering) plan(q *Gather) error {
	if err := q.check(); err != nil {
		return err
	}
	at, resumed, err := q.start()
	if err != nil {
		return err
	}
	g.at, g.limit, g.reverse = at, q.Limit, q.Reverse
	for i, pk := range q.PKs {
		g.parts = append(g.parts, part{of: g, pk: pk, spans: q.Spans})
		p := &g.parts[len(g.parts)-1]
		if q.Each != nil {
			p.spans = q.Each[i]
		}
		if resumed {
			p.side = q.sideOf(pk, at)
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
	return nil
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
		if s, buf := g.span(p, first, g.keys); !s.empty() {
			p.bounds, g.keys = s, buf
			break
		}
	}
	for last := n - 1; last > first; last-- {
		if s, buf := g.span(p, last, g.keys); !s.empty() {
			p.bounds.hi, g.keys = s.hi, buf
			break
		}
	}
	return first < n
}

// span returns span i of the partition as ordered keys, without what lies before the
// position. The keys are appended to buf, which is returned.
func (g *gathering) span(p *part, i int, buf []byte) (span, []byte) {
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
	if clipLo && p.side == behind || len(lo) == 0 && !whole {
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
		partitionEnd(buf[mid:])
	default:
		buf = append(buf, s.End...)
	}
	return span{buf[from:mid:mid], buf[mid:len(buf):len(buf)]}, buf
}

// note registers with the transaction what is about to be read.
func (g *gathering) note(tx *Tx) {
	var buf []byte
	for i := range g.parts {
		p := &g.parts[i]
		for j := range p.Len() {
			var s span
			if s, buf = g.span(p, j, buf[:0]); !s.empty() {
				tx.readSpan(p.stripe, s)
			}
		}
	}
}

// release gives the state back. The bounds in its memory are no longer in use.
func (g *gathering) release() {
	clear(g.parts)
	if cap(g.keys) > maxPooledBytes {
		g.keys = nil
	}
	*g = gathering{parts: g.parts[:0], keys: g.keys[:0], places: g.places}
	gatheringPool.Put(g)
}

// walk yields the partitions one after the other.
func (g *gathering) walk(yield func(Item, error) bool) error {
	var buf []byte
	for i := range g.parts {
		if g.reverse {
			i = len(g.parts) - 1 - i
		}
		p := &g.parts[i]
		for j := range p.Len() {
			if g.reverse {
				j = p.Len() - 1 - j
			}
			s := p.bounds
			if len(p.spans) > 1 {
				s, buf = g.span(p, j, buf[:0])
			}
			if s.empty() {
				continue
			}
			if done, err := g.walkSpan(p, s, yield); done || err != nil {
				return err
			}
		}
	}
	return nil
}

// walkSpan yields one span of a partition.
func (g *gathering) walkSpan(
	p *part, s span, yield func(Item, error) bool,
) (over bool, err error) {
	it := g.it
	if err := it.pause(); err != nil { // there may be many that hold nothing
		return true, err
	}
	b := stripe.Bounds{
		Lo: s.lo, Hi: s.hi, Reverse: g.reverse, Snap: it.node.seq,
		FirstRows: firstRows(max(0, it.left)),
	}
	defer it.cursor.Close()
	if err := it.open(p.stripe, b, g.reader); err != nil {
		return true, err
	}
	return it.eachOf(p, yield)
}

// eachOf yields the entries of the source, which are of one partition; over means that no
// more are wanted.
func (it *iteration) eachOf(p *part, yield func(Item, error) bool) (over bool, err error) {
	unseen := it.unseen(yield)
	for e := it.entry(); e != nil; e = it.entry() {
		if unseen {
			over = it.tally()
		} else {
			it.decodeOf(p, e)
			over = it.emit(&it.item, yield)
		}
		if over {
			return true, nil
		}
	}
	return false, it.err
}

// decodeOf makes an entry of a partition the item.
func (it *iteration) decodeOf(p *part, e *base.Entry) {
	item := &it.item
	item.set(e)
	item.Key.PK, item.Key.SK = p.pk, nil
	if n := len(e.Key); n > p.skip {
		item.Key.SK = e.Key[p.skip:n:n]
	}
}

// merge yields the partitions as one sequence.
func (g *gathering) merge(yield func(Item, error) bool) error {
	g.choose()
	c := mergedPool.Get().(*stripe.Cursor)
	defer closeMerged(c)
	for i := range g.parts {
		if err := g.add(c, i); err != nil {
			return err
		}
	}
	it := g.it
	it.read(c)
	for e := it.entry(); e != nil; e = it.entry() {
		it.decodeOf(&g.parts[c.Part()], e)
		if it.emit(&it.item, yield) {
			return nil
		}
	}
	return it.err
}

// choose marks the partitions that are read at once, because nothing is known to come
// before them: those whose spans begin first. The others wait behind fences.
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
		return p.bounds.lo[p.skip:], false
	}
	return p.bounds.hi[p.skip:], p.bounds.hi[p.skip-1] != 0
}

// add opens a partition under the cursor.
func (g *gathering) add(c *stripe.Cursor, i int) error {
	if err := g.it.pause(); err != nil {
		return err
	}
	p := &g.parts[i]
	b := g.it.mergedBounds(p.bounds, g.reverse, len(g.parts), g.limit)
	b.Part, b.Skip = int32(i), int32(p.skip)
	if !p.eager || len(p.spans) > 1 {
		b.Spans, b.Eager = p, p.eager
	}
	return c.Add(&g.it.db.stripes[p.stripe], &b, g.reader.overlay(p.stripe))
}

// Len implements stripe.Spans.
func (p *part) Len() int { return max(1, len(p.spans)) }

// Span implements stripe.Spans.
func (p *part) Span(i int, buf []byte) (lo, hi, keys []byte) {
	if p.of.reverse {
		i = p.Len() - 1 - i
	}
	s, keys := p.of.span(p, i, buf)
	return s.lo, s.hi, keys
}
