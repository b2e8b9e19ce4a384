package memtable

import "github.com/kstonedb/kstone/internal/base"

// batchLocked is how many keys GetBatch looks up under one lock. Why a bound: a writer
// waits for it, about as long as for one insert.
const batchLocked = 16

// GetBatch is Get for a group of keys, those of ls with the given numbers, with one lock
// for several of them. It marks those that are in the table as found.
func (t *Table) GetBatch(ls []base.Lookup, which []uint32, snap base.SeqNum) {
	switch t.state.Load() {
	case stateEmpty:
		return
	case stateFrozen:
		t.getBatch(ls, which, snap, false)
		return
	}
	for len(which) > 0 {
		n := min(len(which), batchLocked)
		t.mu.Lock()
		t.getBatch(ls, which[:n], snap, true)
		t.mu.Unlock()
		which = which[n:]
	}
}

func (t *Table) getBatch(ls []base.Lookup, which []uint32, snap base.SeqNum, locked bool) {
	var e base.Entry
	for _, i := range which {
		if l := &ls[i]; t.get(l.Key, l.Hash, snap, &e, locked) {
			l.Set(&e)
		}
	}
}
