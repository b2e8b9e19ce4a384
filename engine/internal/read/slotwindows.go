package read

import (
	"bytes"
	"math"

	"github.com/kstonedb/kstone/internal/base"
)

// windows divides an ordered reading of several stripes.
type windows struct {
	m      *slotMap  // nil: one window is all
	left   base.Span // after the present window
	more   bool      // left is to be read
	slots  int       // of the next window, at least
	opened int       // windows
}

// evenWindows is how many windows are read before they grow. Why they grow: what is sought may be
// hidden, expired or not wanted for a long way.
const evenWindows = 4

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
	w.m, w.slots = it.state.slotsFor(it.node.seq), 1
}

// openWindow opens the sources of the next window.
func (it *Iteration) openWindow() {
	w := &it.windows
	s, among := w.next(it.reverse)
	it.mergedBounds(&it.bounds, s, it.reverse, len(it.stripes))
	if w.m != nil {
		it.bounds.FirstRows, it.bounds.Few = 1, true
	}
	last, own := len(it.stripes)-1, it.reader.tx != nil
	for i, id := range it.stripes {
		if i < last && (!among.has(id) && (!own || it.reader.overlay(id) == nil) || it.bare(id)) {
			if it.err != nil {
				return
			}
			continue
		}
		over := it.reader.overlay(id)
		it.err = it.source.Add(&it.node.gen.stripes[id], &it.bounds, over)
		if it.err != nil {
			return
		}
	}
}

// nextWindow opens the next window, for the rows that are missing, if there is one.
func (it *Iteration) nextWindow() bool {
	w := &it.windows
	if !w.more {
		return false
	}
	if w.opened++; w.opened >= evenWindows {
		w.slots *= 2
	} else if w.m != nil {
		w.slots = max(1, it.left/w.m.keys)
	}
	it.seeking.passed += it.source.Passed()
	it.source.Close()
	it.openWindow()
	return it.err == nil
}

// next returns the next window, and the stripes that may have keys in it.
func (w *windows) next(reverse bool) (s base.Span, among stripeWords) {
	if w.m != nil {
		from, to := w.place(reverse)
		among, n := w.m.stripesOf(from, to)
		if n <= maxWindowStripes {
			return w.cut(from, to, reverse), among
		}
		w.m.useless.Add(1)
		w.m = nil
	}
	for i := range among {
		among[i] = math.MaxUint64
	}
	w.more = false
	return w.left, among
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
