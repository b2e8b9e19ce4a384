package read

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
)

// # Watched spans
//
// A scan of a small table opens 256 stripes for some ten rows each. An image has all rows of such a
// span together, for readers that would see the same rows.
//
// The naive way: readers at the seq of the image.
//
// Why it fails: the next commit ends it, of whatever table.
//
// The way taken: a span is watched. First it is put into the list of watched spans, then since is
// loaded, the seq of the last commit. A commit gets its seq, then loads the list, and lowers
// touched of the spans that it changes to its seq, all before it is published. A commit that misses
// the span has loaded the list before, so its seq is not above since. A reader is registered when
// the commits up to its seq are published, so it finds what they have touched.
//
// Invariant: what is visible of the span, but for what expires, is the same at each seq of
// [since, touched). For a reader in it this has been decided: touched does not fall to its seq.
// Flushes and merges, which change nothing that a registered reader sees, do not matter.
//
// A span that is not watched any more is touched at 0 first, and then leaves the list. If it left
// first, a commit would miss it, and a reader at its seq would not know.
//
// Another process, if it writes, knows nothing of the list. Then an interval is the seq of the
// reader that began it.

// watch is a watched span.
type watch struct {
	span            base.Span
	lowest, highest uint64 // heads of its keys, to compare fast
	since           base.SeqNum
	touched         atomic.Uint64

	void bool          // see Voids
	from atomic.Uint64 // nothing is in the void from this seq on; 0 as long as it has no since

	image  atomic.Pointer[image] // nil: none, yet
	making atomic.Bool           // a reader has begun to make it
	uses   atomic.Int64          // of it
	usedMs atomic.Int64          // when the span was scanned
}

// newWatch returns a watch of a span, or of a void, whose since is still to be set.
func newWatch(s base.Span, void bool, touched base.SeqNum, nowMs int64) *watch {
	w := &watch{
		void:   void,
		span:   base.Span{Lo: bytes.Clone(s.Lo), Hi: bytes.Clone(s.Hi)},
		lowest: base.KeyHead(s.Lo), highest: math.MaxUint64,
	}
	if s.Hi != nil {
		w.highest = base.KeyHead(s.Hi)
	}
	w.touched.Store(uint64(touched))
	w.usedMs.Store(nowMs)
	return w
}

// holds reports whether a reader at a seq sees what all readers of the watch do.
func (w *watch) holds(seq base.SeqNum) bool { return seq >= w.since && !w.over(seq) }

// around reports whether all of a span is watched.
func (w *watch) around(s base.Span) bool {
	return bytes.Compare(w.span.Lo, s.Lo) <= 0 &&
		(w.span.Hi == nil || s.Hi != nil && bytes.Compare(s.Hi, w.span.Hi) <= 0)
}

// over reports whether the span has changed for a reader at a seq.
func (w *watch) over(seq base.SeqNum) bool { return uint64(seq) >= w.touched.Load() }

// touch lowers touched to the seq of a commit.
func (w *watch) touch(seq base.SeqNum) {
	for {
		t := w.touched.Load()
		if t <= uint64(seq) || w.touched.CompareAndSwap(t, uint64(seq)) {
			return
		}
	}
}

// Watched are the spans that commits have to touch.
type Watched []*watch

// Watched returns the spans that a commit has to touch. Requires: the commit has its seq; it
// touches them before it is published.
func (s *State) Watched() Watched {
	if list := s.watches.list.Load(); list != nil {
		return *list
	}
	return nil
}

// TouchKey notes that a commit puts or deletes a key.
func (l Watched) TouchKey(key []byte, deletes bool, seq base.SeqNum) {
	if len(l) == 0 {
		return
	}
	head := base.KeyHead(key)
	for _, w := range l {
		if head >= w.lowest && head <= w.highest && bytes.Compare(key, w.span.Lo) >= 0 &&
			(w.span.Hi == nil || bytes.Compare(key, w.span.Hi) < 0) && !(w.void && deletes) {
			w.touch(seq)
		}
	}
}

// TouchSpan notes that a commit deletes a span.
func (l Watched) TouchSpan(s base.Span, seq base.SeqNum) {
	for _, w := range l {
		if !w.void && (s.Hi == nil || bytes.Compare(w.span.Lo, s.Hi) < 0) &&
			(w.span.Hi == nil || bytes.Compare(s.Lo, w.span.Hi) < 0) {
			w.touch(seq)
		}
	}
}

// watches are the spans that are watched, and bound the memory of their images.
type watches struct {
	list  atomic.Pointer[Watched] // replaced as a whole
	mu    sync.Mutex
	bytes int // guarded by mu: of images
}

// maxWatched is how many spans are watched, half of them voids. Why not more: each write is
// compared with all of them.
const maxWatched = 32

// watch begins to watch a span, for a reader that has found it changed or a void.
func (s *State) watch(span base.Span, seq base.SeqNum, void bool) *watch {
	touched := base.MaxSeqNum
	if s.log == nil {
		touched = seq + 1
	}
	w := newWatch(span, void, touched, s.env.NowMs())
	b := &s.watches
	b.mu.Lock()
	for s.Watched().count(void) >= maxWatched/2 {
		b.endIdlestLocked(s.Watched(), void)
	}
	list := append(slices.Clip(s.Watched()), w)
	b.list.Store(&list)
	b.mu.Unlock()
	base.Yield()
	if w.since = seq; s.log != nil {
		w.since = s.log.LastSeq()
	}
	return w
}

// keep makes an image that of a watch, if that is still watched. Those of spans that were not
// scanned for longer give way. Requires: it is not larger than ImageBytes.
func (s *State) keep(w *watch, m *image) {
	b := &s.watches
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes+m.bytes() > s.env.ImageBytes && s.Watched().count(false) > 0 {
		b.endIdlestLocked(s.Watched(), false)
	}
	if slices.Contains(s.Watched(), w) {
		b.bytes += m.bytes()
		w.image.Store(m)
	}
}

// unwatch ends a watch, which may have ended.
func (s *State) unwatch(w *watch) {
	b := &s.watches
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(s.Watched(), w); i >= 0 {
		b.endLocked(s.Watched(), i)
	}
}

// ageWatches ends watches of spans that are not scanned any more.
func (s *State) ageWatches(nowMs int64) {
	b := &s.watches
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(s.Watched()) - 1; i >= 0; i-- {
		if nowMs-s.Watched()[i].usedMs.Load() > slotIdleMs {
			b.endLocked(s.Watched(), i)
		}
	}
}

// count returns how many of the spans are voids, or are not.
func (l Watched) count(void bool) (n int) {
	for _, w := range l {
		if w.void == void {
			n++
		}
	}
	return n
}

// endIdlestLocked ends the watch, of a void or not, whose span was not scanned for the longest
// time.
// Requires: there is one.
func (b *watches) endIdlestLocked(list Watched, void bool) {
	idlest := -1
	for i, w := range list {
		if w.void == void && (idlest < 0 || w.usedMs.Load() < list[idlest].usedMs.Load()) {
			idlest = i
		}
	}
	b.endLocked(list, idlest)
}

// endLocked ends watch i.
func (b *watches) endLocked(list Watched, i int) {
	w := list[i]
	w.touched.Store(0) // first: see Watched spans
	base.Yield()
	rest := slices.Delete(slices.Clone(list), i, i+1)
	b.list.Store(&rest)
	if m := w.image.Swap(nil); m != nil {
		b.bytes -= m.bytes()
	}
}
