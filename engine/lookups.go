package engine

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
// The keys are taken by stripe, some thousands at a time: few enough that what is known
// about them stays in the processor's cache, and so many that each piece of a file that is
// touched serves several of them.
type lookups struct {
	keys  []byte // ordered forms, back to back in the order they were added
	added []addedKey
	order []uint32 // numbers of the keys, by stripe, ascending within one
	start [base.NumStripes + 1]uint32
	list  []base.Lookup // those under way
	most  int           // the longest that list was
	batch stripe.Batch
	node  snapNode
	seen  []uint32 // hash table of markRepeats
}

// addedKey is a key that was added.
type addedKey struct {
	end    int // of its ordered form in keys
	stripe uint8
	repeat bool // an equal key was added before; set by markRepeats
}

var lookupsPool = sync.Pool{New: func() any { return new(lookups) }}

const (
	// lookupsAtOnce is how many keys are looked up together, at least if there are so
	// many; at most a stripe's more.
	lookupsAtOnce = 2048
	// maxPooledLookups keeps giant groups out of the pool.
	maxPooledLookups = 64 << 10
)

func getLookups() *lookups { return lookupsPool.Get().(*lookups) }

// putLookups gives l back. It must not keep the values alive that were found.
func putLookups(l *lookups) {
	if cap(l.keys) > maxPooledBytes || cap(l.added) > maxPooledLookups ||
		cap(l.list) > maxPooledLookups {
		return
	}
	clear(l.list[:l.most])
	l.keys, l.added, l.list, l.most = l.keys[:0], l.added[:0], l.list[:0], 0
	l.batch.Stats, l.batch.MemtableHits, l.batch.FiltersOnly = stripe.BatchStats{}, 0, false
	lookupsPool.Put(l)
}

// add adds a key; its number is the count of those before.
func (l *lookups) add(key Key) error {
	if err := key.Validate(); err != nil {
		return keyError(err, key)
	}
	l.keys = keycodec.AppendOrdered(l.keys, key)
	l.added = append(l.added, addedKey{end: len(l.keys), stripe: keycodec.Stripe(key.PK)})
	return nil
}

// addAll adds keys to an empty group.
func (l *lookups) addAll(keys []Key) error {
	for i := range keys {
		if err := l.add(keys[i]); err != nil {
			return err
		}
	}
	return nil
}

// addOrdered adds a key in ordered form.
func (l *lookups) addOrdered(id uint8, key []byte) {
	l.keys = append(l.keys, key...)
	l.added = append(l.added, addedKey{end: len(l.keys), stripe: id})
}

// key returns the ordered form of a key.
func (l *lookups) key(i uint32) []byte {
	from := 0
	if i > 0 {
		from = l.added[i-1].end
	}
	end := l.added[i].end
	return l.keys[from:end:end]
}

// group puts the keys in order of their stripes.
func (l *lookups) group() {
	l.start = [base.NumStripes + 1]uint32{}
	for i := range l.added {
		l.start[l.added[i].stripe]++
	}
	sum := uint32(0)
	for i := range l.start {
		n := l.start[i]
		l.start[i] = sum
		sum += n
	}
	l.order = slices.Grow(l.order[:0], len(l.added))[:len(l.added)]
	for i := range l.added {
		at := &l.start[l.added[i].stripe]
		l.order[*at] = uint32(i)
		*at++
	}
	copy(l.start[1:], l.start[:]) // each had moved to its end
	l.start[0] = 0
}

// run looks all keys up at snap, and calls each for groups of them that are done: the
// keys of one stripe or of several, in order of their numbers within a stripe.
//
// At MaxSeqNum the stripes of the keys must be locked: only then is what is found there
// one state of the database.
func (l *lookups) run(
	ctx context.Context, db *DB, snap base.SeqNum, each func(ls []base.Lookup),
) error {
	l.group()
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
	for i, number := range l.order[first:l.start[hi]] {
		key := l.key(number)
		l.list[i] = base.Lookup{Key: key, Hash: base.Hash(key, seed), Index: number}
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
	db.metrics.gets.Add(uint64(len(l.added)))
	if node != nil {
		return l.run(ctx, db, node.seq, each)
	}
	snap := db.takeSnapshot(&l.node)
	defer db.snaps.release(&l.node)
	return l.run(ctx, db, snap, each)
}
