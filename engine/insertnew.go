package engine

import (
	"cmp"
	"context"
	"math"

	"github.com/kstonedb/kstone/internal/base"
)

// InsertNew stores those of items whose keys have no item yet and leaves the others
// alone, in one commit: no other write comes between looking and writing, a reader sees
// all that was inserted or nothing, and after a crash all of it is there or nothing. Of
// several items with equal keys the first counts. It returns inserted, grown if needed,
// which tells for each item whether it was stored, and how that was found out.
//
// The Expiry of an item is kept; those without one get that of the options. Version is ignored.
// If nothing is new nothing is committed. Of concurrent calls for one key exactly one
// inserts it. The keys of large calls are looked up by several goroutines, at most
// GOMAXPROCS and 8, which have ended when the call returns. All items together may be as
// large as a batch, MaxBatchBytes. After an error nothing was written, except as DB.Put
// says.
func (db *DB) InsertNew(
	ctx context.Context, items []Item, inserted []bool, opts ...WriteOption,
) ([]bool, DedupStats, error) {
	in := insertion{db: db, items: items, l: getLookups(), b: getBatch()}
	defer putLookups(in.l)
	defer putBatch(in.b)
	in.isNew = sized(inserted, len(items))
	t, err := in.prepare(opts)
	if err == nil {
		err = in.run(ctx, t)
	}
	if err != nil {
		clear(in.isNew)
		return in.isNew, DedupStats{}, err
	}
	in.l.eachLane(in.stats.add)
	return in.isNew, in.stats, nil
}

// insertion is a call of InsertNew. It looks the keys up before it takes locks, since that
// may read files, and again under the locks in the stripes that have changed meanwhile.
type insertion struct {
	db    *DB
	items []Item
	life  lifetime // of items without an expiry
	l     *lookups
	b     *Batch
	isNew []bool
	stats DedupStats

	seq base.SeqNum // at which the keys were looked up
}

// prepare checks the arguments and adds the keys.
func (in *insertion) prepare(opts []WriteOption) (terms, error) {
	w, err := in.db.writeTerms(opts)
	if err != nil {
		return w.terms, err
	}
	t := w.terms
	in.life = w.lifetime
	total := int64(0)
	for i := range in.items {
		it := &in.items[i]
		if err := checkItem(it.Key, it.Value); err != nil {
			return t, err
		}
		if it.Expiry < 0 {
			return t, invalid("expiry %d is negative", it.Expiry)
		}
		if total += int64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value)); total > MaxBatchBytes {
			return t, tooLarge("items", total, MaxBatchBytes)
		}
		in.l.given = append(in.l.given, it.Key)
	}
	in.stats.Keys = int64(len(in.items))
	in.l.divide(0, len(in.items))
	in.l.eachLane(func(w *lane) {
		w.batch.KeysOnly = len(in.items) >= keysOnlyFrom
		w.expiry = math.MaxInt64
	})
	in.l.repeats = sized(in.l.repeats, len(in.items))
	return t, in.l.set(in.l.given)
}

func (in *insertion) run(ctx context.Context, t terms) error {
	db := in.db
	if err := cmp.Or(usable(ctx), db.writable()); err != nil {
		return err
	}
	// Until the commit nothing may be dropped that was written after the snapshot: recheck
	// would not see that there was something, say a delete of an item that was found.
	if err := in.l.begin(ctx, &db.reader); err != nil {
		return err
	}
	defer in.l.end()
	in.seq = in.l.snap
	now := db.nowMs()
	in.l.inLanes(func(w *lane) {
		for in.l.next(ctx, w) {
			w.markRepeats(in.l.repeats, w.list)
			for i := range w.list {
				in.take(w, &w.list[i], now)
			}
		}
	})
	if in.l.err != nil {
		return in.l.err
	}
	if err := in.fill(); err != nil || in.b.Len() == 0 {
		return db.unchanged(t.durability, err)
	}
	g := &guard{check: in.recheck}
	for _, id := range in.l.ids {
		g.stripes.add(id)
	}
	return db.commit(ctx, in.b, t, g)
}

// take notes whether a key is new. It reports whether that is another answer than before.
// Several lanes may call it at the same time, for different keys.
func (in *insertion) take(w *lane, f *base.Lookup, nowMs int64) (changed bool) {
	live := f.Live(nowMs)
	if live && f.Kind == base.KindPutTTL {
		w.expiry = min(w.expiry, f.Expiry)
	}
	isNew := !live && !in.l.repeats[f.Index]
	changed = isNew != in.isNew[f.Index]
	in.isNew[f.Index] = isNew
	return changed
}

// fill makes the batch of the items that are new.
func (in *insertion) fill() error {
	in.b.Reset()
	in.stats.New, in.stats.Repeated = 0, 0
	for i := range in.items {
		in.stats.Repeated += count(in.l.repeats[i])
		if !in.isNew[i] {
			continue
		}
		it := &in.items[i]
		if err := in.b.room(len(it.Key.PK) + len(it.Key.SK) + len(it.Value)); err != nil {
			return err
		}
		life := in.life
		if it.Expiry > 0 {
			life = lifetime{expiry: it.Expiry}
		}
		in.b.put(it.Key, it.Value, life)
		in.stats.New++
	}
	return nil
}

// recheck looks again at what may have changed since the keys were looked up, and makes
// the batch again if an answer is another one now. Requires: the stripes of all keys are
// locked.
func (in *insertion) recheck() error {
	db := in.db
	now := db.nowMs()
	expired := false
	in.l.eachLane(func(w *lane) { expired = expired || now >= w.expiry })
	if db.log.LastSeq() == in.seq && !expired {
		return nil // nobody else has written
	}
	changed := false
	for id := range db.stripes {
		if in.l.start[id] == in.l.start[id+1] {
			continue
		}
		if db.stripes[id].NewestSeq() <= in.seq && !expired {
			continue
		}
		if err := in.l.ask(&in.l.lane, id, id+1, base.MaxSeqNum); err != nil {
			return err
		}
		for i := range in.l.list {
			changed = in.take(&in.l.lane, &in.l.list[i], now) || changed
		}
	}
	if !changed {
		return nil
	}
	if err := in.fill(); err != nil {
		return err
	}
	in.b.seal(now)
	return nil
}
