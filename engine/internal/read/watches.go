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
// The way taken: a span is watched. First it is put into a list of watched spans, then since is
// loaded, the seq of the last commit. A commit gets its seq, then loads the lists, and lowers
// touched of the spans that it changes to its seq, all before it is published. A commit that misses
// the span has loaded its list before, so its seq is not above since. A reader is registered when
// the commits up to its seq are published, so it finds what they have touched.
//
// Invariant: what is visible of the span, but for what expires, is the same at each seq of
// [since, touched). For a reader in it this has been decided: touched does not fall to its seq.
// Flushes and merges, which change nothing that a registered reader sees, do not matter.
//
// A span that is not watched any more is touched at 0 first, and then leaves the list. If it left
// first, a commit would miss it, and a reader at its seq would not know.
//
// A put looks at three lists: the images, the voids over all stripes and those in its stripe; a
// deletion at the images. Each is short, so many voids in many stripes cost a commit little.
//
// Another process, if it writes, knows nothing of the lists. Then an interval is the seq of the
// reader that began it.

// watch is a watched span.
type watch struct {
	span    base.Span
	since   base.SeqNum
	touched atomic.Uint64
	usedMs  atomic.Int64 // when the span was read
}

// watcher is what a span is watched for: an image or a void.
type watcher interface {
	comparable
	watched() *watch
	// end makes it nothing that a reader uses.
	end()
}

func (w *watch) watched() *watch { return w }

func (w *watch) end() { w.touched.Store(0) }

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

// touchKey is touch if a key is in the span.
func (w *watch) touchKey(key []byte, seq base.SeqNum) {
	if bytes.Compare(key, w.span.Lo) >= 0 &&
		(w.span.Hi == nil || bytes.Compare(key, w.span.Hi) < 0) {
		w.touch(seq)
	}
}

// touchSpan is touch if a span overlaps the span.
func (w *watch) touchSpan(s base.Span, seq base.SeqNum) {
	if (s.Hi == nil || bytes.Compare(w.span.Lo, s.Hi) < 0) &&
		(w.span.Hi == nil || bytes.Compare(s.Lo, w.span.Hi) < 0) {
		w.touch(seq)
	}
}

// TouchKey notes that a commit puts or deletes a key of a stripe. Requires: the commit has its seq;
// it is not published yet.
func (s *State) TouchKey(id uint8, key []byte, deletes bool, seq base.SeqNum) {
	if list := s.images.load(); list != nil {
		touchKey(list, key, seq)
	}
	if deletes {
		return
	}
	if list := s.voids.all.load(); list != nil {
		touchKey(list, key, seq)
	}
	if list := s.voids.of[id].load(); list != nil {
		touchKey(list, key, seq)
	}
}

// TouchSpan notes that a commit deletes a span. Requires: as TouchKey.
func (s *State) TouchSpan(span base.Span, seq base.SeqNum) {
	for _, e := range s.images.load() {
		e.of.touchSpan(span, seq)
	}
}

// maxWatched is how many spans a list has. Why not more: a write is compared with all of them.
const maxWatched = 16

// watches is a list of watched spans of a kind.
type watches[W watcher] struct {
	list atomic.Pointer[[]listed[W]] // replaced as a whole; nil: none
	mu   sync.Mutex                  // held to replace it
}

// listed is what is on a list, with the heads of its lowest and highest keys, to compare fast.
type listed[W watcher] struct {
	lowest, highest uint64
	of              W
}

// load returns the list, which stays as it is; nil if it is empty.
func (l *watches[W]) load() []listed[W] {
	if list := l.list.Load(); list != nil {
		return *list
	}
	return nil
}

// touchKey touches the spans of a list that a key is in.
func touchKey[W watcher](list []listed[W], key []byte, seq base.SeqNum) {
	head := base.KeyHead(key)
	for i := range list {
		if e := &list[i]; head >= e.lowest && head <= e.highest {
			e.of.watched().touchKey(key, seq)
		}
	}
}

// watch begins to watch a span for w, which is new, for a reader at a seq. What was not used for
// longest gives way.
func (l *watches[W]) watch(s *State, w W, span base.Span, seq base.SeqNum) {
	k, e := w.watched(), listed[W]{base.KeyHead(span.Lo), math.MaxUint64, w}
	if span.Hi != nil {
		e.highest = base.KeyHead(span.Hi)
	}
	k.span = span.Clone()
	k.usedMs.Store(s.env.NowMs())
	if k.touched.Store(uint64(base.MaxSeqNum)); s.log == nil {
		k.touched.Store(uint64(seq + 1))
	}
	l.mu.Lock()
	for len(l.load()) >= maxWatched {
		l.endIdlestLocked()
	}
	list := append(slices.Clip(l.load()), e)
	l.list.Store(&list)
	l.mu.Unlock()
	base.Yield()
	if k.since = seq; s.log != nil {
		k.since = s.log.LastSeq()
	}
}

// indexOf returns where w is on the list, -1 if it is not watched any more.
func (l *watches[W]) indexOf(w W) int {
	return slices.IndexFunc(l.load(), func(e listed[W]) bool { return e.of == w })
}

// unwatch ends a watch, which may have ended.
func (l *watches[W]) unwatch(w W) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.indexOf(w); i >= 0 {
		l.endLocked(i)
	}
}

// age ends the watches of spans that were not read since a time.
func (l *watches[W]) age(ms int64) {
	if l.list.Load() == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.load()) - 1; i >= 0; i-- {
		if l.load()[i].of.watched().usedMs.Load() < ms {
			l.endLocked(i)
		}
	}
}

// endIdlestLocked ends the watch whose span was not read for the longest time. Requires: there is
// one.
func (l *watches[W]) endIdlestLocked() {
	idlest, list := 0, l.load()
	for i, e := range list {
		if e.of.watched().usedMs.Load() < list[idlest].of.watched().usedMs.Load() {
			idlest = i
		}
	}
	l.endLocked(idlest)
}

// endLocked ends watch i.
func (l *watches[W]) endLocked(i int) {
	l.load()[i].of.end() // first: see Watched spans
	base.Yield()
	if rest := slices.Delete(slices.Clone(l.load()), i, i+1); len(rest) > 0 {
		l.list.Store(&rest)
	} else {
		l.list.Store(nil)
	}
}

// ageWatches ends watches of spans that are not read any more.
func (s *State) ageWatches(nowMs int64) {
	s.images.age(nowMs - slotIdleMs)
	s.voids.all.age(nowMs - slotIdleMs)
	for i := range s.voids.of {
		s.voids.of[i].age(nowMs - slotIdleMs)
	}
}
