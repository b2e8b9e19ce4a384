package engine

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/rangedel"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/wal"
)

// Batch collects writes that DB.Apply commits as one: after a crash all of them are
// there or none, and no query, scan, snapshot or transaction sees a part, whatever
// stripes they touch. Two calls of DB.Get are two reads with a commit perhaps in between;
// but whoever has seen one key of a batch sees all others too. Of two writes to one key
// the later wins; a range delete affects the writes before it.
//
// Operations may have conditions, see PutIf, DeleteIf and Require. All of them are about
// the state right before the batch, whatever the batch itself writes. They are checked in
// the order in which they were added, in one step with the writes: nothing can come in
// between. If one fails, nothing of the batch is written and Apply returns a
// *ConditionError that names the first one.
//
// A batch copies what it is given. It may be applied again, and reused after Reset.
// It belongs to one goroutine at a time.
type Batch struct {
	ops     []batchOp
	keys    []byte // ordered keys of all operations
	payload []byte // the log record: all operations in wal's form
	stripes stripeSet
	ranges  bool // some operation is a range delete
	scans   bool // some operation is a kindDeleteScan
	ttls    bool // some operation has a TTL

	conds *batchConds // nil if there never was one
	// others are operations that are not among ops: conditions without a write, and writes
	// that seal has dropped.
	others int
}

// batchOp is one operation; positions refer to keys and payload.
type batchOp struct {
	kind         base.Kind
	stripe       uint8
	ttl          time.Duration
	expiry       int64  // Unix ms; set by seal if ttl is above zero
	key, keyEnd  uint32 // ordered key, or start of a range
	end, endEnd  uint32 // exclusive end of a range
	record       uint32 // start of the operation in payload
	value, valEn uint32 // value in payload
}

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{} }

// Put adds a write of value under key. A TTL counts from Apply. On an error nothing is
// added.
func (b *Batch) Put(key Key, value []byte, opts ...ItemOption) error {
	if err := checkItem(key, value); err != nil {
		return err
	}
	l, err := lifetimeOf(opts)
	if err != nil {
		return err
	}
	if err := b.room(len(key.PK) + len(key.SK) + len(value)); err != nil {
		return err
	}
	b.put(key, value, l)
	return nil
}

// Delete adds the removal of key, which need not exist.
func (b *Batch) Delete(key Key) error {
	if err := checkItem(key, nil); err != nil {
		return err
	}
	if err := b.room(len(key.PK) + len(key.SK)); err != nil {
		return err
	}
	b.delete(key)
	return nil
}

// DeleteRange adds the removal of all items of partition pk whose sort key satisfies
// sk, among them those the batch has put before.
func (b *Batch) DeleteRange(pk []byte, sk SKCondition) error {
	s, err := sk.span("delete range", nil, pk)
	if err != nil {
		return err
	}
	s = s.cut()
	if err := b.room(len(s.lo) + len(s.hi)); err != nil {
		return err
	}
	if !s.empty() {
		b.deleteSpan(s)
	}
	return nil
}

// Len returns the number of operations.
func (b *Batch) Len() int { return len(b.ops) + b.others }

// Bytes returns the size of the log record the batch makes.
func (b *Batch) Bytes() int { return len(b.payload) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.ops, b.keys, b.payload = b.ops[:0], b.keys[:0], b.payload[:0]
	b.stripes, b.ranges, b.scans, b.ttls = stripeSet{}, false, false, false
	b.others = 0
	if b.conds != nil {
		*b.conds = batchConds{list: b.conds.list[:0]}
	}
}

// room checks that n more bytes of keys and values fit.
func (b *Batch) room(n int) error {
	if b.conds != nil {
		n += b.conds.bytes
	}
	if total := int64(len(b.payload)) + int64(n) + 64; total > MaxBatchBytes {
		return tooLarge("batch", total, MaxBatchBytes)
	}
	return nil
}

func (b *Batch) put(key Key, value []byte, l lifetime) {
	op := b.begin(base.KindPut, key)
	if l.ttl > 0 || l.expiry > 0 {
		op.kind, op.ttl, op.expiry = base.KindPutTTL, l.ttl, l.expiry
		b.ttls = b.ttls || l.ttl > 0
		b.payload = wal.AppendPutTTL(b.payload, key.PK, key.SK, value, l.expiry)
	} else {
		b.payload = wal.AppendPut(b.payload, key.PK, key.SK, value)
	}
	op.valEn = uint32(len(b.payload))
	op.value = op.valEn - uint32(len(value))
}

