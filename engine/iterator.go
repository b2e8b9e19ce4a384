package engine

import (
	"bytes"
	"cmp"
	"context"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// Iterator moves over the items that a Query or a Scan selects, both ways, at the state of
// the moment in which it was made. It is for programs that have to pull; where a loop does,
// the sequences of [Reader] are simpler and cannot be left open.
//
// The order is that of the selection: with Reverse, Next moves to lower keys. A new Iterator
// stands on no item: Next moves to the first one, Prev to the last. Next, Prev and Seek
// report whether the Iterator now stands on an item. If not, it stands before the first or
// after the last, from where it can come back, or it has failed, as Err says.
//
// To change the direction, and to seek, opens the sources of the selection again: that costs
// about as much as the start of an iteration, for a Scan of all stripes some hundred times
// what a step does.
//
// An Iterator belongs to one goroutine at a time. In a transaction do not write while it is
// open. It must be closed, before the database is: see [ErrLeaked].
type Iterator struct {
	it *iteration // nil once closed
	r  reader

	span    span    // what it moves in
	reverse bool    // of the selection
	stripes []uint8 // of a scan; nil for a query
	stripe  uint8   // of a query
	part    part    // of a query

	source   *stripe.Cursor // open, or ready to be
	place    iteratorPlace
	backward bool        // the source is open against the order of the selection
	open     bool        // the source is
	entry    *base.Entry // of place onItem: what the source has shown last
	err      error
}

// iteratorPlace is where an Iterator stands.
type iteratorPlace uint8

const (
	onNothing iteratorPlace = iota // new
	onItem
	beforeFirst
	afterLast
)

// iteratorRows is how many items an Iterator over several stripes is expected to show at a
// time: it reads little of each stripe before it is known to be needed.
const iteratorRows = 16

// QueryIterator returns an Iterator over the items of one partition that q selects. Limit must
// be 0. A transaction then depends on all of them.
func (r *reader) QueryIterator(ctx context.Context, q Query) (*Iterator, error) {
	s, err := q.span(nil)
	if err == nil && q.Limit > 0 {
		err = invalid("query: an iterator has no limit")
	}
	if err != nil {
		return nil, err
	}
	i := &Iterator{r: *r, span: s, reverse: q.Reverse, stripe: keycodec.Stripe(q.PK)}
	i.part.pk = bytes.Clone(q.PK)
	i.part.skip, _ = keycodec.OrderedPKLen(s.lo)
	r.db.metrics.queries.Add(1)
	if err := i.start(ctx, q.Filter); err != nil {
		return nil, err
	}
	return i, nil
}

// ScanIterator returns an Iterator over the items of all partitions that s selects. Limit must
// be 0, and Unordered false. A transaction then depends on all of them.
func (r *reader) ScanIterator(ctx context.Context, s Scan) (*Iterator, error) {
	p, err := s.plan()
	switch {
	case err != nil:
	case s.Limit > 0:
		err = invalid("scan: an iterator has no limit")
	case s.Unordered:
		err = invalid("scan: an iterator is ordered")
	}
	if err != nil {
		return nil, err
	}
	i := &Iterator{r: *r, span: p.span, reverse: s.Reverse, stripes: p.stripes}
	r.db.metrics.scans.Add(1)
	if err := i.start(ctx, s.Filter); err != nil {
		return nil, err
	}
	return i, nil
}

// start fixes the state that the Iterator reads.
func (i *Iterator) start(ctx context.Context, filter func(Item) bool) error {
	it := iterationPool.Get().(*iteration)
	if err := it.start(ctx, i.r.db, i.r, 0, filter); err != nil {
		return err
	}
	i.it, i.source = it, &it.cursor
	if i.stripes != nil {
		i.source = mergedPool.Get().(*stripe.Cursor)
	}
	if tx := i.r.tx; tx != nil && !i.span.empty() {
		if i.stripes == nil {
			tx.readSpan(i.stripe, i.span)
		}
		for _, id := range i.stripes {
			tx.readSpan(id, i.span)
		}
	}
	return nil
}

// Next moves to the next item; from a new Iterator, and from before the first, to the first.
func (i *Iterator) Next() bool {
	return i.place != afterLast && i.move(i.reverse, afterLast)
}

// Prev moves to the item before; from a new Iterator, and from after the last, to the last.
func (i *Iterator) Prev() bool {
	return i.place != beforeFirst && i.move(!i.reverse, beforeFirst)
}

// Seek moves to the first item, in the order of the selection, that is not before key. There
// need not be one of key. A zero Key stands before all others.
func (i *Iterator) Seek(key Key) bool {
	if !i.usable() {
		return false
	}
	s := i.span
	switch {
	case key.PK == nil && key.SK == nil:
	case len(key.PK) == 0:
		i.err = keyError("seek", ErrEmptyPK)
		return false
	case i.reverse:
		k := append(keycodec.AppendOrdered(nil, key), 0)
		if s.hi == nil || bytes.Compare(k, s.hi) < 0 {
			s.hi = k
		}
	default:
		s.lo = maxKey(s.lo, keycodec.AppendOrdered(nil, key))
	}
	i.reopen(s, i.reverse)
	return i.step(afterLast)
}

// Item returns the item that the Iterator stands on, a zero one if it stands on none. It is
// valid until the next call of the Iterator, and must not be modified; [Item.Clone] keeps
// it.
func (i *Iterator) Item() Item {
	if i.it == nil || i.place != onItem {
		return Item{}
	}
	return i.it.item
}

// Err returns why the Iterator cannot move any more, nil if it can. Once it is closed, that is
// ErrClosed.
func (i *Iterator) Err() error {
	if i.it == nil {
		return cmp.Or(i.err, ErrClosed)
	}
	return i.err
}

// Close releases what the Iterator holds. It returns the error that ended its movement, if
// there is one, and is idempotent.
func (i *Iterator) Close() error {
	if i.it == nil {
		return i.err
	}
	if i.stripes != nil {
		closeMerged(i.source)
	}
	i.it.close()
	i.it, i.source, i.entry, i.place = nil, nil, nil, onNothing
	return i.err
}

// usable reports whether the Iterator can move.
func (i *Iterator) usable() bool {
	if i.it != nil && i.err == nil && i.r.db.closed.Load() {
		i.err = ErrClosed
	}
	return i.it != nil && i.err == nil
}

// move steps to lower or higher keys; end is the place past the last item there.
func (i *Iterator) move(lower bool, end iteratorPlace) bool {
	if !i.usable() {
		return false
	}
	if !i.open || i.backward != lower {
		s := i.span
		if i.place == onItem && lower {
			s.hi = bytes.Clone(i.entry.Key)
		} else if i.place == onItem {
			s.lo = append(bytes.Clone(i.entry.Key), 0)
		}
		i.reopen(s, lower)
	}
	return i.step(end)
}

// reopen begins to read a span again, to lower or to higher keys.
func (i *Iterator) reopen(s span, lower bool) {
	i.source.Close()
	i.open, i.backward = !s.empty(), lower
	switch {
	case !i.open:
	case i.stripes != nil:
		i.err = i.it.openMerged(i.source, i.stripes, s, lower, iteratorRows, i.r)
	default:
		i.err = i.it.open(i.stripe, stripe.Bounds{
			Lo: s.lo, Hi: s.hi, Reverse: lower, Snap: i.it.node.seq,
		}, i.r)
	}
}

// step moves over the next item of the source; at its end the place is end.
func (i *Iterator) step(end iteratorPlace) bool {
	i.place = end
	if !i.open || i.err != nil {
		return i.failed(i.err)
	}
	it := i.it
	for e := it.entry(); e != nil; e = it.entry() {
		if i.stripes == nil {
			it.decodeOf(&i.part, e)
		} else if err := it.decode(e); err != nil {
			return i.failed(err)
		}
		if it.filter == nil || it.filter(it.item) {
			i.place, i.entry = onItem, e
			return true
		}
	}
	i.open = false
	return i.failed(it.err)
}

// failed notes an error, if there is one. It returns false.
func (i *Iterator) failed(err error) bool {
	if err != nil {
		i.err = i.it.ended(err).err
	}
	return false
}
