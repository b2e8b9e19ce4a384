package engine

import (
	"context"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// fewKeys is how many keys are looked up in the order in which they are given. Why: to
// order them by stripe takes walks over all stripes, which only many keys make up for.
const fewKeys = 32

// take is set, or for a few keys what has the same effect on read and run.
func (l *lookups) take(keys []Key) error {
	if l.few = len(keys) <= fewKeys; !l.few {
		return l.set(keys)
	}
	n := len(keys)
	l.ids = slices.Grow(l.ids[:0], n)[:n]
	l.list = slices.Grow(l.list[:0], n)[:n]
	l.most = max(l.most, n)
	l.keys = l.keys[:0]
	for i := range keys {
		if err := keys[i].Validate(); err != nil {
			return keyError("", err)
		}
		l.ids[i] = keycodec.Stripe(keys[i].PK)
		from := len(l.keys)
		l.keys = keycodec.AppendOrdered(l.keys, keys[i])
		// If it has moved, those before it still lie where they were.
		l.list[i] = base.Lookup{Key: l.keys[from:len(l.keys):len(l.keys)], Index: uint32(i)}
	}
	return nil
}

// runFew is run of what take has put in the order of the keys: each is a group of its own.
func (l *lookups) runFew(
	ctx context.Context, db *DB, snap base.SeqNum, each func(ls []base.Lookup),
) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	for i := range l.list {
		l.list[i].Hash = base.Hash(l.list[i].Key, db.env.Seed)
		l.batch.Add(&db.stripes[l.ids[i]], i, i+1)
	}
	if err := l.batch.Get(l.list, snap); err != nil {
		return db.readError(err)
	}
	each(l.list)
	return nil
}
