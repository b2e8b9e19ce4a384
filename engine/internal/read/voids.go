package read

import (
	"bytes"
	"math"

	"github.com/kstonedb/kstone/internal/base"
)

// # Voids
//
// A queue is read from its first key on, where all that was taken out is deleted. Each reading
// passes over all these tombstones, until a merge drops them: to empty a queue takes the square of
// its length.
//
// The naive way: what was passed over is remembered until a commit changes it.
//
// Why it fails: that is the next one, which takes out an item.
//
// The way taken: a void is a watched span that only puts touch. A reader that has passed over many
// rows before the first that it shows watches the span before that. If the last commit is that of
// the reader's seq then, the span has no items from this seq on. Else it may have got one in
// between, and the next reader decides that looks at all of it: if it finds no item, the span has
// none from the seq of that reader on. Why not from since on: an item may have been there and been
// deleted. Readings at such a seq begin after the void, and may watch a longer one, which takes its
// place.
//
// Invariant: at each seq of [from, touched) no item of the span is visible, also not one that has
// expired, since not all readers have the same time.

const (
	// minVoid is how many rows are passed over until it is worth a void: they take about as long
	// as a query of one item.
	minVoid = 128
	// minVoidChecked is minVoid where invariants are checked.
	minVoidChecked = 2
	// undecided is the from of a void that has its since.
	undecided = math.MaxUint64
)

// seeking is how an iteration looks for its first item.
type seeking struct {
	on     bool
	span   base.Span // where it is
	passed int       // rows that were not shown
}

// seek begins to look for the first item of s, and returns s without a void at its beginning.
func (it *Iteration) seek(s base.Span, reverse bool) base.Span {
	tx := it.reader.tx
	if it.state.log == nil || tx != nil && tx.writes > 0 {
		return s
	}
	for _, w := range it.state.Watched() {
		if !w.void || !w.empty(it.node.seq) {
			continue
		}
		if rest, ok := w.leave(s, reverse); ok {
			s = rest
			w.usedMs.Store(it.state.env.NowMs())
		}
	}
	whole := it.part != nil || len(it.stripes) == base.NumStripes
	it.seeking = seeking{
		on:   whole && it.mayHold == nil && it.from == 0 && !s.Empty(),
		span: s,
	}
	return s
}

// found ends the search for the first item, which has this key; nil if nothing was found.
func (it *Iteration) found(key []byte) {
	k := &it.seeking
	k.on = false
	k.passed += it.source.Passed()
	least := minVoid
	if base.Invariants {
		least = minVoidChecked
	}
	if k.passed < least || it.timed {
		return
	}
	s := k.span
	switch {
	case key == nil:
	case it.bounds.Reverse:
		s.Lo = append(bytes.Clone(key), 0)
	default:
		s.Hi = key
	}
	it.state.noteVoid(s, it.node.seq)
}

// noteVoid takes note that a reader at a seq has found no item in a span.
func (s *State) noteVoid(span base.Span, seq base.SeqNum) {
	var old *watch
	for _, w := range s.Watched() {
		if !w.void {
			continue
		}
		switch {
		case !w.empty(seq):
		case w.span.Hi != nil && bytes.Equal(w.span.Hi, span.Lo): // how seek came here
			old, span.Lo = w, w.span.Lo
		case span.Hi != nil && bytes.Equal(w.span.Lo, span.Hi):
			old, span.Hi = w, w.span.Hi
		}
	}
	whole := &watch{span: span}
	for _, w := range s.Watched() {
		from := w.from.Load()
		switch {
		case !w.void || w == old || !whole.around(w.span):
		case from == 0 || from == undecided && seq < w.since:
			return // the next reader decides
		case w.over(seq):
			s.unwatch(w)
		case from == undecided:
			if w.from.CompareAndSwap(undecided, uint64(seq)) && old != nil {
				s.unwatch(old)
			}
			return
		}
	}
	w := s.watch(span, seq, true)
	if w.since != seq {
		w.from.Store(undecided)
		return
	}
	w.from.Store(uint64(seq))
	if old != nil {
		s.unwatch(old)
	}
}

// empty reports whether nothing of the void is visible at a seq.
func (w *watch) empty(seq base.SeqNum) bool {
	from := w.from.Load()
	return from > 0 && uint64(seq) >= from && !w.over(seq)
}

// nothing is an empty span.
var nothing = base.Span{Hi: []byte{}}

// leave returns s without the void if it begins in it or, reversed, ends in it, and reports whether
// that is so.
func (w *watch) leave(s base.Span, reverse bool) (rest base.Span, ok bool) {
	v := w.span
	begins := bytes.Compare(v.Lo, s.Lo) <= 0
	ends := v.Hi == nil || s.Hi != nil && bytes.Compare(s.Hi, v.Hi) <= 0
	switch {
	case s.Empty():
	case begins && ends:
		return nothing, true
	case begins && !reverse && bytes.Compare(s.Lo, v.Hi) < 0:
		return base.Span{Lo: v.Hi, Hi: s.Hi}, true
	case ends && reverse && (s.Hi == nil || bytes.Compare(v.Lo, s.Hi) < 0):
		return base.Span{Lo: s.Lo, Hi: v.Lo}, true
	}
	return s, false
}
