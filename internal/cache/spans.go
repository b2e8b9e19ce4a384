package cache

import (
	"bytes"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
)

// Spans remembers what is known of some spans of keys of something that never changes. Why: the
// rows of a table are such a span, and a table that was counted or scanned is counted or scanned
// again. A span is kept when it is met again, so that ranges which differ each time leave nothing.
//
// The zero Spans is empty. It may be used concurrently.
type Spans[T any] struct {
	kept [maxSpans]atomic.Pointer[keptSpan[T]]
	seen [maxSpans]atomic.Uint64 // hashes of spans that were met
}

// keptSpan is the keys of [lo, hi), where nil hi is no bound.
type keptSpan[T any] struct {
	lo, hi []byte
	known  T
}

const (
	maxSpans = 4
	// maxSpanBytes bounds the keys of a span that is kept.
	maxSpanBytes = 128
)

// Find returns what is known of [lo, hi), nil if nothing is. It must not be changed.
func (s *Spans[T]) Find(lo, hi []byte) *T {
	for i := range s.kept {
		k := s.kept[i].Load()
		if k == nil {
			break
		}
		if bytes.Equal(k.lo, lo) && bytes.Equal(k.hi, hi) && (k.hi == nil) == (hi == nil) {
			return &k.known
		}
	}
	return nil
}

// Meet takes note of a span that Find does not know, and reports whether it should be kept: then
// the caller calls Keep.
func (s *Spans[T]) Meet(lo, hi []byte) (keep bool) {
	if len(lo)+len(hi) > maxSpanBytes {
		return false
	}
	h := SpanHash(lo, hi)
	return s.seen[h%maxSpans].Swap(h) == h
}

// Keep keeps what is known of a span.
func (s *Spans[T]) Keep(lo, hi []byte, known T) {
	k := &keptSpan[T]{bytes.Clone(lo), bytes.Clone(hi), known}
	for i := range s.kept {
		if s.kept[i].CompareAndSwap(nil, k) {
			return
		}
	}
	s.kept[SpanHash(lo, hi)%maxSpans].Store(k)
}

// SpanHash returns a hash of a span.
func SpanHash(lo, hi []byte) uint64 { return base.Hash(lo, base.Hash(hi, 1)) }
