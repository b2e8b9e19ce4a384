package engine

import (
	"bytes"
	"fmt"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// applyOp puts the current operation into its stripe's memtable, unless a flush has
// written it already.
func (r *replayer) applyOp(seq base.SeqNum) error {
	db, op := r.db, &r.op
	if op.Kind == base.KindDeleteRange {
		id := stripeOfOrdered(op.Start)
		if seq <= r.flushed[id] {
			return nil
		}
		r.ops++
		grown := db.stripes[id].DeleteRange(base.RangeTombstone{
			Start: bytes.Clone(op.Start), End: bytes.Clone(op.End), Seq: seq,
		})
		db.memory.used.Add(grown)
		return nil
	}
	id := keycodec.Stripe(op.PK)
	if seq <= r.flushed[id] {
		return nil
	}
	key := Key{PK: op.PK, SK: op.SK}
	if err := key.Validate(); err != nil {
		return fmt.Errorf("log record %d: %w", seq, err)
	}
	r.ops++
	r.key = keycodec.AppendOrdered(r.key[:0], key)
	e := base.Entry{Key: r.key, Seq: seq, Kind: op.Kind, Expiry: op.Expiry, Value: op.Value}
	db.memory.used.Add(db.stripes[id].Put(&e, db.hash(r.key), seq))
	return nil
}
