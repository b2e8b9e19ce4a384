package read

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
)

// windows divides an ordered reading of several stripes.
type windows struct {
	m     *slotMap  // nil: one window is all
	left  base.Span // after the present window
	more  bool      // left is to be read
	slots int       // of the next window
}

// maxWindowStripes is from how many stripes on a window is not worth its own merge: the rest of
// the reading is one.
const maxWindowStripes = 3 * base.NumStripes / 4

// divide begins the windows of a reading of s.
func (it *Iteration) divide(s base.Span) {
	w := &it.windows
	*w = windows{left: s, more: true}
	if it.limit == 0 || it.limit > base.NumStripes || len(it.stripes) < base.NumStripes {
		return
	}
	if w.m = it.state.slotsFor(it.node.seq); w.m != nil {
		w.slots = 1 + (it.limit+w.m.keys/2)/w.m.keys
	}
}

// openWindow opens the sources of the next window.
func (it *Iteration) openWindow() {
	w := &it.windows
	s, among, n := w.next(it.reverse, len(it.stripes))
	it.mergedBounds(&it.bounds, s, it.reverse, n)
	for i, id := range it.stripes {
		over := it.reader.overlay(id)
		if i+1 < len(it.stripes) && (over == nil && !among.has(id) || it.bare(id)) {
			continue
		}
		it.err = it.source.Add(&it.node.gen.stripes[id], &it.bounds, over)
		if it.err != nil {
			return
		}
	}
}

// nextWindow opens the next window, twice as large as the last one, if there is one.
func (it *Iteration) nextWindow() bool {
	if !it.windows.more {
		return false
	}
	it.source.Close()
	it.openWindow()
	return it.err == nil
}

// next returns the next window, the stripes that may have keys in it, and about how many they are,
// of so many.
func (w *windows) next(reverse bool, stripes int) (s base.Span, among stripeWords, n int) {
	if w.m != nil {
		from, to := w.place(reverse)
		if among, n = w.m.stripesOf(from, to); n <= maxWindowStripes {
			s = w.cut(from, to, reverse)
			w.slots *= 2
			return s, among, max(n, 1)
		}
		w.m.useless.Add(1)
	}
	for i := range among {
		among[i] = ^uint64(0)
	}
	w.more = false
	return w.left, among, stripes
}

// place returns the slots [from, to) of the next window.
func (w *windows) place(reverse bool) (from, to int) {
	if !reverse {
		from = w.m.slot(w.left.Lo)
		return from, min(from+w.slots, w.m.slots())
	}
	to = w.m.slots()
	if hi := w.left.Hi; hi != nil {
		if to = w.m.slot(hi) + 1; to > 1 && bytes.Equal(w.m.anchor(to-2), hi) {
			to--
		}
	}
	return max(to-w.slots, 0), to
}

// cut takes the slots [from, to) out of what is left.
func (w *windows) cut(from, to int, reverse bool) (s base.Span) {
	s = w.left
	if reverse {
		if w.more = from > 0 && bytes.Compare(w.m.anchor(from-1), s.Lo) > 0; w.more {
			s.Lo = w.m.anchor(from - 1)
			w.left.Hi = s.Lo
		}
		return s
	}
	w.more = to < w.m.slots() && (s.Hi == nil || bytes.Compare(w.m.anchor(to-1), s.Hi) < 0)
	if w.more {
		s.Hi = w.m.anchor(to - 1)
		w.left.Lo = s.Hi
	}
	return s
}
