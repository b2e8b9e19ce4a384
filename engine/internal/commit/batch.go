package commit

import (
	"bytes"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/rangedel"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/wal"
)

// Batch collects the operations of one commit: as the log record that they make, and as what
// the memtables need. The zero Batch is empty. It copies what it is given, and belongs to one
// goroutine at a time.
//
// Requires: keys are valid, and all together makes a record of less than 4 GiB.
type Batch struct {
	ops     []op
	keys    []byte         // ordered keys of all operations
	payload []byte         // the log record: all operations in wal's form
	stripes base.StripeSet // of writes and conditions
	ranges  bool           // some operation deletes a range
	scans   bool           // some operation is a kindDeleteScan
	ttls    bool           // some operation has a TTL

	conds *conds // nil if there never was one
	// others are operations that are not among ops: conditions without a write, and writes
	// that seal has dropped.
	others int
}

// op is one operation; positions refer to keys and payload.
type op struct {
	kind         base.Kind
	stripe       uint8
	ttl          time.Duration
	expiry       int64  // Unix ms; set by seal if ttl is above zero
	key, keyEnd  uint32 // ordered key, or start of a range
	end, endEnd  uint32 // exclusive end of a range
	record       uint32 // start of the operation in payload
	value, valEn uint32 // value in payload
}

// Lifetime is when an item expires: after TTL or at Expiry, in Unix milliseconds, if one is
// above zero.
type Lifetime struct {
	TTL    time.Duration
	Expiry int64
}

// ExpiryAt returns when what is written at nowMs with a TTL expires: above zero also
// with a clock that shows a time before 1970, 0 means never; and at the last millisecond
// there is if the sum is beyond.
func ExpiryAt(nowMs int64, ttl time.Duration) int64 {
	ms := max(1, ttl.Milliseconds())
	if nowMs > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return max(1, nowMs+ms)
}

// Len returns the number of operations, conditions without a write included.
func (b *Batch) Len() int { return len(b.ops) + b.others }

// Writes returns the number of operations that write.
func (b *Batch) Writes() int { return len(b.ops) }

// Bytes returns the size of the log record the batch makes.
func (b *Batch) Bytes() int { return len(b.payload) }

// KeyBytes returns the size of all ordered keys, and of the values of conditions.
func (b *Batch) KeyBytes() int { return len(b.keys) }

// CondBytes returns what the conditions hold beyond the keys of writes.
func (b *Batch) CondBytes() int {
	if b.conds == nil {
		return 0
	}
	return b.conds.bytes
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.ops, b.keys, b.payload = b.ops[:0], b.keys[:0], b.payload[:0]
	b.stripes, b.ranges, b.scans, b.ttls = base.StripeSet{}, false, false, false
	b.others = 0
	if b.hasConds() {
		b.conds.list, b.conds.bytes = b.conds.list[:0], 0
	}
}

// HeldBytes returns about how much memory Reset keeps.
func (b *Batch) HeldBytes() int { return max(cap(b.payload), cap(b.keys)) }

// Put adds a write of value under key.
func (b *Batch) Put(key keycodec.Key, value []byte, l Lifetime) {
	op := b.begin(base.KindPut, key)
	if l.TTL > 0 || l.Expiry > 0 {
		op.kind, op.ttl, op.expiry = base.KindPutTTL, l.TTL, l.Expiry
		b.ttls = b.ttls || l.TTL > 0
		b.payload = wal.AppendPutTTL(b.payload, key.PK, key.SK, value, l.Expiry)
	} else {
		b.payload = wal.AppendPut(b.payload, key.PK, key.SK, value)
	}
	op.valEn = uint32(len(b.payload))
	op.value = op.valEn - uint32(len(value))
}

// Delete adds the removal of key.
func (b *Batch) Delete(key keycodec.Key) {
	op := b.begin(base.KindDelete, key)
	b.payload = wal.AppendDelete(b.payload, key.PK, key.SK)
	op.value, op.valEn = uint32(len(b.payload)), uint32(len(b.payload))
}

// begin adds an operation on key, whose record follows.
func (b *Batch) begin(kind base.Kind, key keycodec.Key) *op {
	from, stripe := len(b.keys), keycodec.Stripe(key.PK)
	b.keys = keycodec.AppendOrdered(b.keys, key)
	b.stripes.Add(stripe)
	op := b.add()
	op.kind, op.stripe, op.record = kind, stripe, uint32(len(b.payload))
	op.key, op.keyEnd = uint32(from), uint32(len(b.keys))
	return op
}

// add adds an empty operation. Why no append: it would make the operation elsewhere and copy it.
func (b *Batch) add() *op {
	n := len(b.ops)
	if n == cap(b.ops) {
		b.ops = slices.Grow(b.ops, 1)
	}
	b.ops = b.ops[:n+1]
	added := &b.ops[n]
	*added = op{}
	return added
}

