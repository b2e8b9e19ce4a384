package commit

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/wal"
)

// A range of keys over all partitions is deleted by one range tombstone in each stripe that
// has something there. The log needs no operation of its own for it: the record of the commit
// names the range of each stripe, from its first item to its last. They are looked up with
// all stripes locked, so that nothing comes in between. Why not the range as it was given: a
// range of the log belongs to the stripe of the partition that it starts in.

// KindDeleteScan is the kind of an operation of a batch that deletes a range of keys in all
// stripes. The log has KindDeleteRange of each stripe for it.
const KindDeleteScan base.Kind = 254

// DeleteScan adds the removal of a span over all partitions. Requires: it is not empty.
func (b *Batch) DeleteScan(s base.Span) {
	b.beginSpan(KindDeleteScan, s)
	b.stripes.Fill()
	b.ranges, b.scans = true, true
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

// expand returns the ranges that the DeleteScans of the batch delete, and its log record with
// them, and freezes memtables in which they hide much. Requires: all stripes are locked.
func (p *Pipeline) expand(b *Batch) (ranges []read.StripeSpan, record []byte, err error) {
	present := p.env.Reads.Reader(nil, nil)
	for i := range b.ops {
		if op := &b.ops[i]; op.kind == KindDeleteScan {
			if ranges, err = present.Extents(ranges, b.spanOf(op)); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, r := range ranges {
		if p.env.Stripes[r.Stripe].FreezeBeneath(r.Lo, r.Hi) {
			p.env.Upkeep.KickFlush()
		}
	}
	record = b.payload[:len(b.payload):len(b.payload)] // the batch may be applied again
	for _, r := range ranges {
		if base.Invariants && r.Empty() { // the record could not be read again
			panic(fmt.Sprintf("stripe %d: a range delete of %q", r.Stripe, r.Span))
		}
		record = wal.AppendDeleteRange(record, r.Lo, r.Hi)
	}
	return ranges, record, nil
}
