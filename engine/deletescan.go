package engine

import (
	"bytes"
	"context"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// A range of keys over all partitions is deleted by one range tombstone in each stripe that
// has something there. The log needs no operation of its own for it: the record of the commit
// names the range of each stripe, from its first item to its last. They are looked up with
// all stripes locked, so that nothing comes in between. Why not the range as it was given: a
// range of the log belongs to the stripe of the partition that it starts in.

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

// DeleteScan adds the removal of all items from key from on and before key to, in all
// partitions, as DB.DeleteScan, among them those the batch has put before.
func (b *Batch) DeleteScan(from, to Key) error {
	for _, k := range [...]Key{from, to} {
		if err := k.Validate(); err != nil && (k.PK != nil || k.SK != nil) {
			return keyError("delete scan", err)
		}
	}
	s, err := (&Scan{From: from, To: to}).bounds("delete scan")
	if err != nil {
		return err
	}
	if err := b.room(len(s.lo) + len(s.hi)); err != nil || s.empty() {
		return err
	}
	op := batchOp{kind: kindDeleteScan, record: uint32(len(b.payload))}
	op.key = uint32(len(b.keys))
	b.keys = append(b.keys, s.lo...)
	op.keyEnd, op.end = uint32(len(b.keys)), uint32(len(b.keys))
	b.keys = append(b.keys, s.hi...)
	op.endEnd = uint32(len(b.keys))
	op.value, op.valEn = op.record, op.record
	b.ops = append(b.ops, op)
	b.stripes.fill()
	b.ranges, b.scans = true, true
	return nil
}

// DeleteScan is DB.DeleteScan in the transaction.
func (tx *Tx) DeleteScan(from, to Key) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	n := len(tx.batch.ops)
	if err := tx.batch.DeleteScan(from, to); err != nil || len(tx.batch.ops) == n {
		return err
	}
	s := tx.batch.scanOf(&tx.batch.ops[n])
	ranges, err := tx.db.stripeRanges(nil, s, tx.node.seq, &tx.reader)
	if err != nil {
		tx.batch.ops = tx.batch.ops[:n]
		return tx.db.readError(err)
	}
	tx.writes++
	for _, r := range ranges {
		tx.table(r.stripe).DeleteRange(base.RangeTombstone{
			Start: r.lo, End: r.hi, Seq: overlayBase + tx.writes,
		})
	}
	return nil
}

// kindDeleteScan is the kind of an operation of a batch that deletes a range of keys in all
// stripes. The log has KindDeleteRange of each stripe for it.
const kindDeleteScan base.Kind = 254

// scanOf returns the range of a kindDeleteScan.
func (b *Batch) scanOf(op *batchOp) span {
	s := span{lo: b.key(op)}
	if op.end < op.endEnd {
		s.hi = b.rangeEnd(op)
	}
	return s
}

// scanRecordBytes is about what a DeleteScan adds to the log record, with keys of usual length.
const scanRecordBytes = 16 << 10

// logBytes returns about how long the log record will be.
func (b *Batch) logBytes() int64 {
	n := int64(len(b.payload))
	if b.scans {
		n += scanRecordBytes
	}
	return n
}

// aboveAll is above every ordered key.
var aboveAll = bytes.Repeat([]byte{0xff}, MaxKeyBytes+1)

// stripeRange is a range within a stripe, from a key of it on and to right after another.
type stripeRange struct {
	span
	stripe uint8
}

// expand returns the ranges that the DeleteScans of the batch delete, and its log record with
// them, and freezes memtables of which they hide much. Requires: all stripes are locked.
func (db *DB) expand(b *Batch) (ranges []stripeRange, record []byte, err error) {
	for i := range b.ops {
		if op := &b.ops[i]; op.kind == kindDeleteScan {
			ranges, err = db.stripeRanges(ranges, b.scanOf(op), base.MaxSeqNum, &db.reader)
			if err != nil {
				return nil, nil, err
			}
		}
	}
	for _, r := range ranges {
		if db.stripes[r.stripe].FreezeBeneath(r.lo, r.hi) {
			db.upkeep.KickFlush()
		}
	}
	record = b.payload[:len(b.payload):len(b.payload)] // the batch may be applied again
	for _, r := range ranges {
		record = wal.AppendDeleteRange(record, r.lo, r.hi)
	}
	return ranges, record, nil
}

// stripeRanges appends to dst, of each stripe that has items of the span at snap or among the
// writes of r, the range from the first to the last of them.
func (db *DB) stripeRanges(
	dst []stripeRange, s span, snap base.SeqNum, r *reader,
) ([]stripeRange, error) {
	var c stripe.Cursor
	defer c.Close()
	for id := range db.stripes {
		over := r.overlay(uint8(id))
		b := stripe.Bounds{Lo: s.lo, Hi: s.hi, Snap: snap, FirstRows: 1}
		first, err := db.firstKey(&c, id, b, over)
		if err != nil {
			return nil, err
		}
		if first == nil {
			continue
		}
		b.Reverse = true
		last, err := db.firstKey(&c, id, b, over)
		if err != nil {
			return nil, err
		}
		dst = append(dst, stripeRange{span{first, append(last, 0)}, uint8(id)})
	}
	return dst, nil
}

// firstKey returns a copy of the first key inside of the bounds, nil if there is none.
func (db *DB) firstKey(
	c *stripe.Cursor, id int, b stripe.Bounds, over *memtable.Table,
) ([]byte, error) {
	c.Close()
	if err := c.Add(&db.stripes[id], &b, over); err != nil {
		return nil, err
	}
	rows := c.Rows()
	if len(rows) == 0 {
		return nil, c.Err()
	}
	return bytes.Clone(rows[0].Key), nil
}
