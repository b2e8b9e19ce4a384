package commit

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Conditions of a batch. All of them are about the state right before the batch, whatever
// the batch itself writes, and are checked in the order in which they were added, with
// the stripes of the batch locked: nothing can come between the checks and the writes. If
// one fails, nothing of the batch is written, and Commit returns an *UnmetError about the
// first that failed.

// Condition is what a commit requires of the present item of a key. An expired item counts as
// absent.
type Condition struct {
	Kind    CondKind
	Value   []byte // of CondValue
	Version uint64 // of CondVersion
}

// CondKind is what a condition compares.
type CondKind uint8

// The kinds of conditions. CondNone always holds.
const (
	CondNone CondKind = iota
	CondAbsent
	CondPresent
	CondValue
	CondVersion
)

// Holds reports whether a key with a live version, or without one, satisfies the condition.
func (c *Condition) Holds(exists bool, seq base.SeqNum, value []byte) bool {
	switch c.Kind {
	case CondAbsent:
		return !exists
	case CondPresent:
		return exists
	case CondValue:
		return exists && bytes.Equal(value, c.Value)
	case CondVersion:
		return exists && uint64(seq) == c.Version
	}
	return true
}

// UnmetError says which condition of a batch does not hold. It is valid until the batch is
// reset or committed again.
type UnmetError struct {
	Key    []byte // ordered; of the batch
	Op     int    // the number of the operation among those of the batch, from 0 on
	Exists bool
	Seq    base.SeqNum // of the present item, if Exists
}

// Error implements error.
func (e *UnmetError) Error() string {
	return fmt.Sprintf("the condition of operation %d does not hold", e.Op)
}

// conds are the conditions of a batch.
type conds struct {
	list  []cond
	bytes int // what they hold beyond the keys of writes
	unmet UnmetError
}

// cond is a condition of a batch; positions refer to the batch's keys.
type cond struct {
	op          int
	kind        CondKind
	stripe      uint8
	key, keyEnd uint32 // ordered
	value, vEnd uint32 // of CondValue
	version     uint64 // of CondVersion
}

// Require adds an operation that is a condition on key.
func (b *Batch) Require(key keycodec.Key, c *Condition) {
	op := b.Len()
	b.others++
	if c.Kind == CondNone {
		return
	}
	from, stripe := len(b.keys), keycodec.Stripe(key.PK)
	b.keys = keycodec.AppendOrdered(b.keys, key)
	at := b.addCond(c)
	at.op, at.stripe, at.key, at.keyEnd = op, stripe, uint32(from), at.value
	b.stripes.Add(stripe)
	b.conds.bytes += len(key.PK) + len(key.SK)
}

// RequireOfLast makes c the condition of the last operation, which writes one key.
func (b *Batch) RequireOfLast(c *Condition) {
	if c.Kind == CondNone {
		return
	}
	w := &b.ops[len(b.ops)-1]
	at := b.addCond(c)
	at.op, at.stripe, at.key, at.keyEnd = b.Len()-1, w.stripe, w.key, w.keyEnd
}

// addCond adds c as the condition of a key that the caller fills in. The value comes after all
// keys so far.
func (b *Batch) addCond(c *Condition) *cond {
	if b.conds == nil {
		b.conds = &conds{}
	}
	cs := b.conds
	cs.list = append(cs.list, cond{})
	at := &cs.list[len(cs.list)-1]
	at.kind, at.version, at.value = c.Kind, c.Version, uint32(len(b.keys))
	if len(c.Value) > 0 {
		b.keys = append(b.keys, c.Value...)
	}
	at.vEnd = uint32(len(b.keys))
	cs.bytes += len(c.Value)
	return at
}

// hasConds reports whether the batch has conditions.
func (b *Batch) hasConds() bool { return b.conds != nil && len(b.conds.list) > 0 }

// condition returns a condition of the batch. Its value is a view.
func (b *Batch) condition(c *cond) Condition {
	return Condition{Kind: c.kind, Value: b.keys[c.value:c.vEnd], Version: c.version}
}

// holds reports whether a key with a live version, or without one, satisfies its condition.
func (b *Batch) holds(c *cond, exists bool, seq base.SeqNum, value []byte) bool {
	if c.kind == CondAbsent {
		return !exists
	}
	of := b.condition(c)
	return of.Holds(exists, seq, value)
}

// unmet makes a condition the one that does not hold. Why in place: the error would be made
// elsewhere and copied.
func (b *Batch) unmet(c *cond, exists bool, seq base.SeqNum) *UnmetError {
	u := &b.conds.unmet
	u.Key, u.Op, u.Exists, u.Seq = b.keys[c.key:c.keyEnd:c.keyEnd], c.op, exists, seq
	return u
}

// check looks the keys of the conditions up and reports the first condition that does not hold.
// Requires: their stripes are locked.
func (b *Batch) check(ctx context.Context, s *read.State) error {
	list := b.conds.list
	if len(list) > read.MaxAlone {
		return b.checkTogether(ctx, s)
	}
	for i := range list {
		c := &list[i]
		e := base.Entry{Key: b.keys[c.key:c.keyEnd:c.keyEnd]}
		exists, err := s.LookupLocked(c.stripe, c.kind == CondValue, &e)
		if err != nil {
			return err
		}
		if !b.holds(c, exists, e.Seq, e.Value) {
			return b.unmet(c, exists, e.Seq)
		}
	}
	return nil
}

// checkTogether is check for more keys than are looked up one by one.
func (b *Batch) checkTogether(ctx context.Context, s *read.State) error {
	list := b.conds.list
	first := len(list)
	values := slices.ContainsFunc(list, func(c cond) bool { return c.kind == CondValue })
	at := func(i int) (id uint8, from, to uint32) {
		c := &list[i]
		return c.stripe, c.key, c.keyEnd
	}
	take := func(found []base.Lookup, nowMs int64) {
		for i := range found {
			f := &found[i]
			n, exists := int(f.Index), f.Live(nowMs)
			if n > first {
				continue
			}
			if c := &list[n]; !b.holds(c, exists, f.Seq, f.Value) {
				first = n
				_ = b.unmet(c, exists, f.Seq)
			}
		}
	}
	err := s.LookupManyLocked(ctx, len(list), values, b.keys, at, take)
	if err != nil || first == len(list) {
		return err
	}
	return &b.conds.unmet
}
