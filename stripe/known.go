package stripe

import (
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
)

// Known is what is remembered of a span of keys in one stripe. Why: to open a stripe and to search
// the span takes longer than to read the ten rows that it has of a small table, or to find that it
// has none. A zero Known knows nothing, nil also remembers nothing. It may be used concurrently.
type Known struct {
	// bare is 0; mayHold; or, by keys and bareFrom, at which number of keys there were none of the
	// span.
	//
	// Invariant: a stripe gets keys of the span only by further keys, which change keys: flushes
	// and merges only move or drop those that it has.
	bare  atomic.Uint64
	plain atomic.Pointer[plainSpan] // of some view
}

const (
	mayHold  = 1
	bareFrom = 2
)

// Lacks reports whether a stripe has no version of a key of [lo, hi), where nil hi is no bound. It
// looks if that is not known. It is false of a stripe that is closed: to open it fails.
func (k *Known) Lacks(s *Stripe, lo, hi []byte) (bool, error) {
	bare := k.bare.Load()
	if bare == mayHold {
		return false, nil
	}
	keys, open := s.keys()
	switch {
	case !open:
		return false, nil
	case bare == keys+bareFrom:
		return true, nil
	}
	base.Yield()
	lacks, err := s.lacks(lo, hi)
	switch {
	case err != nil:
	case lacks:
		k.bare.Store(keys + bareFrom)
	default:
		k.bare.Store(mayHold)
	}
	return lacks, err
}

// plainOf returns what is known of the runs of a view, or nil.
func (k *Known) plainOf(v *View) *plainSpan {
	if k == nil {
		return nil
	}
	if s := k.plain.Load(); s != nil && s.view == v.number {
		return s
	}
	return nil
}
