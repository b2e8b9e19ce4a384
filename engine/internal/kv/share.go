package kv

import (
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
)

// Share divides the stripes of a scan among the iterations that walk them: each stripe is read by
// one of them, in the order of the stripes. The zero Share is ready.
type Share struct{ next atomic.Int32 }

// Take takes the next positions of n of a share, some or fewer at the end, and returns the first of
// them; ok is false after the last.
func Take(s *Share, some, n int) (i int, ok bool) {
	i = int(s.next.Add(int32(some))) - some
	return i, i < n
}

// Left reports whether a stripe is still to be read.
func (s *Share) Left() bool { return s.next.Load() < base.NumStripes }
