package read

import (
	"bytes"
	"math"
	"sync/atomic"

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
// place. Merged partitions have a void each: when the first item of all is found, their rows before
// its sort key have been passed over.
//
// Invariant: at each seq of [from, touched) no item of the span is visible, also not one that has
// expired, since not all readers have the same time.

const (
	// minVoid is how many rows are passed over until it is worth a void: they take about as long
	// as a query of one item. Partitions that are gathered for a few items share it.
	minVoid = 128
	// minVoidChecked is minVoid where invariants are checked.
	minVoidChecked = 2
	// maxVoidBytes bounds the bounds of a void: each stripe may have maxWatched.
	maxVoidBytes = 1 << 10
	// maxVoidParts is how many partitions are merged at most for each to have a void. Why not
	// more: the lists would not have room for them.
	maxVoidParts = 1024
	// undecided is the from of a void that has its since.
	undecided = math.MaxUint64
)

// void watches a span without items.
type void struct {
	watch
	from atomic.Uint64 // nothing is in it from this seq on; 0 as long as it has no since
}

// voids are those of the whole database, and those of what a stripe has.
type voids struct {
	all watches[*void]
	of  [base.NumStripes]watches[*void]
}

// in returns those that a reading of a part watches; all if it is nil.
func (v *voids) in(p *part) *watches[*void] {
	if p == nil {
		return &v.all
	}
	return &v.of[p.stripe]
}

// none reports whether a reading of a part, or of all if it is nil, meets no voids.
func (v *voids) none(p *part) bool {
	return v.all.load() == nil && (p == nil || v.of[p.stripe].load() == nil)
}

// seeking is how an iteration looks for its first item.
type seeking struct {
	on     bool
	span   base.Span // where it is, but for merged partitions
	passed int       // rows that were not shown
}

// seek begins to look for the first item of s, in the part if it is not nil, and returns s without
// voids at its beginning.
func (it *Iteration) seek(p *part, s base.Span, reverse bool) base.Span {
	if !it.mayLeave() {
		return s
	}
	s = it.leave(p, s, reverse)
	whole := p != nil || len(it.stripes) == base.NumStripes
	it.seeking = seeking{on: whole && !s.Empty() && it.mayNote(), span: s}
	return s
}

// mayLeave reports whether voids are known, and have nothing that is shown.
func (it *Iteration) mayLeave() bool {
	tx := it.reader.tx
	return it.state.log != nil && (tx == nil || tx.writes == 0)
}

// mayNote reports whether an item that is not shown is not visible.
func (it *Iteration) mayNote() bool { return it.mayHold == nil && it.from == 0 }

// leave returns s, which is in the part if it is not nil, without voids at its beginning.
func (it *Iteration) leave(p *part, s base.Span, reverse bool) base.Span {
	v := &it.state.voids
	if v.none(p) {
		return s
	}
	if s = it.leaveEach(v.all.load(), s, reverse); p != nil {
		s = it.leaveEach(v.in(p).load(), s, reverse)
	}
	return s
}

// leaveEach is leave of the voids of a list.
func (it *Iteration) leaveEach(list []listed[*void], s base.Span, reverse bool) base.Span {
	for _, e := range list {
		w := e.of
		if !w.empty(it.node.seq) {
			continue
		}
		if rest, ok := w.leave(s, reverse); ok {
			s = rest
			w.usedMs.Store(it.state.env.NowMs())
		}
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
	if it.gathering != nil && it.limit > 0 {
		least = max(1, least/len(it.gathering.parts))
	}
	switch {
	case k.passed < least || it.timed:
	case it.parts != nil:
		it.gathering.noteVoids(it, key, int32(least))
	default:
		voids := it.state.voids.in(it.part)
		it.state.noteVoid(voids, before(k.span, key, it.bounds.Reverse), it.node.seq)
	}
}

// before returns what comes before a key of s in the direction of reading; all of s if it is nil.
func before(s base.Span, key []byte, reverse bool) base.Span {
	switch {
	case key == nil:
	case reverse:
		if bytes.Compare(key, s.Lo) >= 0 {
			s.Lo = append(bytes.Clone(key), 0)
		}
	case s.Hi == nil || bytes.Compare(key, s.Hi) < 0:
		s.Hi = key
	}
	return s
}

// noteVoids takes note of what was passed over in each of the merged partitions, least rows and
// more, before the first item, which has this key; nil if nothing was found.
func (g *gathering) noteVoids(it *Iteration, key []byte, least int32) {
	passed := make([]int32, len(g.parts))
	it.source.PassedOf(passed)
	if key != nil {
		key = key[min(g.parts[it.source.Part()].skip, len(key)):]
	}
	for i := range g.parts {
		p := &g.parts[i]
		if passed[i] < least || len(p.spans) > 1 {
			continue
		}
		s := p.bounds
		if key != nil {
			g.walked = append(append(g.walked[:0], p.prefix...), key...)
			s = before(s, g.walked, g.reverse)
		}
		it.state.noteVoid(it.state.voids.in(p), s, it.node.seq)
	}
}

// noteVoid takes note that a reader at a seq has found no item in a span.
func (s *State) noteVoid(voids *watches[*void], span base.Span, seq base.SeqNum) {
	var old *void
	for _, e := range voids.load() {
		switch w := e.of; {
		case !w.empty(seq):
		case w.span.Hi != nil && bytes.Equal(w.span.Hi, span.Lo): // how seek came here
			old, span.Lo = w, w.span.Lo
		case span.Hi != nil && bytes.Equal(w.span.Lo, span.Hi):
			old, span.Hi = w, w.span.Hi
		}
	}
	if span.Empty() || len(span.Lo)+len(span.Hi) > maxVoidBytes {
		return
	}
	whole := &watch{span: span}
	for _, e := range voids.load() {
		w := e.of
		from := w.from.Load()
		switch {
		case w == old || !whole.around(w.span):
		case from == 0 || from == undecided && seq < w.since:
			return // the next reader decides
		case w.over(seq):
			voids.unwatch(w)
		case from == undecided:
			if w.from.CompareAndSwap(undecided, uint64(seq)) && old != nil {
				voids.unwatch(old)
			}
			return
		}
	}
	w := new(void)
	voids.watch(s, w, span, seq)
	if w.since != seq {
		w.from.Store(undecided)
		return
	}
	w.from.Store(uint64(seq))
	if old != nil {
		voids.unwatch(old)
	}
}

// empty reports whether nothing of the void is visible at a seq.
func (w *void) empty(seq base.SeqNum) bool {
	from := w.from.Load()
	return from > 0 && uint64(seq) >= from && !w.over(seq)
}

// nothing is an empty span.
var nothing = base.Span{Hi: []byte{}}

// leave returns s without the void if it begins in it or, reversed, ends in it, and reports whether
// that is so.
func (w *void) leave(s base.Span, reverse bool) (rest base.Span, ok bool) {
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
