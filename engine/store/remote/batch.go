package remote

import (
	"time"

	"github.com/kstonedb/kstone/engine/store"
)

// Batch is a write set by encoded keys.
type Batch struct {
	Conds  []Cond
	Writes []Write // each key once, in the order of their first writes
}

// Cond is a condition of operation Op of the write set.
type Cond struct {
	store.Condition
	Op  int
	Key []byte
}

// Write stores an encoded value under a key, or removes the key if Value is nil.
type Write struct {
	Key, Value []byte
}

// NewBatch returns the batch of a write set that is valid.
func (l Layout) NewBatch(w *store.WriteSet) *Batch {
	b := &Batch{Writes: make([]Write, 0, len(w.Ops))}
	at := make(map[string]int, len(w.Ops)) // place in Writes
	for i := range w.Ops {
		op := &w.Ops[i]
		key := l.AppendKey(nil, op.Key)
		if op.Cond.Kind != store.CondNone {
			b.Conds = append(b.Conds, Cond{op.Cond, i, key})
		}
		if op.Kind == store.OpRequire {
			continue
		}
		write := Write{Key: key}
		if op.Kind == store.OpPut {
			write.Value = AppendValue(make([]byte, 0, 1+len(op.Value)), op.Value, op.Expiry)
		}
		if j, ok := at[string(key)]; ok {
			b.Writes[j] = write
			continue
		}
		at[string(key)] = len(b.Writes)
		b.Writes = append(b.Writes, write)
	}
	return b
}

// CondKeys returns the keys of the conditions, in their order.
func (b *Batch) CondKeys() [][]byte {
	keys := make([][]byte, len(b.Conds))
	for i := range b.Conds {
		keys[i] = b.Conds[i].Key
	}
	return keys
}

// Check returns the error of the first condition that does not hold, or nil. Now is when the pairs
// of the conditions' keys, in their order, were read.
func (b *Batch) Check(w *store.WriteSet, pairs []Pair, now time.Time) error {
	for i := range b.Conds {
		it, ok, err := item(pairs[i], now)
		if err != nil {
			return err
		}
		if c := &b.Conds[i]; !c.Holds(it, ok) {
			e := &store.ConditionError{
				Key: store.Item{Key: w.Ops[c.Op].Key}.Clone().Key, Op: c.Op, Exists: ok,
			}
			if ok {
				e.Version = it.Version
			}
			return e
		}
	}
	return nil
}
