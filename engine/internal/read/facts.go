package read

import (
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/stripe"
)

// spanFacts remembers what is known of spans of keys that are read again, such as the rows of a
// table. They belong to a generation, whose stripes they are about.
//
// Why beside the map of slots: a slot is a part of the order that any scan may begin in, so the map
// knows all keys, is as large as they are many, and never that a stripe lacks a span for certain.
// Facts cost nothing until a span is met again, and are about that span exactly.
type spanFacts [factShards]cache.Spans[*spanFact]

// factShards times four is how many spans are remembered.
const factShards = 8

// spanFact is what is known of a span: of each stripe, and of all of them the last count, and the
// image.
type spanFact struct {
	stripes [base.NumStripes]stripe.Known
	count   atomic.Pointer[spanCount]

	watch atomic.Pointer[imageWatch] // the last one
	rest  atomic.Int32               // scans that pass before the next
	pause atomic.Int32               // how many they were
}

// spanCount is how many items a span has at a seq.
//
// Invariant: the time does not matter, so each reader at that seq counts as many.
type spanCount struct {
	seq base.SeqNum
	n   int64
}

// of returns what is known of a span, nil if it is not remembered.
func (f *spanFacts) of(s base.Span) *spanFact {
	spans := &f[cache.SpanHash(s.Lo, s.Hi)%factShards]
	if fact := spans.Find(s.Lo, s.Hi); fact != nil {
		return *fact
	}
	if !spans.Meet(s.Lo, s.Hi) {
		return nil
	}
	fact := new(spanFact)
	spans.Keep(s.Lo, s.Hi, fact)
	return fact
}
