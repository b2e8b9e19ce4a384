package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Batch collects writes that DB.Apply commits as one: after a crash all of them are
// there or none, and no query, scan, snapshot or transaction sees a part, whatever
// stripes they touch. Two calls of DB.Get are two reads, and a commit may come in between;
// but after a read that has seen one key of a batch, every read sees the others too. Of two
// writes to one key the later wins; a range delete affects the writes before it.
//
// Operations may have conditions, see PutIf, DeleteIf and Require. All of them are about
// the state right before the batch, whatever the batch itself writes. They are checked in
// the order in which they were added, in one step with the writes: nothing can come in
// between. If one fails, nothing of the batch is written and Apply returns a
// *ConditionError that names the first one.
//
// A batch copies what it is given. It may be applied again, and reused after Reset.
// It belongs to one goroutine at a time.
type Batch struct{ core commit.Batch }

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{} }

// Put adds a write of value under key. A TTL counts from Apply. On an error nothing is
// added.
func (b *Batch) Put(key Key, value []byte, opts ...ItemOption) error {
	return b.PutIf(key, value, Condition{}, opts...)
}

// PutIf is Put on the condition that the present item satisfies cond.
func (b *Batch) PutIf(key Key, value []byte, cond Condition, opts ...ItemOption) error {
	if err := checkItem(key, value); err != nil {
		return err
	}
	l, err := lifetimeOf(opts)
	if err != nil {
		return err
	}
	if err := b.room(len(key.PK) + len(key.SK) + len(value) + cond.bytes(key)); err != nil {
		return err
	}
	b.core.Put(key, value, l)
	b.requireOfLast(&cond)
	return nil
}

// Delete adds the removal of key, which need not exist.
func (b *Batch) Delete(key Key) error { return b.DeleteIf(key, Condition{}) }

// DeleteIf is Delete on the condition that the present item satisfies cond.
func (b *Batch) DeleteIf(key Key, cond Condition) error {
	if err := checkItem(key, nil); err != nil {
		return err
	}
	if err := b.room(len(key.PK) + len(key.SK) + cond.bytes(key)); err != nil {
		return err
	}
	b.core.Delete(key)
	b.requireOfLast(&cond)
	return nil
}

// requireOfLast makes cond the condition of the last write.
func (b *Batch) requireOfLast(cond *Condition) {
	if cond.core.Kind != commit.CondNone {
		b.core.RequireOfLast(cond.capped())
	}
}

// Require adds a condition without a write: the batch is committed only if the present
// item of key satisfies cond. It counts as an operation.
func (b *Batch) Require(key Key, cond Condition) error {
	if err := checkItem(key, nil); err != nil {
		return err
	}
	if err := b.room(len(key.PK) + len(key.SK) + cond.bytes(key)); err != nil {
		return err
	}
	b.core.Require(key, cond.capped())
	return nil
}

// DeleteRange adds the removal of all items of partition pk whose sort key satisfies
// sk, among them those the batch has put before.
func (b *Batch) DeleteRange(pk []byte, sk SKCondition) error {
	s, _, err := sk.span("delete range", nil, pk)
	if err != nil {
		return err
	}
	s = cut(s)
	if err := b.room(len(s.Lo) + len(s.Hi)); err != nil {
		return err
	}
	if !s.Empty() {
		b.core.DeleteRange(s)
	}
	return nil
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
	if err := b.room(len(s.Lo) + len(s.Hi)); err != nil || s.Empty() {
		return err
	}
	b.core.DeleteScan(s)
	return nil
}

// Len returns the number of operations.
func (b *Batch) Len() int { return b.core.Len() }

// Bytes returns the size of the log record the batch makes.
func (b *Batch) Bytes() int { return b.core.Bytes() }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.core.Reset() }

// room checks that n more bytes of keys and values fit. DeleteScans have keys and no record yet.
func (b *Batch) room(n int) error {
	total := max(int64(b.core.Bytes())+int64(b.core.CondBytes()), int64(b.core.KeyBytes()))
	total += int64(n) + 64
	if total > MaxBatchBytes {
		return tooLarge("batch", total, MaxBatchBytes)
	}
	return nil
}

// batchPool recycles the batches of the writes that do not come as one.
var batchPool = sync.Pool{New: func() any { return new(Batch) }}

// maxPooledBytes keeps giant buffers out of the pool.
const maxPooledBytes = 1 << 20

func getBatch() *Batch { return batchPool.Get().(*Batch) }

func putBatch(b *Batch) {
	if b.core.HeldBytes() <= maxPooledBytes {
		b.Reset()
		batchPool.Put(b)
	}
}

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

// cut returns the span with bounds that can be stored: one with a sort key longer than any
// that an item has gives way to the first key after the MaxKeyBytes that it begins with. No
// item is between the two.
func cut(s base.Span) base.Span {
	pkLen, _ := keycodec.OrderedPKLen(s.Lo)
	longest := pkLen + MaxKeyBytes
	bound := func(b []byte) []byte {
		if len(b) <= longest {
			return b
		}
		return append(b[:longest:longest], 0)
	}
	return base.Span{Lo: bound(s.Lo), Hi: bound(s.Hi)}
}

// keyOf returns a copy of the key with the given ordered form. Of the start of a range it
// returns the longest key at or before it, since a range after a sort key of MaxKeyBytes
// starts at one that is a byte longer.
func keyOf(ordered []byte) Key {
	if len(ordered) > MaxKeyBytes {
		n, _ := keycodec.OrderedPKLen(ordered)
		ordered = ordered[:min(len(ordered), n+MaxKeyBytes)]
	}
	own := make([]byte, len(ordered))
	copy(own, ordered)
	return viewOf(own)
}

// viewOf returns the key with the given ordered form, whose memory it may share.
func viewOf(ordered []byte) Key {
	k, _, err := keycodec.DecodeOrdered(ordered, nil)
	if err != nil {
		k = Key{PK: ordered} // not reachable: this program has encoded it
	}
	return k
}
