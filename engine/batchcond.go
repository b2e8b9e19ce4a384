package engine

import (
	"bytes"
	"cmp"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Conditions of a batch. All of them are about the state right before the batch, whatever
// the batch itself writes, and are checked in the order in which they were added, with
// the stripes of the batch locked: nothing can come between the checks and the writes. If
// one fails, nothing of the batch is written, and Apply returns a *ConditionError with
// the key of the first that failed and its Op, the number of the operation among those of
// the batch, from 0 on.

// batchConds are the conditions of a batch.
type batchConds struct {
	list    []batchCond
	stripes stripeSet
	bytes   int // what they hold, beside the keys of operations
}

// batchCond is a condition of a batch; positions refer to the batch's keys.
type batchCond struct {
	op          int
	kind        condKind
	stripe      uint8
	key, keyEnd uint32 // ordered
	value, vEnd uint32 // of condValue
	version     uint64 // of condVersion
}

// PutIf is Put on the condition that the present item satisfies cond.
func (b *Batch) PutIf(key Key, value []byte, cond Condition, opts ...ItemOption) error {
	return b.conditional(key, cond, len(value), func() error {
		return b.Put(key, value, opts...)
	})
}

// DeleteIf is Delete on the condition that the present item satisfies cond.
func (b *Batch) DeleteIf(key Key, cond Condition) error {
	return b.conditional(key, cond, 0, func() error { return b.Delete(key) })
}

// Require adds a condition without a write: the batch is committed only if the present
// item of key satisfies cond. It counts as an operation.
func (b *Batch) Require(key Key, cond Condition) error {
	return b.conditional(key, cond, 0, func() error {
		if err := checkItem(key, nil); err != nil {
			return err
		}
		b.others++
		return nil
	})
}

// conditional adds an operation with its condition, or neither.
func (b *Batch) conditional(key Key, cond Condition, valueBytes int, add func() error) error {
	held := len(cond.value) + len(key.PK) + len(key.SK)
	if err := b.room(held + len(key.PK) + len(key.SK) + valueBytes); err != nil {
		return err
	}
	op, writes := b.Len(), len(b.ops)
	if err := add(); err != nil || cond.kind == condNone {
		return err
	}
	if len(b.ops) > writes {
		b.requireOfLast(op, cond)
		return nil
	}
	c := batchCond{op: op, stripe: keycodec.Stripe(key.PK), key: uint32(len(b.keys))}
	b.keys = keycodec.AppendOrdered(b.keys, key)
	c.keyEnd = uint32(len(b.keys))
	b.addCond(c, cond)
	b.conds.bytes += len(key.PK) + len(key.SK)
	return nil
}

// requireOfLast makes a condition that of the last write, operation op: both are about one
// key.
func (b *Batch) requireOfLast(op int, cond Condition) {
	w := &b.ops[len(b.ops)-1]
	b.addCond(batchCond{op: op, stripe: w.stripe, key: w.key, keyEnd: w.keyEnd}, cond)
}

// addCond completes c with cond and adds it. Of a value that is longer than stored ones may
// be, so much is kept that it equals none.
func (b *Batch) addCond(c batchCond, cond Condition) {
	value := cond.value[:min(len(cond.value), MaxValueBytes+1)]
	c.kind, c.version, c.value = cond.kind, cond.version, uint32(len(b.keys))
	b.keys = append(b.keys, value...)
	c.vEnd = uint32(len(b.keys))
	if b.conds == nil {
		b.conds = &batchConds{}
	}
	b.conds.list = append(b.conds.list, c)
	b.conds.stripes.add(c.stripe)
	b.conds.bytes += len(value)
}

// hasConds reports whether the batch has conditions.
func (b *Batch) hasConds() bool { return b.conds != nil && len(b.conds.list) > 0 }

// condition returns a condition of the batch. Its value is a view.
func (b *Batch) condition(c *batchCond) Condition {
	return Condition{kind: c.kind, value: b.keys[c.value:c.vEnd], version: c.version}
}

// holds reports whether a key with the live version e, or without one, satisfies the
// condition.
func (c Condition) holds(exists bool, seq base.SeqNum, value []byte) bool {
	switch c.kind {
	case condAbsent:
		return !exists
	case condPresent:
		return exists
	case condValue:
		return exists && bytes.Equal(value, c.value)
	case condVersion:
		return exists && uint64(seq) == c.version
	}
	return true
}

// checkConds checks the conditions of a batch and reports the first that fails.
// Requires: their stripes are locked.
func (db *DB) checkConds(b *Batch) error {
	if len(b.conds.list) > aloneKeys {
		return db.checkManyConds(b)
	}
	for i := range b.conds.list {
		c := &b.conds.list[i]
		key := b.keys[c.key:c.keyEnd]
		f := base.Lookup{Key: key, Hash: db.hash(key)}
		if err := db.newest(c.stripe, &f, base.MaxSeqNum); err != nil {
			return err
		}
		if exists := db.live(&f); !b.condition(c).holds(exists, f.Seq, f.Value) {
			return b.failed(c, exists, f.Seq)
		}
	}
	return nil
}

// checkManyConds is checkConds for what is worth a group of lookups.
func (db *DB) checkManyConds(b *Batch) error {
	l := getLookups()
	defer putLookups(l)
	l.takeConds(b)
	l.beginAt(db, base.MaxSeqNum)
	var failed error
	first, now := uint32(len(b.conds.list)), db.nowMs()
	for l.next(db.calls.ctx, &l.lane) {
		for i := range l.list {
			f := &l.list[i]
			c, exists := &b.conds.list[f.Index], f.Live(now)
			if f.Index < first && !b.condition(c).holds(exists, f.Seq, f.Value) {
				first, failed = f.Index, b.failed(c, exists, f.Seq)
			}
		}
	}
	return cmp.Or(l.err, failed)
}

// failed returns the error of a condition that does not hold.
func (b *Batch) failed(c *batchCond, exists bool, seq base.SeqNum) error {
	return conditionError(keyOf(b.keys[c.key:c.keyEnd]), c.op, exists, seq)
}
