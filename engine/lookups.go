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
type lookups struct {
	keys  []byte // ordered forms, back to back in the order they were added
	added []addedKey
	list  []base.Lookup // grouped by stripe
	start [base.NumStripes + 1]uint32
	batch stripe.Batch
	node  snapNode
}

// addedKey is a key that was added.
type addedKey struct {
	end    int // of its ordered form in keys
	stripe uint8
}

var lookupsPool = sync.Pool{New: func() any { return new(lookups) }}

// maxPooledLookups keeps giant groups out of the pool.
const maxPooledLookups = 64 << 10

func getLookups() *lookups { return lookupsPool.Get().(*lookups) }

// putLookups gives l back. It must not keep the values alive that were found.
func putLookups(l *lookups) {
	if cap(l.keys) <= maxPooledBytes && cap(l.list) <= maxPooledLookups {
		l.reset()
		lookupsPool.Put(l)
	}
}

func (l *lookups) reset() {
	clear(l.list)
	l.keys, l.added, l.list = l.keys[:0], l.added[:0], l.list[:0]
	l.batch.Stats, l.batch.MemtableHits, l.batch.FiltersOnly = stripe.BatchStats{}, 0, false
}

// add adds a key; its number is the count of those before.
func (l *lookups) add(key Key) error {
	if err := key.Validate(); err != nil {
		return keyError(err, key)
	}
	l.keys = keycodec.AppendOrdered(l.keys, key)
	l.added = append(l.added, addedKey{len(l.keys), keycodec.Stripe(key.PK)})
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
	l.added = append(l.added, addedKey{len(l.keys), id})
}

// key returns the ordered form of a key.
func (l *lookups) key(i int) []byte {
	from := 0
	if i > 0 {
		from = l.added[i-1].end
	}
	end := l.added[i].end
	return l.keys[from:end:end]
}

// group makes list of the keys that were added: by stripe, and in the order they were
// added within one.
func (l *lookups) group(seed uint64) {
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
	n := len(l.added)
	l.list = slices.Grow(l.list[:0], n)[:n]
	from := 0
	for i := range l.added {
		a := &l.added[i]
		key := l.keys[from:a.end:a.end]
		from = a.end
		at := l.start[a.stripe]
		l.start[a.stripe]++
		l.list[at] = base.Lookup{Key: key, Hash: base.Hash(key, seed), Index: uint32(i)}
	}
	copy(l.start[1:], l.start[:]) // each had moved to its end
	l.start[0] = 0
}

// of returns the keys of a stripe.
func (l *lookups) of(id int) []base.Lookup { return l.list[l.start[id]:l.start[id+1]] }

// run looks all keys up at snap. Requires: group.
//
// At MaxSeqNum the stripes of the keys must be locked: only then is what is found there
// one state of the database.
func (l *lookups) run(ctx context.Context, db *DB, snap base.SeqNum) error {
	for id := range db.stripes {
		ls := l.of(id)
		if len(ls) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := db.stripes[id].GetBatch(&l.batch, ls, snap); err != nil {
			return db.readError(err)
		}
	}
	return nil
}

// read looks all keys up at snap, for a reader.
func (l *lookups) read(ctx context.Context, db *DB, snap base.SeqNum) error {
	db.metrics.gets.Add(uint64(len(l.added)))
	l.group(db.env.Seed)
	return l.run(ctx, db, snap)
}

// readNow looks all keys up at one moment, the present, and returns its number.
func (l *lookups) readNow(ctx context.Context, db *DB) (base.SeqNum, error) {
	if db.closed.Load() {
		return 0, ErrClosed
	}
	snap := db.takeSnapshot(&l.node)
	defer db.snaps.release(&l.node)
	return snap, l.read(ctx, db, snap)
}
