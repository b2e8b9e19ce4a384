package read

import (
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/stripe"
)

// bareSpans remembers in which stripes spans of keys have nothing. Why: a table of ten rows is in
// ten stripes at most, and to open the others takes most of the time of a scan. They belong to a
// generation, whose stripes they are about.
type bareSpans [bareShards]cache.Spans[*bareStripes]

// bareShards times four is how many spans are remembered, of 2 KiB each.
const bareShards = 8

// bareStripes is what is known of a span, by stripe: nothing; mayHold; or by stripe.Keys and
// bareFrom at which number of keys the stripe had none of the span.
//
// Invariant: a stripe gets keys of the span only by further keys, which change stripe.Keys: flushes
// and merges only move or drop those that it has.
type bareStripes [base.NumStripes]atomic.Uint64

const (
	mayHold  = 1
	bareFrom = 2
)

// of returns what is known of a span, nil if it is not remembered.
func (b *bareSpans) of(s base.Span) *bareStripes {
	spans := &b[cache.SpanHash(s.Lo, s.Hi)%bareShards]
	if known := spans.Find(s.Lo, s.Hi); known != nil {
		return *known
	}
	if !spans.Meet(s.Lo, s.Hi) {
		return nil
	}
	known := new(bareStripes)
	spans.Keep(s.Lo, s.Hi, known)
	return known
}

// has reports whether stripe s, with that number, has nothing of the span. It looks if that is not
// known.
func (b *bareStripes) has(id uint8, s *stripe.Stripe, span base.Span) (bool, error) {
	known := b[id].Load()
	if known == mayHold {
		return false, nil
	}
	keys := s.Keys()
	if known == keys+bareFrom {
		return true, nil
	}
	base.Yield()
	lacks, err := s.Lacks(span.Lo, span.Hi)
	switch {
	case err != nil:
	case lacks:
		b[id].Store(keys + bareFrom)
	default:
		b[id].Store(mayHold)
	}
	return lacks, err
}
