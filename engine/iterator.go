package engine

import (
	"bytes"
	"cmp"
	"context"

	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
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
// A change of direction and a Seek open the sources of the selection again. Each costs about
// as much as the start of an iteration: for a Scan of all stripes some hundred steps.
//
// An Iterator belongs to one goroutine at a time. In a transaction do not write while it is
// open. It must be closed, before the database is: see [ErrLeaked].
type Iterator struct {
	it     *read.Iteration // nil once closed
	filter func(Item) bool

	span    base.Span // what it moves in
	reverse bool      // of the selection

	place    iteratorPlace
	backward bool // the sources are open against the order of the selection
	open     bool // the sources are
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
	s, prefix, err := q.span(nil)
	if err == nil && q.Limit > 0 {
		err = invalid("query: an iterator has no limit")
	}
	if err != nil {
		return nil, err
	}
	i := &Iterator{span: s, reverse: q.Reverse, filter: q.Filter}
	if err := i.start(ctx, r, 0); err != nil {
		return nil, err
	}
	i.it.Since(above(q.Since))
	i.it.MayHold(q.MayHold, q.Blocks)
	i.it.KeysOnly(q.KeysOnly)
	i.it.Partition(bytes.Clone(q.PK), prefix, s)
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
	i := &Iterator{span: p.span, reverse: s.Reverse, filter: s.Filter}
	if err := i.start(ctx, r, iteratorRows); err != nil {
		return nil, err
	}
	i.it.Since(above(s.Since))
	i.it.MayHold(s.MayHold, s.Blocks)
	i.it.KeysOnly(s.KeysOnly)
	i.it.Stripes(p.stripes, p.span)
	return i, nil
}

// start fixes the state that the Iterator reads.
func (i *Iterator) start(ctx context.Context, r *reader, rows int) error {
	i.it = read.NewIteration()
	err := r.start(ctx, i.it, rows)
	if err != nil {
		i.it.Close()
	}
	return err
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
		if s.Hi == nil || bytes.Compare(k, s.Hi) < 0 {
			s.Hi = k
		}
	default:
		s.Lo = maxKey(s.Lo, keycodec.AppendOrdered(nil, key))
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
	return Item(i.it.Item)
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
	i.it.Close()
	i.it, i.place = nil, onNothing
	return i.err
}

// usable reports whether the Iterator can move.
func (i *Iterator) usable() bool {
	if i.it != nil && i.err == nil {
		i.err = i.it.Closed()
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
			s.Hi = bytes.Clone(i.it.Key())
		} else if i.place == onItem {
			s.Lo = append(bytes.Clone(i.it.Key()), 0)
		}
		i.reopen(s, lower)
	}
	return i.step(end)
}

// reopen begins to read a span again, to lower or to higher keys.
func (i *Iterator) reopen(s base.Span, lower bool) {
	i.open, i.backward = true, lower
	i.it.Read(s, lower)
}

// step moves over the next item of the sources; at their end the place is end.
func (i *Iterator) step(end iteratorPlace) bool {
	i.place = end
	for i.open && i.it.Next() {
		if i.filter == nil || i.filter(Item(i.it.Item)) {
			i.place = onItem
			return true
		}
	}
	i.open = false
	i.err = i.it.Err()
	return false
}
