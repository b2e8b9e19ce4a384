package read

import (
	"context"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// lookups is a group of keys on its way through the stripes: those that Get would look
// up one by one. It is reused; a lookup in it does not allocate when it has grown to its
// size and what it reads is cached.
//
// Use: take the keys; begin; range over the groups of keys with next, in one lane or
// in several at once; look at err; end.
//
// The keys are taken by stripe, some thousands at a time: few enough that what is known
// about them stays in the processor's cache, and so many that each piece of a file that is
// touched serves several of them.
type lookups struct {
	ids   []uint8  // stripes of the keys, by number
	sizes []uint32 // lengths of their ordered forms, by number
	keys  []byte   // ordered forms, back to back, by stripe
	text  []byte   // what slots refer to: keys, or those of a batch
	slots []slot   // where they are, by stripe, with ascending numbers in each
	start [base.NumStripes + 1]uint32

	lane           // of the caller's goroutine
	more   []*lane // of those that help it, see divide
	shares []keyShare

	few     bool           // the keys are in list, in their order: see take
	given   []keycodec.Key // for callers that have to make the keys they add
	repeats []bool         // see markRepeats, by number

	nowMs   int64 // see clock; 0 until it is asked
	state   *State
	stripes *[base.NumStripes]stripe.Stripe
	tx      *Overlay // its writes come first; nil for none
	snap    base.SeqNum
	node    snapNode // of snap, if that is not the present

	mu       sync.Mutex
	unasked  int   // the first stripe that next has not taken; guarded by mu
	failedAt int   // the first stripes that could not be read; guarded by mu
	err      error // guarded by mu until next has returned false in all lanes
}

// lane is what one goroutine needs to look keys up.
type lane struct {
	list  []base.Lookup // those under way
	most  int           // the longest that list was
	batch stripe.Batch
	seen  []uint32 // hash table of markRepeats

	expiry int64 // of the first of the present items to expire: see NewKeys
}

// reset forgets everything but memory. It must not keep the values alive that were found.
func (w *lane) reset() {
	clear(w.list[:w.most])
	w.list, w.most = w.list[:0], 0
	w.batch.Stats, w.batch.MemtableHits = stripe.BatchStats{}, 0
	w.batch.FiltersOnly, w.batch.KeysOnly, w.batch.Expected = false, false, false
	w.batch.NoValues = false
}

// slot is the place of a key.
type slot struct {
	at           int
	size, number uint32
}

var (
	lookupsPool = sync.Pool{New: func() any { return new(lookups) }}
	lanesPool   = sync.Pool{New: func() any { return new(lane) }}
)

const (
	// lookupsAtOnce is how many keys are looked up together, at least if there are so
	// many; at most a stripe's more.
	lookupsAtOnce = 2048
	// What is larger than these is not kept in the pool.
	maxPooledKeys     = 1 << 20
	maxPooledKeyBytes = 32 << 20
	maxPooledLookups  = 8 * lookupsAtOnce
)

func getLookups() *lookups { return lookupsPool.Get().(*lookups) }

// putLookups gives l back.
func putLookups(l *lookups) {
	if l.few { // nothing but list and keys has grown, and hardly
		l.reset()
		l.few, l.state, l.stripes, l.tx = false, nil, nil, nil
		lookupsPool.Put(l)
		return
	}
	large := cap(l.keys) > maxPooledKeyBytes || cap(l.list) > maxPooledLookups ||
		max(cap(l.ids), cap(l.slots)) > maxPooledKeys
	for _, w := range l.more {
		large = large || cap(w.list) > maxPooledLookups
		w.reset()
		lanesPool.Put(w)
	}
	clear(l.more)
	l.more = l.more[:0]
	for i := range l.shares {
		large = large || cap(l.shares[i].staged) > maxPooledKeyBytes
	}
	if large {
		return
	}
	l.reset()
	l.text, l.state, l.stripes, l.tx = nil, nil, nil, nil
	clear(l.given)
	l.given = l.given[:0]
	lookupsPool.Put(l)
}

// begin chooses the moment at which the keys are looked up for r.
func (l *lookups) begin(r *Reader) error {
	if err := r.enter(&l.node); err != nil {
		return err
	}
	r.state.counters.group(l)
	l.beginAt(r.state, l.node.seq)
	l.stripes = l.node.gen.stripes
	if r.at != nil {
		l.nowMs = r.at.nowMs
	}
	l.tx = r.tx
	return nil
}

// beginAt is begin at a moment that the caller keeps. At MaxSeqNum the stripes of the keys
// must be locked: only then is what is found there one state of the database.
func (l *lookups) beginAt(s *State, snap base.SeqNum) {
	l.state, l.snap, l.unasked, l.nowMs, l.err = s, snap, 0, 0, nil
	l.stripes = s.env.Stripes
}

// clock returns the time at which found is judged, the same for all groups; 0 before there is
// anything that may expire. Why: to look at the clock takes as long as a fifth of a lookup.
func (l *lookups) clock(found []base.Lookup) int64 {
	for i := 0; i < len(found) && l.nowMs == 0; i++ {
		if found[i].Kind == base.KindPutTTL {
			l.nowMs = l.state.env.NowMs()
		}
	}
	return l.nowMs
}

// end releases the moment that begin has chosen.
func (l *lookups) end() { l.state.snaps.release(&l.node) }

// next looks up the next group of keys, in w.list: the keys of one stripe or of several, in
// order of their numbers within a stripe. It reports false after the last group and after a
// failure, which is in err. Several lanes may call it at the same time.
func (l *lookups) next(ctx context.Context, w *lane) bool {
	lo, hi := l.group()
	if lo == base.NumStripes {
		return false
	}
	if ctx.Err() != nil {
		return l.fail(lo, context.Cause(ctx))
	}
	if err := l.ask(w, lo, hi, l.snap); err != nil {
		return l.fail(lo, err)
	}
	if l.tx != nil {
		for i := range w.list {
			l.tx.answer(l.ids[w.list[i].Index], &w.list[i])
		}
	}
	return true
}

// group takes the next stripes to look at, none after a failure.
func (l *lookups) group() (lo, hi int) {
	if len(l.more) > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	if lo = l.unasked; l.err != nil || l.few && lo > 0 {
		lo = base.NumStripes
	}
	hi = min(lo+1, base.NumStripes)
	for hi < base.NumStripes && !l.few && l.start[hi+1]-l.start[lo] <= lookupsAtOnce {
		hi++
	}
	l.unasked = hi
	return lo, hi
}

// fail notes an error. Of several the one about the first stripes counts: it is the same
// however the work was divided.
func (l *lookups) fail(lo int, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil || lo < l.failedAt {
		l.failedAt, l.err = lo, err
	}
	return false
}

// ask looks up the keys of the stripes [lo, hi) at snap; all keys if they are few.
func (l *lookups) ask(w *lane, lo, hi int, snap base.SeqNum) error {
	stripes, seed := l.stripes, l.state.env.Seed
	if l.few {
		return l.askFew(snap)
	}
	first := l.start[lo]
	n := int(l.start[hi] - first)
	w.list = slices.Grow(w.list[:0], n)[:n]
	w.most = max(w.most, n)
	for i, p := range l.slots[first:l.start[hi]] {
		end := p.at + int(p.size)
		key := l.text[p.at:end:end]
		w.list[i] = base.Lookup{Key: key, Hash: base.Hash(key, seed), Index: p.number}
	}
	for id := lo; id < hi; id++ {
		if from, to := l.start[id], l.start[id+1]; from < to {
			w.batch.Add(&stripes[id], int(from-first), int(to-first))
		}
	}
	return l.state.read(&w.batch, w.list, snap)
}

// read looks a group of keys up that was added to the batch.
func (s *State) read(b *stripe.Batch, list []base.Lookup, snap base.SeqNum) error {
	if err := b.Get(list, snap); err != nil {
		return s.Error(err)
	}
	return nil
}
