// Package datastore makes a kstone database a Datastore of github.com/ipfs/go-datastore, with
// batches, expiry, checks and garbage collection; it passes its test kit.
//
// A key is the PK of an item without SK, so that keys spread over all stripes. A query reads the
// keys below its prefix in their order, as they were when it began; filters and other orders are
// applied to what comes.
package datastore

import (
	"context"
	"errors"
	"time"

	ds "github.com/ipfs/go-datastore"

	"github.com/kstonedb/kstone/engine"
)

// Datastore is a database as a datastore. Its methods may be called concurrently. A key that is not
// there is ds.ErrNotFound, a call after Close engine.ErrClosed.
type Datastore struct{ db *engine.DB }

var (
	_ ds.Batching            = (*Datastore)(nil)
	_ ds.TTLDatastore        = (*Datastore)(nil)
	_ ds.CheckedDatastore    = (*Datastore)(nil)
	_ ds.GCDatastore         = (*Datastore)(nil)
	_ ds.PersistentDatastore = (*Datastore)(nil)
)

// New returns db as a Datastore, which owns it from now on: Close closes it. Writes survive the end
// of the process at once, and a power cut after Sync or what is synced later.
func New(db *engine.DB) *Datastore { return &Datastore{db} }

func keyOf(key ds.Key) engine.Key { return engine.Key{PK: key.Bytes()} }

// found returns the error of a lookup as datastores have it.
func found(err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return ds.ErrNotFound
	}
	return err
}

// Get implements ds.Read.
func (d *Datastore) Get(_ context.Context, key ds.Key) ([]byte, error) {
	value, err := d.db.Get(keyOf(key))
	return value, found(err)
}

// Has implements ds.Read.
func (d *Datastore) Has(_ context.Context, key ds.Key) (bool, error) {
	return d.db.Has(keyOf(key))
}

// GetSize implements ds.Read.
func (d *Datastore) GetSize(_ context.Context, key ds.Key) (int, error) {
	n, err := d.db.ValueSize(keyOf(key))
	if err != nil {
		return -1, found(err)
	}
	return n, nil
}

// Put implements ds.Write.
func (d *Datastore) Put(_ context.Context, key ds.Key, value []byte) error {
	return d.db.Put(keyOf(key), value, engine.Process)
}

// Delete implements ds.Write.
func (d *Datastore) Delete(_ context.Context, key ds.Key) error {
	return d.db.Delete(keyOf(key), engine.Process)
}

// Sync implements ds.Datastore, for all keys.
func (d *Datastore) Sync(ctx context.Context, _ ds.Key) error { return d.db.Sync(ctx) }

// Close closes the database.
func (d *Datastore) Close() error { return d.db.Close() }

// Check implements ds.CheckedFeature: it reads everything.
func (d *Datastore) Check(ctx context.Context) error {
	_, err := d.db.Verify(ctx, nil)
	return err
}

// CollectGarbage implements ds.GCFeature: nothing stays of what was deleted, replaced or expired.
func (d *Datastore) CollectGarbage(ctx context.Context) error { return d.db.Compact(ctx) }

// PutWithTTL implements ds.TTL.
func (d *Datastore) PutWithTTL(_ context.Context, key ds.Key, value []byte, ttl time.Duration,
) error {
	return d.db.Put(keyOf(key), value, engine.Process, engine.TTL(ttl))
}

// SetTTL implements ds.TTL.
func (d *Datastore) SetTTL(ctx context.Context, key ds.Key, ttl time.Duration) error {
	return found(d.db.UpdateRetry(ctx, func(tx *engine.Tx) error {
		value, err := tx.Get(keyOf(key))
		if err != nil {
			return err
		}
		return tx.Put(keyOf(key), value, engine.TTL(ttl))
	}, engine.Process))
}

// GetExpiration implements ds.TTL: the zero time for a key that does not expire.
func (d *Datastore) GetExpiration(_ context.Context, key ds.Key) (time.Time, error) {
	item, err := d.db.GetItem(keyOf(key))
	if err != nil {
		return time.Time{}, found(err)
	}
	at, _ := item.ExpiresAt()
	return at, nil
}

// batch is a ds.Batch: one commit, all or nothing.
type batch struct {
	db  *engine.DB
	ops *engine.Batch
}

// Batch implements ds.BatchingFeature. A batch has at most engine.MaxBatchBytes.
func (d *Datastore) Batch(context.Context) (ds.Batch, error) {
	return &batch{d.db, engine.NewBatch()}, nil
}

// Put implements ds.Write.
func (b *batch) Put(_ context.Context, key ds.Key, value []byte) error {
	return b.ops.Put(keyOf(key), value)
}

// Delete implements ds.Write.
func (b *batch) Delete(_ context.Context, key ds.Key) error { return b.ops.Delete(keyOf(key)) }

// Commit implements ds.Batch.
func (b *batch) Commit(ctx context.Context) error {
	return b.db.Apply(ctx, b.ops, engine.Process)
}
