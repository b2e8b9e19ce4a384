package store

import (
	"bytes"
	"context"
	"fmt"
)

// Kind says which of the fields of a Range select its items.
type Kind uint8

// The kinds of ranges.
const (
	// KindInterval selects the partitions from From to before To. It is the zero Kind, so
	// that the zero Range is the whole store.
	KindInterval Kind = iota
	// KindPartitions selects PKs with Spans or Each.
	KindPartitions
	// KindPoint selects Key.
	KindPoint
)

// Range selects items and says how they are returned. It is made by Point, Partition,
// Partitions or Interval, and then refined.
type Range struct {
	Kind Kind

	// Key is the one key of a point.
	Key Key

	// PKs are partitions, in ascending order and each of them once. Spans restrict the sort
	// keys in all of them: ranges in ascending order that do not overlap; no spans select
	// whole partitions. Each, if not nil, takes the place of Spans and has a list of its own
	// for each of PKs.
	PKs   [][]byte
	Spans []Span
	Each  [][]Span

	// From and To bound the partition keys of an interval: From is included, To is not. Nil
	// is no bound.
	From, To []byte

	// Unordered returns partitions one after the other, by PK and sort key, instead of
	// merged by sort key and PK; and an interval in any order, in which each partition is
	// in one piece and in order. Both are faster.
	Unordered bool
	// Reverse turns the order around.
	Reverse bool
	// Limit ends the iteration after that many items. 0 means no limit.
	Limit int
	// After starts after the place of this key in the order, if its PK is not nil. There
	// need be no item of it, except where there is no order: in an unordered interval it is
	// the key of an item that the same range has returned.
	After Key
	// Share, if not nil, divides an unordered interval among all reads with the same one: see
	// Sharer.
	Share *Share
	// Filter, if not nil, decides which items are returned; Limit counts returned items. It
	// is called with an item as valid as in a loop body.
	Filter func(Item) bool
	// MayHold, if not nil, reports whether a block of items with these zones may have one that is
	// wanted. It is a hint, which saves reading: a store that keeps no zones shows all items, one
	// that does may show an older version of an item that is not wanted. So the caller must drop
	// each item that does not satisfy what MayHold follows from.
	MayHold func(Zone) bool
	// Blocks, if not nil, counts the blocks that were tested by MayHold. A store without zones
	// counts none.
	Blocks *BlockCounts
	// KeysOnly says that the values of items are not needed: a store that keeps large values apart
	// need not read them.
	KeysOnly bool
}

// Point is the range of one key.
func Point(key Key) Range { return Range{Kind: KindPoint, Key: key} }

// Partition is the range of one partition, restricted to spans if there are any.
func Partition(pk []byte, spans ...Span) Range {
	return Range{Kind: KindPartitions, PKs: [][]byte{pk}, Spans: spans}
}

// Partitions is the range of several partitions, merged by sort key.
func Partitions(pks [][]byte, spans ...Span) Range {
	return Range{Kind: KindPartitions, PKs: pks, Spans: spans}
}

// Interval is the range of all partitions from PK from to before to; nil is no bound.
func Interval(from, to []byte) Range {
	return Range{Kind: KindInterval, From: from, To: to}
}

// Validate checks what all implementations refuse. The error matches ErrInvalid, or is that
// of an invalid key.
func (r *Range) Validate() error {
	switch {
	case r.Limit < 0:
		return invalid("limit %d is negative", r.Limit)
	case r.Kind == KindPoint:
		return r.Key.Validate()
	case r.Kind == KindPartitions:
		return r.validatePartitions()
	case r.Kind != KindInterval:
		return invalid("kind %d of range is unknown", r.Kind)
	}
	return nil
}

func (r *Range) validatePartitions() error {
	switch {
	case r.Each != nil && len(r.Each) != len(r.PKs):
		return invalid("there are spans for %d of %d partitions", len(r.Each), len(r.PKs))
	case r.Each != nil && r.Spans != nil:
		return invalid("there are both Spans and Each")
	}
	for i, pk := range r.PKs {
		if err := (Key{PK: pk}).Validate(); err != nil {
			return err
		}
		if i > 0 && bytes.Compare(r.PKs[i-1], pk) >= 0 {
			return invalid("partition %d is not above the one before", i)
		}
		if err := validateSpans(r.SpansOf(i)); err != nil {
			return err
		}
	}
	return nil
}

func validateSpans(spans []Span) error {
	for i := 1; i < len(spans); i++ {
		end := spans[i-1].End
		if end == nil || bytes.Compare(end, spans[i].Start) > 0 {
			return invalid("span %d does not begin after the one before", i)
		}
	}
	return nil
}

// SpansOf returns the spans of partition PKs[i].
func (r *Range) SpansOf(i int) []Span {
	if r.Each != nil {
		return r.Each[i]
	}
	return r.Spans
}

// CheckContext returns why a call must not begin with ctx: it is nil, which is
// ErrInvalid, or it has ended.
func CheckContext(ctx context.Context) error {
	if ctx == nil {
		return invalid("the context is nil: pass context.Background() for none")
	}
	return context.Cause(ctx)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTooLarge, fmt.Sprintf(format, args...))
}
