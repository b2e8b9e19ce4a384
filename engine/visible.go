package engine

import (
	"runtime"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
)

// visible tracks which commits are completely in the memtables. Sequence numbers
// are assigned under the log's mutex, but commits finish inserting in any order;
// the visible number is the highest one below which nothing is unfinished. A
// snapshot at it therefore sees whole commits, in commit order, over all stripes.
//
// A finished commit marks its slot of a ring and advances the number over all
// marked slots. Between assigning and publishing a commit does memory work only,
// so the ring is never full for long.
type visible struct {
	seq   atomic.Uint64
	_     [56]byte // the number is read by everybody, the slots are written
	slots [visibleSlots]atomic.Uint64
}

// visibleSlots bounds the commits between assigning and publishing. It only needs
// to exceed the goroutines that can be there at once by a margin that makes waiting
// rare.
const visibleSlots = 4096

func (v *visible) load() base.SeqNum { return base.SeqNum(v.seq.Load()) }

// reset sets the number; nothing may be in flight.
func (v *visible) reset(seq base.SeqNum) { v.seq.Store(uint64(seq)) }

// publish marks the commit as finished.
func (v *visible) publish(seq base.SeqNum) {
	n := uint64(seq)
	if !v.seq.CompareAndSwap(n-1, n) { // an earlier commit is unfinished
		for n-v.seq.Load() > visibleSlots {
			runtime.Gosched()
		}
		v.slots[n%visibleSlots].Store(n)
		base.Yield()
	}
	for {
		next := v.seq.Load() + 1
		if v.slots[next%visibleSlots].Load() != next {
			return
		}
		v.seq.CompareAndSwap(next-1, next)
	}
}

// wait returns when every commit up to seq is visible.
func (v *visible) wait(seq base.SeqNum) {
	for i := 0; v.seq.Load() < uint64(seq); i++ {
		runtime.Gosched()
	}
}
