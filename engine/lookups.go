package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// lookups is a group of keys on its way through the stripes: those that Get would look
// up one by one. It is reused; a lookup in it does not allocate when it has grown to its
// size and what it reads is cached.
//
// The keys are taken by stripe, some thousands at a time: few enough that what is known
// about them stays in the processor's cache, and so many that each piece of a file that is
// touched serves several of them.
type lookups struct {
	ids   []uint8  // stripes of the keys, by number
	sizes []uint32 // lengths of their ordered forms, by number
	keys  []byte   // ordered forms, back to back, by stripe
	slots []slot   // where they are, by stripe, with ascending numbers in each
	start [base.NumStripes + 1]uint32

	lane           // of the caller's goroutine
	more   []*lane // of those that help it, see divide
	shares []keyShare
	node   snapNode

	few     bool   // the keys are in list, in their order: see take
	given   []Key  // for callers who have to make the keys they add
	repeats []bool // see markRepeats, by number
}

// lane is what one goroutine needs to look keys up.
type lane struct {
	list  []base.Lookup // those under way
	most  int           // the longest that list was
	batch stripe.Batch
	seen  []uint32 // hash table of markRepeats

	isNew, repeated int64 // counted by filterNew
	expiry          int64 // of the first of the present items to expire: see InsertNew
}

// reset forgets everything but memory. It must not keep the values alive that were found.
func (w *lane) reset() {
	clear(w.list[:w.most])
	w.list, w.most, w.isNew, w.repeated = w.list[:0], 0, 0, 0
	w.batch.Stats, w.batch.MemtableHits = stripe.BatchStats{}, 0
	w.batch.FiltersOnly, w.batch.KeysOnly, w.batch.Expected = false, false, false
}

// slot is the place of a key: from the end of the one before.
type slot struct {
	end    int
	number uint32
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
	large := cap(l.keys) > maxPooledKeyBytes || cap(l.ids) > maxPooledKeys ||
		cap(l.list) > maxPooledLookups
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
	l.few = false
	clear(l.given)
	l.given = l.given[:0]
	lookupsPool.Put(l)
}

// run looks all keys up at snap, and calls each for groups of them that are done: the
// keys of one stripe or of several, in order of their numbers within a stripe.
//
// At MaxSeqNum the stripes of the keys must be locked: only then is what is found there
// one state of the database.
func (l *lookups) run(
	ctx context.Context, db *DB, snap base.SeqNum, each func(ls []base.Lookup),
) error {
	if l.few {
		return l.runFew(ctx, db, snap, each)
	}
	for lo := 0; lo < base.NumStripes; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		hi := l.groupEnd(lo)
		if err := l.runStripes(db, lo, hi, snap); err != nil {
			return db.readError(err)
		}
		each(l.list)
		lo = hi
	}
	return nil
}

// groupEnd returns the end of the stripes that are looked up together, from lo on.
func (l *lookups) groupEnd(lo int) int {
	hi := lo + 1
	for hi < base.NumStripes && l.start[hi+1]-l.start[lo] <= lookupsAtOnce {
		hi++
	}
	return hi
}

// runStripes looks up the keys of the stripes [lo, hi).
func (l *lookups) runStripes(db *DB, lo, hi int, snap base.SeqNum) error {
	return l.ask(l, db, lo, hi, snap)
}

// ask is runStripes in any lane.
func (w *lane) ask(l *lookups, db *DB, lo, hi int, snap base.SeqNum) error {
	first, seed := l.start[lo], db.env.Seed
	n := int(l.start[hi] - first)
	w.list = slices.Grow(w.list[:0], n)[:n]
	w.most = max(w.most, n)
	at := 0
	if first > 0 {
		at = l.slots[first-1].end
	}
	for i, p := range l.slots[first:l.start[hi]] {
		key := l.keys[at:p.end:p.end]
		at = p.end
		w.list[i] = base.Lookup{Key: key, Hash: base.Hash(key, seed), Index: p.number}
	}
	for id := lo; id < hi; id++ {
		if from, to := l.start[id], l.start[id+1]; from < to {
			w.batch.Add(&db.stripes[id], int(from-first), int(to-first))
		}
	}
	return w.batch.Get(w.list, snap)
}

// read looks all keys up for r.
func (l *lookups) read(ctx context.Context, r *reader, each func(ls []base.Lookup)) error {
	if err := l.begin(ctx, r); err != nil {
		return err
	}
	defer r.db.snaps.release(&l.node)
	return l.run(ctx, r.db, l.node.seq, func(ls []base.Lookup) {
		if r.tx != nil {
			for i := range ls {
				r.tx.answer(l.ids[ls[i].Index], &ls[i])
			}
		}
		each(ls)
	})
}

// begin takes the snapshot at which read reads; the caller releases it.
func (l *lookups) begin(ctx context.Context, r *reader) error {
	if ctx == nil { // whether it has ended is looked at for each group of keys
		return errNoContext
	}
	if err := r.enter(&l.node); err != nil {
		return err
	}
	r.db.metrics.gets.Add(uint64(len(l.ids)))
	return nil
}
