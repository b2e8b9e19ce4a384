package ethdb

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/kstonedb/kstone/engine"
)

// batch is an ethdb.Batch: one commit, all or nothing.
type batch struct {
	db    *engine.DB
	ops   *engine.Batch
	bytes int
}

// NewBatch implements ethdb.Batcher. A batch has at most engine.MaxBatchBytes.
func (s *Store) NewBatch() ethdb.Batch { return &batch{db: s.db, ops: engine.NewBatch()} }

// NewBatchWithSize implements ethdb.Batcher; batches grow by themselves.
func (s *Store) NewBatchWithSize(int) ethdb.Batch { return s.NewBatch() }

// Put implements ethdb.KeyValueWriter.
func (b *batch) Put(key, value []byte) error {
	b.bytes += len(key) + len(value)
	return b.ops.Put(keyOf(key), value)
}

// Delete implements ethdb.KeyValueWriter.
func (b *batch) Delete(key []byte) error {
	b.bytes += len(key)
	return b.ops.Delete(keyOf(key))
}

// DeleteRange implements ethdb.KeyValueRangeDeleter.
func (b *batch) DeleteRange(start, end []byte) error {
	b.bytes += len(start) + len(end)
	return b.ops.DeleteScan(keyOf(start), endOf(end))
}

// ValueSize implements ethdb.Batch.
func (b *batch) ValueSize() int { return b.bytes }

// Write implements ethdb.Batch.
func (b *batch) Write() error {
	return b.db.Apply(context.Background(), b.ops, engine.Process)
}

// Reset implements ethdb.Batch.
func (b *batch) Reset() {
	b.ops.Reset()
	b.bytes = 0
}

// Close implements ethdb.Batch.
func (b *batch) Close() { b.Reset() }

var errNoRanges = errors.New("ethdb: the target of a replay cannot delete ranges")

// Replay implements ethdb.Batch.
func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	for op := range b.ops.All() {
		var err error
		switch op.Kind {
		case engine.BatchPut:
			err = w.Put(op.Key.PK[1:], op.Value)
		case engine.BatchDelete:
			err = w.Delete(op.Key.PK[1:])
		case engine.BatchDeleteScan:
			ranges, ok := w.(ethdb.KeyValueRangeDeleter)
			if !ok {
				return errNoRanges
			}
			end := op.To.PK[1:]
			if op.To.PK[0] != Prefix { // after all keys
				end = nil
			}
			err = ranges.DeleteRange(op.Key.PK[1:], end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
