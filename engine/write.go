package engine

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// Put stores value under key, replacing what is there. Value may be empty; at most
// MaxValueBytes. If the error matches ErrReadOnly after a failed sync, whether the
// write survives is unknown; after any other error nothing was written.
func (db *DB) Put(key Key, value []byte, opts ...WriteOption) error {
	return db.putIf(key, value, Condition{}, opts)
}

// PutIf stores value under key if the present item satisfies cond, atomically;
// otherwise the error is a *ConditionError and nothing is written. Of concurrent calls
// for one key with IfAbsent exactly one succeeds.
func (db *DB) PutIf(key Key, value []byte, cond Condition, opts ...WriteOption) error {
	return db.putIf(key, value, cond, opts)
}

// Delete removes key's item, if there is one.
func (db *DB) Delete(key Key, opts ...CommitOption) error {
	return db.deleteIf(key, Condition{}, opts)
}

// DeleteIf removes key's item if it satisfies cond, atomically; otherwise the error
// is a *ConditionError and nothing is written.
func (db *DB) DeleteIf(key Key, cond Condition, opts ...CommitOption) error {
	return db.deleteIf(key, cond, opts)
}

// putIf commits a batch of one put, if cond holds.
func (db *DB) putIf(key Key, value []byte, cond Condition, opts []WriteOption) error {
	if err := checkItem(key, value); err != nil {
		return err
	}
	w, err := db.writeTerms(opts)
	if err != nil {
		return err
	}
	b := getBatch()
	defer putBatch(b)
	b.put(key, value, w.lifetime)
	if cond.kind != condNone {
		b.requireOfLast(0, cond)
	}
	return db.commit(context.Background(), b, w.terms, nil)
}

