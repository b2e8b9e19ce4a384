package read

import (
	"runtime"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
)

// # Commit visibility
//
// wal.Log.Append gives a commit its number under the log's mutex. The commit then inserts its
// versions into the memtables of its stripes, beside other commits, which finish in any order. A
// snapshot needs a number up to which every commit is whole.
//
// The naive way: a commit that has inserted its versions raises the visible number to its own.
//
// Why it fails: an earlier commit may be unfinished. The snapshot has a hole, which fills while
// the snapshot is read:
//
//	A: Append returns 7
//	B: Append returns 8; inserts all of 8; visible = 8
//	R: takes a snapshot at 8; reads a key of commit 7: the old version
//	A: inserts all of 7
//	R: reads the same key at 8 again: the new version
//
// If B waited for A instead, every write would be as slow as the slowest one in flight.
//
// The way taken: publish(n) moves seq from n-1 to n. If an earlier commit is unfinished, publish
// stores n in a slot of the ring, and the earlier commit moves seq over it. Neither waits for the
// other. A commit that is more than visibleSlots ahead of seq does wait: its slot may hold a mark
// that is still needed. It holds no lock then. A slot holds the number itself, not a flag: a mark
// of an earlier round equals no number that is looked for, so nothing clears slots.
//
// Every publish looks at the slot after seq once more after its own step. Without this second look
// seq could stop for good: B finds seq at 6, A moves seq to 7 and finds slot 8 empty, B marks slot
// 8. Atomic operations have one order, so A sees B's mark, or B's second look sees A's 7.
//
// A commit at Process is acknowledged when publish returns, perhaps before it is visible. So
// readers wait in place of writers: State.take waits until visible reaches the log's LastSeq,
// and a Get waits for the commit that it has met (Reader.find).
//
// Invariants: seq never passes an unfinished commit and never falls. A snapshot at seq holds whole
// commits without a hole, over all stripes, and every commit acknowledged before it was taken.
// Nothing fails between Append and publish: a number that is never published stops seq for good.
//
// What a crash leaves: none of this. Open replays the log and resets seq to the last number. A
// reader may have seen a commit that a power cut takes back: publish comes before the sync.

// visible is the number up to which all commits are in the memtables, and the ring of the finished
// commits above it.
type visible struct {
	seq   atomic.Uint64
	_     [56]byte // the number is read by all, the slots are written
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
	for v.seq.Load() < uint64(seq) {
		runtime.Gosched()
	}
}
