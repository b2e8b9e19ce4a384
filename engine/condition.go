package engine

import (
	"bytes"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// skOp is the operator of an SKCondition. Format: the numbers are part of the
// fingerprint of cursors; never renumber.
type skOp uint8

const (
	skAny skOp = iota
	skEqual
	skLess
	skLessEqual
	skGreater
	skGreaterEqual
	skBetween
	skBeginsWith
	skRange
)

// SKCondition restricts the sort keys a query returns. The zero value accepts every
// item of the partition, the one without sort key included; all others only items
// with a sort key. Operands are compared as bytes and may have any length, also one that no
// sort key has; build composite operands with package keycodec. The operands are
// referenced, not copied.
type SKCondition struct {
	op     skOp
	orNone bool // the item without sort key, too
	a, b   []byte
}

// SKEqual accepts exactly v.
func SKEqual(v []byte) SKCondition { return SKCondition{op: skEqual, a: v} }

// SKLess accepts sort keys below v.
func SKLess(v []byte) SKCondition { return SKCondition{op: skLess, a: v} }

// SKLessEqual accepts sort keys up to v.
func SKLessEqual(v []byte) SKCondition { return SKCondition{op: skLessEqual, a: v} }

// SKGreater accepts sort keys above v.
func SKGreater(v []byte) SKCondition { return SKCondition{op: skGreater, a: v} }

// SKGreaterEqual accepts sort keys from v on.
func SKGreaterEqual(v []byte) SKCondition { return SKCondition{op: skGreaterEqual, a: v} }

// SKBetween accepts sort keys from lo to hi, both included. It accepts nothing if
// lo is above hi.
func SKBetween(lo, hi []byte) SKCondition { return SKCondition{op: skBetween, a: lo, b: hi} }

// SKBeginsWith accepts sort keys that start with p. For composite sort keys p may
// be an encoded prefix of the first fields (keycodec.Schema.AppendPrefix). An empty
// p accepts every sort key.
func SKBeginsWith(p []byte) SKCondition { return SKCondition{op: skBeginsWith, a: p} }

// SKRange accepts sort keys from lo on and below hi. A lo that is nil or empty is no lower
// bound, a nil hi is no upper bound; below an hi that is empty but not nil there is
// nothing. SKRange(nil, nil) accepts every sort key, but not the item without one. It is
// the condition for a keycodec.Span.
func SKRange(lo, hi []byte) SKCondition {
	return SKCondition{op: skRange, a: lo, b: hi}
}

// OrNone returns the condition that also accepts the item without sort key, which comes
// before all others. The condition must have no lower bound: SKLess, SKLessEqual, SKRange and
// SKBetween from nil on, SKBeginsWith of nothing. With others, reads and range deletes
// return ErrInvalid, since what is selected would not be one range. So
// SKRange(nil, hi).OrNone() selects a partition from its beginning to before hi, and
// SKRange(nil, []byte{}).OrNone() its item without sort key alone.
func (c SKCondition) OrNone() SKCondition {
	c.orNone = c.op != skAny
	return c
}

// span validates the condition and the partition key for an operation, and returns the
// ordered keys of partition pk that satisfy the condition, and the length of what all of them
// begin with. Both bounds are in one buffer, buf if it is large enough.
func (c *SKCondition) span(op string, buf, pk []byte) (s base.Span, prefix int, err error) {
	if err := (Key{PK: pk}).Validate(); err != nil {
		return base.Span{}, 0, keyError(op, err)
	}
	if c.op == skEqual && len(c.a) == 0 {
		return base.Span{}, 0, keyError(op, ErrEmptySK)
	}
	if c.orNone {
		if lo, after, _, _, _ := c.operands(); len(lo) > 0 || !after {
			return s, 0, invalid("%s: a condition with a lower bound and OrNone", op)
		}
	}
	s, prefix = c.appendSpan(buf, pk)
	return s, prefix, nil
}

// appendSpan is span of what is valid.
func (c *SKCondition) appendSpan(buf, pk []byte) (s base.Span, prefix int) {
	n := 2*(len(pk)+2) + len(c.a) + len(c.b) + 2 // of a PK without zero bytes
	if cap(buf) < n {
		buf = make([]byte, 0, n)
	}
	lo := keycodec.AppendOrderedPK(buf[:0], pk)
	prefix = len(lo)
	loSK, loAfter, hiSK, hiAfter, hiEnd := c.operands()
	lo = append(lo, loSK...)
	if loAfter && !c.orNone {
		lo = append(lo, 0)
	}
	hi := append(lo[len(lo):], lo[:prefix]...)
	if hiEnd {
		return base.Span{Lo: lo, Hi: read.PartitionEnd(hi)}, prefix
	}
	hi = append(hi, hiSK...)
	if hiAfter || c.orNone && len(hiSK) == 0 {
		hi = append(hi, 0)
	}
	return base.Span{Lo: lo, Hi: hi}, prefix
}

// operands returns the sort keys that bound the condition: from loSK (or right after
// it) to below hiSK (or right after it) or, with hiEnd, the end of the partition. An
// empty sort key stands for the item without one, and right after it come all others.
func (c *SKCondition) operands() (loSK []byte, loAfter bool, hiSK []byte, hiAfter, hiEnd bool) {
	switch c.op {
	case skEqual:
		return c.a, false, c.a, true, false
	case skLess:
		return nil, true, c.a, false, false
	case skLessEqual:
		return nil, true, c.a, true, false
	case skGreater:
		return c.a, true, nil, false, true
	case skGreaterEqual:
		return c.a, len(c.a) == 0, nil, false, true
	case skBetween:
		return c.a, len(c.a) == 0, c.b, true, false
	case skBeginsWith:
		end, ok := keycodec.PrefixEnd(nil, c.a)
		return c.a, len(c.a) == 0, end, false, !ok
	case skRange:
		return c.a, len(c.a) == 0, c.b, false, c.b == nil
	}
	return nil, false, nil, false, true
}

func maxKey(a, b []byte) []byte {
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}

// Condition is what a conditional write requires of the present item. An expired
// item counts as absent.
type Condition struct{ core commit.Condition }

// IfAbsent requires that the key has no item.
func IfAbsent() Condition { return Condition{commit.Condition{Kind: commit.CondAbsent}} }

// IfPresent requires that the key has an item.
func IfPresent() Condition { return Condition{commit.Condition{Kind: commit.CondPresent}} }

// IfValue requires that the key's value equals v.
func IfValue(v []byte) Condition {
	return Condition{commit.Condition{Kind: commit.CondValue, Value: v}}
}

// IfVersion requires that the key's item has exactly this Item.Version.
func IfVersion(v uint64) Condition {
	return Condition{commit.Condition{Kind: commit.CondVersion, Version: v}}
}

// capped returns the condition for a batch, c's own. Of a value that is longer than stored ones
// may be, it keeps so much that it equals none.
func (c *Condition) capped() *commit.Condition {
	c.core.Value = c.core.Value[:min(len(c.core.Value), MaxValueBytes+1)]
	return &c.core
}

// bytes returns how much of a batch's room the condition takes beside its write, 0 for none.
func (c Condition) bytes(key Key) int {
	if c.core.Kind == commit.CondNone {
		return 0
	}
	return len(c.core.Value) + len(key.PK) + len(key.SK)
}
