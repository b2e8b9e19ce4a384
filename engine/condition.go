package engine

import (
	"bytes"

	"github.com/kstonedb/kstone/keycodec"
)

// skOp is the operator of an SKCondition.
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
)

// SKCondition restricts the sort keys a query returns. The zero value accepts every
// item of the partition, the one without sort key included; all others only items
// with a sort key. Operands are compared as bytes; build composite operands with
// package keycodec. The operands are referenced, not copied.
type SKCondition struct {
	op   skOp
	a, b []byte
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

// span is a half-open range [lo, hi) of ordered keys; nil hi means no upper bound.
type span struct{ lo, hi []byte }

func (s span) empty() bool { return s.hi != nil && bytes.Compare(s.lo, s.hi) >= 0 }

func (s span) contains(key []byte) bool {
	return bytes.Compare(key, s.lo) >= 0 && (s.hi == nil || bytes.Compare(key, s.hi) < 0)
}

// span returns the ordered keys of partition pk that satisfy the condition.
func (c SKCondition) span(pk []byte) span {
	base := keycodec.AppendOrderedPK(make([]byte, 0, len(pk)+len(c.a)+len(c.b)+8), pk)
	at := func(sk []byte, after bool) []byte {
		k := make([]byte, 0, len(base)+len(sk)+1)
		k = append(append(k, base...), sk...)
		if after {
			k = append(k, 0)
		}
		return k
	}
	first := at(nil, true) // the lowest key with a sort key
	end := partitionEnd(base)
	switch c.op {
	case skEqual:
		return span{at(c.a, false), at(c.a, true)}
	case skLess:
		return span{first, at(c.a, false)}
	case skLessEqual:
		return span{first, at(c.a, true)}
	case skGreater:
		return span{at(c.a, true), end}
	case skGreaterEqual:
		return span{maxKey(at(c.a, false), first), end}
	case skBetween:
		return span{maxKey(at(c.a, false), first), at(c.b, true)}
	case skBeginsWith:
		hi, ok := keycodec.PrefixEnd(nil, c.a)
		if !ok {
			return span{maxKey(at(c.a, false), first), end}
		}
		return span{at(c.a, false), at(hi, false)}
	}
	return span{base, end}
}

// partitionEnd returns the first ordered key behind the partition whose lowest key
// is base: base ends in 00 00, and 00 01 is above every key of the partition
// because only an escaped zero byte of a longer PK can follow there.
func partitionEnd(base []byte) []byte {
	end := bytes.Clone(base)
	end[len(end)-1] = 1
	return end
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
