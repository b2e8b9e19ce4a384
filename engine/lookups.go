package engine

import (
	"bytes"
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
// The keys are taken by stripe, some thousands at a time: few enough that what is known
// about them stays in the processor's cache, and so many that each piece of a file that is
// touched serves several of them.
type lookups struct {
	ids   []uint8 // stripes of the keys, by number
	keys  []byte  // ordered forms, back to back, by stripe
	slots []slot  // where they are, by stripe, with ascending numbers in each
	start [base.NumStripes + 1]uint32

	list  []base.Lookup // those under way
	most  int           // the longest that list was
	batch stripe.Batch
	node  snapNode

	given   []Key    // for callers who have to make the keys they add
	repeats []bool   // see markRepeats, by number
	seen    []uint32 // hash table of markRepeats
}

// slot is the place of a key: from the end of the one before.
type slot struct {
	end    int
	number uint32
}

var lookupsPool = sync.Pool{New: func() any { return new(lookups) }}

const (
	// lookupsAtOnce is how many keys are looked up together, at least if there are so
	// many; at most a stripe's more.
	lookupsAtOnce = 2048
	// What is larger than these is not kept in the pool.
	maxPooledKeys     = 256 << 10
	maxPooledKeyBytes = 8 << 20
	maxPooledLookups  = 8 * lookupsAtOnce
)

func getLookups() *lookups { return lookupsPool.Get().(*lookups) }

// putLookups gives l back. It must not keep the values alive that were found.
func putLookups(l *lookups) {
	if cap(l.keys) > maxPooledKeyBytes || cap(l.ids) > maxPooledKeys ||
		cap(l.list) > maxPooledLookups {
		return
	}
	clear(l.list[:l.most])
	clear(l.given)
	l.list, l.most, l.given = l.list[:0], 0, l.given[:0]
	l.batch.Stats, l.batch.MemtableHits, l.batch.FiltersOnly = stripe.BatchStats{}, 0, false
	lookupsPool.Put(l)
}

// set takes keys; their numbers are their indexes. It copies them to where those of their
// stripe are: from then on all memory is read in order.
func (l *lookups) set(keys []Key) error {
	l.ids = slices.Grow(l.ids[:0], len(keys))[:len(keys)]
	l.slots = slices.Grow(l.slots[:0], len(keys))[:len(keys)]
	l.start = [base.NumStripes + 1]uint32{}
	var at [base.NumStripes]int // where the next key of a stripe goes
	for i := range keys {
		if err := keys[i].Validate(); err != nil {
			return keyError(err, keys[i])
		}
		id := keycodec.Stripe(keys[i].PK)
		l.ids[i] = id
		l.start[int(id)+1]++
		at[id] += orderedLen(keys[i])
	}
	total := 0
	var next [base.NumStripes]uint32
	for id := range next {
		total, at[id] = total+at[id], total
		l.start[id+1] += l.start[id]
		next[id] = l.start[id]
	}
	l.keys = slices.Grow(l.keys[:0], total)[:total]
	for i := range keys {
		id := l.ids[i]
		at[id] += len(keycodec.AppendOrdered(l.keys[at[id]:at[id]], keys[i]))
		l.slots[next[id]] = slot{at[id], uint32(i)}
		next[id]++
	}
	return nil
}

// orderedLen returns the length of the ordered form of a key.
func orderedLen(k Key) int {
	return len(k.PK) + bytes.Count(k.PK, zeroByte) + 2 + len(k.SK)
}

var zeroByte = []byte{0}

// run looks all keys up at snap, and calls each for groups of them that are done: the
// keys of one stripe or of several, in order of their numbers within a stripe.
//
// At MaxSeqNum the stripes of the keys must be locked: only then is what is found there
// one state of the database.
func (l *lookups) run(
	ctx context.Context, db *DB, snap base.SeqNum, each func(ls []base.Lookup),
) error {
	for lo := 0; lo < base.NumStripes; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		hi := lo + 1
		for hi < base.NumStripes && l.start[hi+1]-l.start[lo] <= lookupsAtOnce {
			hi++
		}
		if err := l.runStripes(db, lo, hi, snap); err != nil {
			return db.readError(err)
		}
		each(l.list)
		lo = hi
	}
	return nil
}

// runStripes looks up the keys of the stripes [lo, hi).
func (l *lookups) runStripes(db *DB, lo, hi int, snap base.SeqNum) error {
	first, seed := l.start[lo], db.env.Seed
	n := int(l.start[hi] - first)
	l.list = slices.Grow(l.list[:0], n)[:n]
	l.most = max(l.most, n)
	at := 0
	if first > 0 {
		at = l.slots[first-1].end
	}
	for i, p := range l.slots[first:l.start[hi]] {
		key := l.keys[at:p.end:p.end]
		at = p.end
		l.list[i] = base.Lookup{Key: key, Hash: base.Hash(key, seed), Index: p.number}
	}
	for id := lo; id < hi; id++ {
		if from, to := l.start[id], l.start[id+1]; from < to {
			l.batch.Add(&db.stripes[id], int(from-first), int(to-first))
		}
	}
	return l.batch.Get(l.list, snap)
}

// read looks all keys up at the number of node, or at the present if it is nil.
func (l *lookups) read(
	ctx context.Context, db *DB, node *snapNode, each func(ls []base.Lookup),
) error {
	if db.closed.Load() {
		return ErrClosed
	}
	db.metrics.gets.Add(uint64(len(l.ids)))
	if node != nil {
		db.snaps.registerAt(&l.node, node.seq) // its snapshot may be closed meanwhile
	} else {
		db.takeSnapshot(&l.node)
	}
	defer db.snaps.release(&l.node)
	return l.run(ctx, db, l.node.seq, each)
}