// DeleteRange adds the removal of a span within one partition. Requires: it is not empty.
func (b *Batch) DeleteRange(s base.Span) {
	op := b.beginSpan(base.KindDeleteRange, s)
	op.stripe = keycodec.Stripe(kv.PKOf(s.Lo))
	b.payload = wal.AppendDeleteRange(b.payload, s.Lo, s.Hi)
	op.value, op.valEn = uint32(len(b.payload)), uint32(len(b.payload))
	b.stripes.Add(op.stripe)
	b.ranges = true
}

// AddRecord adds the operations of a log record, of this database or another, range deletes first.
//
// Why first: a range delete of a record spares what the record writes, wherever it stands in it.
// One of a batch removes what was added before.
func (b *Batch) AddRecord(record []byte) error {
	for _, ranges := range [...]bool{true, false} {
		ops := wal.NewOpReader(record)
		for {
			var op wal.Op
			if more, err := ops.Next(&op); err != nil {
				return err
			} else if !more {
				break
			}
			key := keycodec.Key{PK: op.PK, SK: op.SK}
			switch is := op.Kind == base.KindDeleteRange; {
			case is != ranges:
			case is:
				b.DeleteRange(base.Span{Lo: op.Start, Hi: op.End})
			case op.Kind == base.KindDelete:
				b.Delete(key)
			default:
				b.Put(key, op.Value, Lifetime{Expiry: op.Expiry})
			}
		}
	}
	return nil
}

// beginSpan adds an operation on a span, whose record follows.
func (b *Batch) beginSpan(kind base.Kind, s base.Span) *op {
	op := b.add()
	op.kind, op.record, op.key = kind, uint32(len(b.payload)), uint32(len(b.keys))
	op.value, op.valEn = op.record, op.record
	b.keys = append(b.keys, s.Lo...)
	op.keyEnd, op.end = uint32(len(b.keys)), uint32(len(b.keys))
	b.keys = append(b.keys, s.Hi...)
	op.endEnd = uint32(len(b.keys))
	return op
}

// Last returns the last write, which is of one key, as the memtable gets it at the time of now;
// the number is 0. Its slices are valid until the batch changes.
func (b *Batch) Last(now func() int64) (e base.Entry, stripe uint8) {
	return b.entryOf(&b.ops[len(b.ops)-1], now)
}

func (b *Batch) entryOf(op *op, now func() int64) (e base.Entry, stripe uint8) {
	e = base.Entry{Key: b.key(op), Kind: op.kind, Value: b.valueOf(op), Expiry: op.expiry}
	if op.ttl > 0 {
		e.Expiry = ExpiryAt(now(), op.ttl)
	}
	return e, op.stripe
}

// LastSpan returns a copy of the span of the last write, which deletes a range.
func (b *Batch) LastSpan() read.StripeSpan {
	op := &b.ops[len(b.ops)-1]
	return read.StripeSpan{Span: b.spanOf(op).Clone(), Stripe: op.stripe}
}

// Mark is a state of a batch: see Truncate.
type Mark struct {
	ops, others, keys, payload int
	stripes                    base.StripeSet
	ranges, scans, ttls        bool
}

// Mark returns the present state.
func (b *Batch) Mark() Mark {
	return Mark{len(b.ops), b.others, len(b.keys), len(b.payload), b.stripes, b.ranges, b.scans,
		b.ttls}
}

// Writes returns Batch.Writes of that state.
func (m *Mark) Writes() int { return m.ops }

// Truncate removes what was added since the mark, and returns the stripes that it wrote.
// Requires: the batch has no conditions, has not been committed, and was not truncated to an
// earlier state since.
func (b *Batch) Truncate(m *Mark) (written base.StripeSet) {
	for i := m.ops; i < len(b.ops); i++ {
		if b.ops[i].kind == KindDeleteScan {
			written.Fill()
		}
		written.Add(b.ops[i].stripe)
	}
	b.ops, b.keys, b.payload = b.ops[:m.ops], b.keys[:m.keys], b.payload[:m.payload]
	b.stripes, b.ranges, b.scans, b.ttls = m.stripes, m.ranges, m.scans, m.ttls
	b.others = m.others
	return written
}

// Overlay puts the writes on some stripes into an overlay that has none of them, at the time of
// now. Scans are the ranges that each KindDeleteScan deletes, in their order.
func (b *Batch) Overlay(o *read.Overlay, on *base.StripeSet, now func() int64,
	scans [][]read.StripeSpan) {
	for i := range b.ops {
		switch op := &b.ops[i]; {
		case op.kind == KindDeleteScan:
			o.DeleteSpansOn(on, scans[0])
			scans = scans[1:]
		case !on.Has(op.stripe):
		case op.isRange():
			o.DeleteSpans(read.StripeSpan{Span: b.spanOf(op).Clone(), Stripe: op.stripe})
		default:
			e, stripe := b.entryOf(op, now)
			o.Put(stripe, &e)
		}
	}
}

