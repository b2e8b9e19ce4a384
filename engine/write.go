package engine

import (
	"cmp"
	"context"

	"github.com/kstonedb/kstone/engine/internal/commit"
)

// Put stores value under key, replacing what is there. Value may be empty; at most
// MaxValueBytes. If the error matches ErrReadOnly after a failed sync, whether the
// write survives is unknown; after any other error nothing was written.
func (db *DB) Put(key Key, value []byte, opts ...WriteOption) error {
	return db.putIf(key, value, nil, opts)
}

// PutIf stores value under key if the present item satisfies cond, atomically;
// otherwise the error is a *ConditionError and nothing is written. Of concurrent calls
// for one key with IfAbsent exactly one succeeds.
func (db *DB) PutIf(key Key, value []byte, cond Condition, opts ...WriteOption) error {
	return db.putIf(key, value, &cond, opts)
}

// Delete removes key's item, if there is one.
func (db *DB) Delete(key Key, opts ...CommitOption) error {
	return db.deleteIf(key, nil, opts)
}

// DeleteIf removes key's item if it satisfies cond, atomically; otherwise the error
// is a *ConditionError and nothing is written.
func (db *DB) DeleteIf(key Key, cond Condition, opts ...CommitOption) error {
	return db.deleteIf(key, &cond, opts)
}

// putIf commits a batch of one put, if cond holds or is nil.
func (db *DB) putIf(key Key, value []byte, cond *Condition, opts []WriteOption) error {
	if err := checkItem(key, value); err != nil {
		return err
	}
	w := db.defaults()
	if err := w.take(opts); err != nil {
		return err
	}
	b := getBatch()
	b.core.Put(key, value, w.lifetime)
	if cond != nil {
		b.requireOfLast(cond)
	}
	err := db.commit(context.Background(), b, w.terms, nil)
	putBatch(b)
	return err
}

// deleteIf commits a batch of one delete, if cond holds or is nil.
func (db *DB) deleteIf(key Key, cond *Condition, opts []CommitOption) error {
	if err := checkItem(key, nil); err != nil {
		return err
	}
	t, err := db.terms(opts)
	if err != nil {
		return err
	}
	b := getBatch()
	b.core.Delete(key)
	if cond != nil {
		b.requireOfLast(cond)
	}
	err = db.commit(context.Background(), b, t, nil)
	putBatch(b)
	return err
}

// DeleteRange removes all items of partition pk whose sort key satisfies sk; the
// zero SKCondition removes the whole partition. The cost does not depend on the
// number of items; their space returns in the background.
func (db *DB) DeleteRange(pk []byte, sk SKCondition, opts ...CommitOption) error {
	b := getBatch()
	defer putBatch(b)
	if err := b.DeleteRange(pk, sk); err != nil {
		return err
	}
	t, err := db.terms(opts)
	if err != nil {
		return err
	}
	return db.commit(context.Background(), b, t, nil)
}

// Apply commits the batch. An empty batch is not a commit, and one that only has conditions
// checks them; see [Sync] for what they make durable. If a condition fails, nothing is
// written and the error is a *ConditionError. If ctx ends before the batch is in the
// log, the error matches its cause and nothing is written.
func (db *DB) Apply(ctx context.Context, b *Batch, opts ...CommitOption) error {
	if b == nil {
		return invalid("no batch")
	}
	if err := usable(ctx); err != nil {
		return err
	}
	t, err := db.terms(opts)
	if err != nil {
		return err
	}
	return db.commit(ctx, b, t, nil)
}

// DeleteScan removes all items from key from on and before key to, in all partitions, as one
// commit. A zero Key is no bound; a key without SK stands before all others of its partition.
// The cost does not depend on the number of items, but all stripes are locked while their
// first and last items there are looked up, which may read files.
func (db *DB) DeleteScan(from, to Key, opts ...CommitOption) error {
	t, err := db.terms(opts)
	if err != nil {
		return err
	}
	b := getBatch()
	defer putBatch(b)
	if err := b.DeleteScan(from, to); err != nil {
		return err
	}
	return db.commit(context.Background(), b, t, nil)
}

// commit commits what a caller writes.
func (db *DB) commit(ctx context.Context, b *Batch, t commit.Terms, g *commit.Guard) error {
	if err := db.committable(); err != nil {
		return err
	}
	err := db.commits.Commit(ctx, &b.core, t, g)
	if unmet, ok := err.(*commit.UnmetError); ok {
		return conditionError(keyOf(unmet.Key), unmet.Op, unmet.Exists, unmet.Seq)
	}
	return err
}

// Sync returns when every commit acknowledged before the call is durable as if it
// had been written with Durability Sync. If ctx ends first, its error is returned
// and the sync goes on.
func (db *DB) Sync(ctx context.Context) error {
	if err := cmp.Or(usable(ctx), db.writable()); err != nil {
		return err
	}
	return db.commits.Sync(ctx)
}