func (b *Batch) delete(key Key) {
	op := b.begin(base.KindDelete, key)
	b.payload = wal.AppendDelete(b.payload, key.PK, key.SK)
	op.value, op.valEn = uint32(len(b.payload)), uint32(len(b.payload))
}

// begin adds an operation on key, whose record follows.
func (b *Batch) begin(kind base.Kind, key Key) *batchOp {
	b.ops = append(b.ops, batchOp{})
	op := &b.ops[len(b.ops)-1]
	op.kind, op.stripe = kind, keycodec.Stripe(key.PK)
	op.record, op.key = uint32(len(b.payload)), uint32(len(b.keys))
	b.keys = keycodec.AppendOrdered(b.keys, key)
	op.keyEnd = uint32(len(b.keys))
	b.stripes.add(op.stripe)
	return op
}

// deleteSpan adds a range delete of a span within one partition.
func (b *Batch) deleteSpan(s span) {
	op := batchOp{kind: base.KindDeleteRange, stripe: stripeOfOrdered(s.lo)}
	op.record, op.key = uint32(len(b.payload)), uint32(len(b.keys))
	b.keys = append(b.keys, s.lo...)
	op.keyEnd, op.end = uint32(len(b.keys)), uint32(len(b.keys))
	b.keys = append(b.keys, s.hi...)
	op.endEnd = uint32(len(b.keys))
	b.payload = wal.AppendDeleteRange(b.payload, s.lo, s.hi)
	op.value, op.valEn = uint32(len(b.payload)), uint32(len(b.payload))
	b.ops = append(b.ops, op)
	b.stripes.add(op.stripe)
	b.ranges = true
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
			op.expiry = expiryAt(nowMs, op.ttl)
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
	var ops []batchOp
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

// isRange reports whether the operation deletes a range.
func (op *batchOp) isRange() bool {
	return op.kind == base.KindDeleteRange || op.kind == kindDeleteScan
}

func (b *Batch) key(op *batchOp) []byte { return b.keys[op.key:op.keyEnd:op.keyEnd] }

func (b *Batch) rangeEnd(op *batchOp) []byte { return b.keys[op.end:op.endEnd:op.endEnd] }

func (b *Batch) valueOf(op *batchOp) []byte { return b.payload[op.value:op.valEn:op.valEn] }

// checkItem validates what a caller wants to store.
func checkItem(key Key, value []byte) error {
	if err := key.Validate(); err != nil {
		return keyError("", err)
	}
	if len(value) > MaxValueBytes {
		return tooLarge("value", int64(len(value)), MaxValueBytes)
	}
	return nil
}

// keyError gives an invalid key's error the engine's class. Errors read "engine: class:
// operation: cause"; op is empty for reads and writes of items.
func keyError(op string, err error) error {
	if op != "" {
		err = fmt.Errorf("%s: %w", op, err)
	}
	if errors.Is(err, keycodec.ErrKeyTooLarge) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("engine: %w", err)
}

// stripeOfOrdered returns the stripe of an ordered key, or of the start of a range in one
// partition. Why it looks at the partition key alone: the range after a sort key of
// MaxKeyBytes starts at a sort key that is a byte longer, which is not a key.
func stripeOfOrdered(key []byte) uint8 {
	n, _ := keycodec.OrderedPKLen(key)
	k, _, err := keycodec.DecodeOrdered(key[:n], nil)
	if err != nil {
		return 0 // not reachable: the key was encoded by this package
	}
	return keycodec.Stripe(k.PK)
}

// stripeSet is a set of stripes, iterated in ascending order.
type stripeSet struct {
	words [base.NumStripes / 64]uint64
	used  uint8 // has the bits of the words that are not 0: most sets are of one stripe
}

func (s *stripeSet) add(id uint8) {
	s.words[id/64] |= 1 << (id % 64)
	s.used |= 1 << (id / 64)
}

// fill makes it the set of all stripes.
func (s *stripeSet) fill() {
	for w := range s.words {
		s.words[w] = math.MaxUint64
	}
	s.used = 1<<len(s.words) - 1
}

// union adds the stripes of t.
func (s *stripeSet) union(t *stripeSet) {
	for w, word := range t.words {
		s.words[w] |= word
	}
	s.used |= t.used
}

// each calls f with the stripes of the set in ascending order.
func (s *stripeSet) each(f func(id uint8)) {
	for used := s.used; used != 0; used &= used - 1 {
		w := bits.TrailingZeros8(used) % len(s.words)
		for word := s.words[w]; word != 0; word &= word - 1 {
			f(uint8(w*64 + bits.TrailingZeros64(word)))
		}
	}
}
