package engine

import (
	"iter"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// BatchOpKind says what an operation of a batch does.
type BatchOpKind uint8

// The kinds of operations.
const (
	// BatchPut stores Value under Key: Put, PutIf.
	BatchPut BatchOpKind = iota
	// BatchDelete removes the item of Key: Delete, DeleteIf.
	BatchDelete
	// BatchRequire writes nothing; it has a condition on Key.
	BatchRequire
	// BatchDeleteRange removes the items of partition Key.PK that satisfy SK.
	BatchDeleteRange
	// BatchDeleteScan removes the items from Key on and before To.
	BatchDeleteScan
)

// BatchOp is an operation of a batch, as [Batch.All] returns it. Its fields are what the call
// that adds such an operation takes.
type BatchOp struct {
	Kind  BatchOpKind
	Key   Key
	Value []byte
	// TTL and Expiry are when a put item expires: after a time, or at a moment, or never if
	// both are 0.
	TTL    TTL
	Expiry Expiry
	// Cond is the condition of the operation; the zero Condition always holds.
	Cond Condition
	// SK are the sort keys of a BatchDeleteRange, as one range.
	SK SKCondition
	// To ends a BatchDeleteScan.
	To Key
}

// All returns the operations of the batch in the order in which they were added. Their slices
// are valid until the batch changes, and must not be modified. Apply leaves out writes that a
// later range delete of the batch covers; of those that were conditional the condition stays.
func (b *Batch) All() iter.Seq[BatchOp] {
	return func(yield func(BatchOp) bool) {
		for op := range b.core.All() {
			if !yield(opened(&op)) {
				return
			}
		}
	}
}

// opened returns an operation as it was added.
func opened(op *commit.Op) BatchOp {
	out := BatchOp{Cond: Condition{op.Cond}}
	switch op.Kind {
	case commit.KindDeleteScan:
		out.Kind = BatchDeleteScan
		if len(op.Span.Lo) > 0 {
			out.Key = keyOf(op.Span.Lo)
		}
		if op.Span.Hi != nil {
			out.To = keyOf(op.Span.Hi)
		}
		return out
	case base.KindDeleteRange:
		return rangeOp(op.Span.Lo, op.Span.Hi)
	case commit.KindRequire:
		out.Kind = BatchRequire
	case base.KindDelete:
		out.Kind = BatchDelete
	default:
		out.Kind, out.Value = BatchPut, op.Value
		out.TTL, out.Expiry = TTL(op.TTL), Expiry(op.Expiry)
	}
	out.Key = viewOf(op.Key)
	return out
}

// rangeOp returns the operation that deletes the ordered keys from lo to before hi, all of one
// partition.
func rangeOp(lo, hi []byte) BatchOp {
	n, _ := keycodec.OrderedPKLen(lo)
	var from, to []byte
	if from = lo[n:]; hi[n-1] == 0 {
		to = hi[n:]
	}
	out := BatchOp{Kind: BatchDeleteRange, SK: SKRange(from, to)}
	out.Key.PK = keyOf(lo[:n]).PK
	if len(from) == 0 {
		out.SK = SKRange(nil, to).OrNone()
	}
	return out
}

// Append adds the operations of another batch after those of b, with their conditions. On an
// error nothing is added.
func (b *Batch) Append(other *Batch) error {
	if other == nil || other == b {
		return invalid("a batch appended to itself, or none")
	}
	n := other.core.Bytes() + other.core.KeyBytes() + other.core.CondBytes()
	if err := b.room(n); err != nil {
		return err
	}
	for op := range other.All() {
		if err := b.add(&op); err != nil {
			return err // not reachable: other has taken it
		}
	}
	return nil
}

// add adds an operation of another batch.
func (b *Batch) add(op *BatchOp) error {
	switch op.Kind {
	case BatchPut:
		var expiry ItemOption = op.Expiry
		if op.TTL > 0 {
			expiry = op.TTL
		}
		return b.PutIf(op.Key, op.Value, op.Cond, expiry)
	case BatchDelete:
		return b.DeleteIf(op.Key, op.Cond)
	case BatchRequire:
		return b.Require(op.Key, op.Cond)
	case BatchDeleteRange:
		return b.DeleteRange(op.Key.PK, op.SK)
	}
	return b.DeleteScan(op.Key, op.To)
}