// Op is an operation of a batch. Its slices are valid until the batch changes.
type Op struct {
	Kind  base.Kind // KindRequire and KindDeleteScan included
	Key   []byte    // ordered; nil for a range
	Span  base.Span // of a range
	Value []byte
	Lifetime
	Cond Condition
}

// KindRequire is the kind of an Op that only has a condition.
const KindRequire base.Kind = 255

// All returns the operations in the order in which they were added, with their conditions.
func (b *Batch) All() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		var list []cond
		if b.conds != nil {
			list = b.conds.list
		}
		for i := range b.ops {
			op := &b.ops[i]
			// Keys lie in the order of the calls; the condition of a write has its key.
			for len(list) > 0 && list[0].key < op.key {
				if !yield(b.required(&list[0])) {
					return
				}
				list = list[1:]
			}
			out := b.opened(op)
			if len(list) > 0 && list[0].key == op.key && !op.isRange() {
				out.Cond, list = b.condition(&list[0]), list[1:]
			}
			if !yield(out) {
				return
			}
		}
		for i := range list {
			if !yield(b.required(&list[i])) {
				return
			}
		}
	}
}

// required returns a condition as an operation without a write.
func (b *Batch) required(c *cond) Op {
	return Op{Kind: KindRequire, Key: b.keys[c.key:c.keyEnd:c.keyEnd], Cond: b.condition(c)}
}

// opened returns an operation without its condition.
func (b *Batch) opened(op *op) Op {
	out := Op{Kind: op.kind}
	if op.isRange() {
		out.Span = b.spanOf(op)
		return out
	}
	out.Key, out.Value = b.key(op), b.valueOf(op)
	if out.TTL = op.ttl; op.ttl == 0 {
		out.Expiry = op.expiry
	}
	return out
}

// seal makes the batch ready for the log at the given time: it writes expiry moments
// into the record and drops operations that a later range delete of the batch
// covers. Why drop: all operations share one sequence number, and a range tombstone
// spares versions of its own number.
func (b *Batch) seal(nowMs int64) {
	if b.ranges {
		b.dropCovered()
	}
	if !b.ttls {
		return
	}
	for i := range b.ops {
		if op := &b.ops[i]; op.ttl > 0 {
			op.expiry = ExpiryAt(nowMs, op.ttl)
			wal.SetExpiry(b.payload[op.record:], op.expiry)
		}
	}
}

func (b *Batch) dropCovered() {
	// A range of operation i gets the number i+1: the newest cover of a key is then
	// the last range delete over it.
	var ranges []base.RangeTombstone
	for i := range b.ops {
		if op := &b.ops[i]; op.isRange() {
			t := base.RangeTombstone{
				Start: b.key(op), End: b.rangeEnd(op), Seq: base.SeqNum(i + 1),
			}
			if len(t.End) == 0 {
				t.End = aboveAll
			}
			ranges = append(ranges, t)
		}
	}
	list := rangedel.Build(ranges, base.MaxSeqNum)
	var ops []op
	var payload []byte
	for i, op := range b.ops {
		if !op.isRange() && list.CoverSeq(b.key(&op)) > base.SeqNum(i+1) {
			continue
		}
		end := uint32(len(b.payload))
		if i+1 < len(b.ops) {
			end = b.ops[i+1].record
		}
		shift := uint32(len(payload)) - op.record // modulo 2^32
		payload = append(payload, b.payload[op.record:end]...)
		op.record += shift
		op.value += shift
		op.valEn += shift
		ops = append(ops, op)
	}
	b.others += len(b.ops) - len(ops)
	b.ops, b.payload = ops, payload
}

// aboveAll is above every ordered key.
var aboveAll = bytes.Repeat([]byte{0xff}, keycodec.MaxKeyBytes+1)

// deletesOnly reports whether the batch writes no values.
func (b *Batch) deletesOnly() bool {
	for i := range b.ops {
		if op := &b.ops[i]; op.kind != base.KindDelete && !op.isRange() {
			return false
		}
	}
	return true
}

// isRange reports whether the operation deletes a range.
func (op *op) isRange() bool {
	return op.kind == base.KindDeleteRange || op.kind == KindDeleteScan
}

func (b *Batch) key(op *op) []byte { return b.keys[op.key:op.keyEnd:op.keyEnd] }

func (b *Batch) rangeEnd(op *op) []byte { return b.keys[op.end:op.endEnd:op.endEnd] }

func (b *Batch) valueOf(op *op) []byte { return b.payload[op.value:op.valEn:op.valEn] }

// spanOf returns the span of an operation that deletes a range.
func (b *Batch) spanOf(op *op) base.Span {
	s := base.Span{Lo: b.key(op)}
	if op.end < op.endEnd {
		s.Hi = b.rangeEnd(op)
	}
	return s
}