// deleteIf commits a batch of one delete, if cond holds.
func (db *DB) deleteIf(key Key, cond Condition, opts []CommitOption) error {
	if err := checkItem(key, nil); err != nil {
		return err
	}
	t, err := db.terms(opts)
	if err != nil {
		return err
	}
	b := getBatch()
	defer putBatch(b)
	b.delete(key)
	if cond.kind != condNone {
		b.requireOfLast(0, cond)
	}
	return db.commit(context.Background(), b, t, nil)
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

// Apply commits the batch. An empty batch is no commit, and one that only has conditions
// checks them; see [Sync] for what they make durable. If a condition fails, nothing is
// written and the error is a *ConditionError. If ctx ends while the writer waits for
// flushes to catch up, the error matches its cause and nothing is written.
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

// guard is a check that runs under the locks of a commit, before anything is logged.
type guard struct {
	stripes stripeSet // to lock beside those written
	check   func() error
}

// commit brings a batch into the database, also that of a single write: it becomes one log
// record under one sequence number.
//
// Order: back-pressure; stripe locks, ascending; guard; log (assigns the number);
// memtables; unlock; publish the number; wait for the sync. Readers are never
// blocked: they take none of these locks but a memtable's, for moments.
func (db *DB) commit(ctx context.Context, b *Batch, t terms, g *guard) error {
	if err := db.writable(); err != nil {
		return err
	}
	checked := b.hasConds()
	if len(b.ops) == 0 && g == nil && !checked {
		return db.unchanged(t.durability, nil)
	}
	// What only has conditions needs no room.
	if len(b.ops) > 0 && !db.upkeep.Free() {
		err := db.upkeep.Admit(ctx, b.logBytes(), b.deletesOnly(), t.maxWait)
		if err != nil {
			return err
		}
	}
	start := db.metrics.writeStart()
	if b.ttls || b.ranges {
		b.seal(db.nowMs())
	}
	locks := b.stripes
	if g != nil {
		locks.union(&g.stripes)
	}
	if checked {
		locks.union(&b.conds.stripes)
	}
	locks.each(func(id uint8) { db.stripes[id].Lock() })
	seq, err := db.commitLocked(b, g)
	locks.each(func(id uint8) { db.stripes[id].Unlock() })
	if err != nil || seq == 0 {
		return db.unchanged(t.durability, err)
	}
	return db.committed(seq, len(b.ops), int64(len(b.payload)), t.durability, start)
}

// unchanged ends a write that makes no commit: because there is nothing to write, err is
// nil, or because a condition does not hold. At Sync it makes durable what was acknowledged
// before, as a commit would. Why: a caller that gets "it is there already" at Sync relies
// on it, and the item may be one that was written at Process. Any other error is returned
// as it is.
func (db *DB) unchanged(d Durability, err error) error {
	if d != Sync || err != nil && !errors.Is(err, ErrConditionFailed) {
		return err
	}
	if serr := db.log.Sync(db.log.LastSeq()); serr != nil {
		return db.upkeep.Fail(serr)
	}
	return err
}

// committed makes an inserted commit visible and, at Sync, waits until it is durable.
func (db *DB) committed(
	seq base.SeqNum, ops int, bytes int64, d Durability, start time.Time,
) error {
	base.Yield()
	db.visible.publish(seq)
	db.metrics.commit(ops, bytes)
	if d == Sync {
		if err := db.log.Sync(seq); err != nil {
			return db.upkeep.Fail(err)
		}
	}
	db.metrics.writeDone(start)
	return nil
}

// commitLocked logs and inserts the batch. Requires: the stripes are locked.
func (db *DB) commitLocked(b *Batch, g *guard) (base.SeqNum, error) {
	if db.closed.Load() {
		return 0, ErrClosed
	}
	if g != nil {
		if err := g.check(); err != nil {
			return 0, err
		}
	}
	if b.hasConds() {
		if err := db.checkConds(b); err != nil {
			return 0, err
		}
	}
	if len(b.ops) == 0 {
		return 0, nil
	}
	if n := int64(len(b.payload)); db.upkeep.MemtableBytes().Load()+n > memtable.MaxBytes/2 {
		b.stripes.each(func(id uint8) { db.makeRoom(&db.stripes[id], n) })
	}
	if b.ranges {
		db.freezeBeneath(b)
	}
	record := b.payload
	var scanned []stripeRange
	if b.scans {
		var err error
		if scanned, record, err = db.expand(b); err != nil || len(record) == 0 {
			return 0, db.readError(err)
		}
	}
	seq, err := db.appendLog(record)
	if err != nil {
		return 0, err
	}
	db.insert(b, scanned, seq)
	return seq, nil
}

// insert puts a batch that is logged into the memtables; scanned are the ranges of its
// DeleteScans. Requires: the stripes are locked.
func (db *DB) insert(b *Batch, scanned []stripeRange, seq base.SeqNum) {
	horizon := db.snaps.horizon()
	var grown int64
	for i := range b.ops {
		base.Yield()
		op := &b.ops[i]
		s := &db.stripes[op.stripe]
		switch op.kind {
		case kindDeleteScan: // below
		case base.KindDeleteRange:
			grown += s.DeleteRange(base.RangeTombstone{
				Start: bytes.Clone(b.key(op)), End: bytes.Clone(b.rangeEnd(op)), Seq: seq,
			})
		default:
			e := base.Entry{
				Key: b.key(op), Seq: seq, Kind: op.kind, Value: b.valueOf(op),
				Expiry: op.expiry,
			}
			grown += s.Put(&e, db.hash(e.Key), horizon)
		}
	}
	for _, r := range scanned {
		grown += db.stripes[r.stripe].DeleteRange(base.RangeTombstone{
			Start: r.lo, End: r.hi, Seq: seq,
		})
	}
	if b.ranges {
		b.stripes.each(func(id uint8) { db.limitRanges(&db.stripes[id]) })
	}
	if db.opts.FlushRecords > 0 {
		// Not before the whole batch is in: a number is flushed or it is not.
		b.stripes.each(func(id uint8) { db.limitRecords(&db.stripes[id]) })
	}
	db.upkeep.Grow(grown)
}

// appendLog adds a record to the log. A failure that a full disk does not explain makes
// the database read-only.
func (db *DB) appendLog(record []byte) (base.SeqNum, error) {
	seq, err := db.log.Append(record)
	if err != nil && !errors.Is(err, vfs.ErrNoSpace) {
		err = db.upkeep.Fail(err)
	}
	return seq, err
}

// limitRecords freezes the active memtable if it holds Options.FlushRecords records.
// Requires: the stripe is locked.
func (db *DB) limitRecords(s *stripe.Stripe) {
	if s.View().Active.Len() >= db.opts.FlushRecords && s.Freeze() {
		db.upkeep.KickFlush()
	}
}

// makeRoom freezes the active memtable if it might outgrow what a memtable can address.
// Requires: the stripe is locked.
func (db *DB) makeRoom(s *stripe.Stripe, n int64) {
	if s.View().Active.Bytes()+n > memtable.MaxBytes/2 && s.Freeze() {
		db.upkeep.KickFlush()
	}
}

// freezeBeneath freezes memtables of which the batch deletes large ranges. Requires: the
// stripes are locked.
func (db *DB) freezeBeneath(b *Batch) {
	for i := range b.ops {
		op := &b.ops[i]
		if op.kind == base.KindDeleteRange &&
			db.stripes[op.stripe].FreezeBeneath(b.key(op), b.rangeEnd(op)) {
			db.upkeep.KickFlush()
		}
	}
}

// rangesMost is the number of range tombstones with which a memtable is flushed. Why:
// each read of the stripe looks at all of them, while those of a file are searched.
const rangesMost = 256

// limitRanges freezes the active memtable if it holds many range tombstones. Requires:
// the stripe is locked.
func (db *DB) limitRanges(s *stripe.Stripe) {
	if s.View().Active.Ranges() >= rangesMost && s.Freeze() {
		db.upkeep.KickFlush()
	}
}

// deletesOnly reports whether the batch writes no values.
func (b *Batch) deletesOnly() bool {
	for i := range b.ops {
		if op := &b.ops[i]; op.kind != base.KindDelete && !op.isRange() {
			return false
		}
	}
	return true
}

func (db *DB) hash(key []byte) uint64 { return base.Hash(key, db.env.Seed) }

func (db *DB) nowMs() int64 { return db.opts.Clock().UnixMilli() }

// readError gives an error of the layers below its class for readers.
func (db *DB) readError(err error) error {
	if errors.Is(err, stripe.ErrClosed) || db.closed.Load() {
		return ErrClosed
	}
	return err
}

// batchPool recycles the batches of the writes that do not come as one.
var batchPool = sync.Pool{New: func() any { return new(Batch) }}

// maxPooledBytes keeps giant buffers out of the pool.
const maxPooledBytes = 1 << 20

func getBatch() *Batch { return batchPool.Get().(*Batch) }

func putBatch(b *Batch) {
	if cap(b.payload) <= maxPooledBytes && cap(b.keys) <= maxPooledBytes {
		b.Reset()
		batchPool.Put(b)
	}
}
