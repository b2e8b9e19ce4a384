package local

import (
	"cmp"
	"context"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/store"
)

// Tx is a transaction of the engine as a store.Tx.
type Tx struct {
	reader
	tx *engine.Tx
}

var _ interface {
	store.Tx
	store.Counter
	store.BlockReader
	store.ItemReader
	store.ExpiredReader
	store.ResultsReader
} = (*Tx)(nil)

// NewTx returns a transaction as a store: reads see it, and Commit adds to it.
func NewTx(tx *engine.Tx) *Tx { return &Tx{reader{tx}, tx} }

// Engine returns the transaction itself.
func (s *Tx) Engine() *engine.Tx { return s.tx }

// End implements store.Tx.
func (s *Tx) End(ctx context.Context) error { return s.tx.Commit(ctx) }

// Rollback implements store.Tx.
func (s *Tx) Rollback() { s.tx.Rollback() }

// Expired implements store.Tx.
func (s *Tx) Expired() bool { return s.tx.Expired() }

// Savepoint implements store.Tx.
func (s *Tx) Savepoint() store.Savepoint { return s.tx.Savepoint() }

// RollbackTo implements store.Tx.
func (s *Tx) RollbackTo(to store.Savepoint) error { return s.tx.RollbackTo(to) }

// Release implements store.Tx.
func (s *Tx) Release(from store.Savepoint) error { return s.tx.Release(from) }

// Commit implements store.Writer: it checks the conditions at once, by reading, so that they
// count among what the transaction has read, and adds the writes to those of the
// transaction. Nothing is stored before the transaction itself is committed.
func (s *Tx) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := cmp.Or(store.CheckContext(ctx), w.Validate(localLimits)); err != nil {
		return err
	}
	if err := s.check(ctx, w); err != nil {
		return err
	}
	for i := range w.Ops {
		op := &w.Ops[i]
		var err error
		switch op.Kind {
		case store.OpPut:
			err = s.tx.Put(op.Key, op.Value, engine.Expiry(op.Expiry))
		case store.OpDelete:
			err = s.tx.Delete(op.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check checks all conditions of the write set.
func (s *Tx) check(ctx context.Context, w *store.WriteSet) error {
	var keys []store.Key
	var ops []int
	for i := range w.Ops {
		if w.Ops[i].Cond.Kind != store.CondNone {
			keys, ops = append(keys, w.Ops[i].Key), append(ops, i)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	var found engine.Results
	if err := s.tx.MultiGet(ctx, keys, &found); err != nil {
		return err
	}
	for j, i := range ops {
		it, ok := found.Item(j)
		if !w.Ops[i].Cond.Holds(it, ok) {
			key := store.Item{Key: keys[j]}.Clone().Key
			return &store.ConditionError{Key: key, Op: i, Exists: ok, Version: it.Version}
		}
	}
	return nil
}
