package engine

import (
	"cmp"
	"context"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/engine/internal/read"
)

// InsertNew stores those of items whose keys have no item yet and leaves the others
// alone, in one commit: no other write comes between looking and writing, a reader sees
// all that was inserted or nothing, and after a crash all of it is there or nothing. Of
// several items with equal keys the first counts. It returns inserted, grown if needed,
// which reports for each item whether it was stored, and how that was found out.
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
	in := insertion{items: items, nowMs: db.nowMs, search: read.BeginNewKeys(), b: getBatch()}
	defer in.search.Close()
	defer putBatch(in.b)
	in.isNew = sized(inserted, len(items))
	w := db.defaults()
	err := w.take(opts)
	if err == nil {
		in.life = w.lifetime
		err = in.prepare()
	}
	if err == nil {
		err = cmp.Or(usable(ctx), db.committable())
	}
	if err == nil {
		err = db.insertNew(ctx, &in, w.terms)
	}
	if err != nil {
		clear(in.isNew)
		return in.isNew, DedupStats{}, err
	}
	return in.isNew, DedupStats(in.search.Stats()), nil
}

// insertNew looks the keys up and commits those that are new.
func (db *DB) insertNew(ctx context.Context, in *insertion, t commit.Terms) error {
	// The search keeps its moment until the commit. Why: nothing may be dropped that was written
	// after it, else the check under the locks would not see that there was something, say a
	// delete of an item that was found.
	err := in.search.Find(ctx, &db.from, nil, in.isNew, read.NewKeysOptions{})
	if err == nil {
		err = in.fill()
	}
	if err != nil {
		return err
	}
	if in.b.Len() == 0 {
		return db.commits.Unchanged(t)
	}
	return db.commit(ctx, in.b, t, &commit.Guard{
		Stripes: in.search.Stripes(), Check: in.recheck,
	})
}

// insertion is a call of InsertNew. It looks the keys up before it takes locks, since that
// may read files, and again under the locks in the stripes that have changed meanwhile.
type insertion struct {
	items  []Item
	life   commit.Lifetime // of items without an expiry
	nowMs  func() int64
	search *read.NewKeys
	b      *Batch
	isNew  []bool
}

// prepare checks the items and adds their keys.
func (in *insertion) prepare() error {
	total := int64(0)
	for i := range in.items {
		it := &in.items[i]
		if err := checkItem(it.Key, it.Value); err != nil {
			return err
		}
		if it.Expiry < 0 {
			return invalid("expiry %d is negative", it.Expiry)
		}
		if total += int64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value)); total > MaxBatchBytes {
			return tooLarge("items", total, MaxBatchBytes)
		}
		in.search.Add(it.Key)
	}
	return nil
}

// fill makes the batch of the items that are new.
func (in *insertion) fill() error {
	in.b.Reset()
	for i := range in.items {
		if !in.isNew[i] {
			continue
		}
		it := &in.items[i]
		if err := in.b.room(len(it.Key.PK) + len(it.Key.SK) + len(it.Value)); err != nil {
			return err
		}
		life := in.life
		if it.Expiry > 0 {
			life = commit.Lifetime{Expiry: it.Expiry}
		}
		in.b.core.Put(it.Key, it.Value, life)
	}
	return nil
}

// recheck looks again at what may have changed since the keys were looked up, and makes
// the batch again if an answer is another one now. Requires: the stripes of all keys are
// locked.
func (in *insertion) recheck() error {
	now := in.nowMs()
	changed, err := in.search.Recheck(now)
	if err != nil || !changed {
		return err
	}
	if err := in.fill(); err != nil {
		return err
	}
	in.b.core.Seal(now)
	return nil
}
