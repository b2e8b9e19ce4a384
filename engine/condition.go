package engine

import (
	"bytes"

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

// span is a half-open range [lo, hi) of ordered keys; nil hi means no upper bound.
type span struct{ lo, hi []byte }

func (s span) empty() bool { return s.hi != nil && bytes.Compare(s.lo, s.hi) >= 0 }

// cut returns the span with bounds that can be stored: one with a sort key longer than any
// that an item has gives way to the first key after the MaxKeyBytes that it begins with. No
// item is between the two.
func (s span) cut() span {
	pkLen, _ := keycodec.OrderedPKLen(s.lo)
	longest := pkLen + MaxKeyBytes
	bound := func(b []byte) []byte {
		if len(b) <= longest {
			return b
		}
		return append(b[:longest:longest], 0)
	}
	return span{bound(s.lo), bound(s.hi)}
}

// span validates the condition and the partition key for an operation, and returns the
// ordered keys of partition pk that satisfy the condition. Both bounds are in one buffer, buf
// if it is large enough.
func (c SKCondition) span(op string, buf, pk []byte) (span, error) {
	if err := (Key{PK: pk}).Validate(); err != nil {
		return span{}, keyError(op, err)
	}
	if c.op == skEqual && len(c.a) == 0 {
		return span{}, keyError(op, ErrEmptySK)
	}
	if lo, after, _, _, _ := c.operands(); c.orNone && (len(lo) > 0 || !after) {
		return span{}, invalid("%s: a condition with a lower bound and OrNone", op)
	}
	return c.appendSpan(buf, pk), nil
}

// appendSpan returns the ordered keys of partition pk that satisfy the condition. Both
// bounds are in one buffer, buf if it is large enough.
func (c SKCondition) appendSpan(buf, pk []byte) span {
	n := 2*(len(pk)+2) + len(c.a) + len(c.b) + 2 // of a PK without zero bytes
	if cap(buf) < n {
		buf = make([]byte, 0, n)
	}
	lo := keycodec.AppendOrderedPK(buf[:0], pk)
	base := len(lo)
	loSK, loAfter, hiSK, hiAfter, hiEnd := c.operands()
	lo = append(lo, loSK...)
	if loAfter && !c.orNone {
		lo = append(lo, 0)
	}
	hi := append(lo[len(lo):], lo[:base]...)
	if hiEnd {
		return span{lo, partitionEnd(hi)}
	}
	hi = append(hi, hiSK...)
	if hiAfter || c.orNone && len(hiSK) == 0 {
		hi = append(hi, 0)
	}
	return span{lo, hi}
}

// operands returns the sort keys that bound the condition: from loSK (or right after
// it) to below hiSK (or right after it) or, with hiEnd, the end of the partition. An
// empty sort key stands for the item without one, and right after it come all others.
func (c SKCondition) operands() (loSK []byte, loAfter bool, hiSK []byte, hiAfter, hiEnd bool) {
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

// partitionEnd turns the lowest key of a partition, in place, into the first ordered
// key after it: the key ends in 00 00, and 00 01 is above every key of the partition
// because only an escaped zero byte of a longer PK can follow there.
func partitionEnd(lowest []byte) []byte {
	lowest[len(lowest)-1] = 1
	return lowest
}

func maxKey(a, b []byte) []byte {
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}

// Condition is what a conditional write requires of the present item. An expired
// item counts as absent.
type Condition struct {
	kind    condKind
	value   []byte
	version uint64
}

type condKind uint8

const (
	condNone condKind = iota
	condAbsent
	condPresent
	condValue
	condVersion
)

// IfAbsent requires that the key has no item.
func IfAbsent() Condition { return Condition{kind: condAbsent} }

// IfPresent requires that the key has an item.
func IfPresent() Condition { return Condition{kind: condPresent} }

// IfValue requires that the key's value equals v.
func IfValue(v []byte) Condition { return Condition{kind: condValue, value: v} }

// IfVersion requires that the key's item has exactly this Item.Version.
func IfVersion(v uint64) Condition { return Condition{kind: condVersion, version: v} }
