package memtable

import (
	"bytes"
	"sync/atomic"
)

const (
	minIndexSlots = 64
	// At most 3/4 of the slots are taken.
	indexLoadNum, indexLoadDen = 3, 4
)

// hashIndex maps keys to nodes: open addressing, linear probing, no deletion. A slot
// holds the upper 32 bits of the key's hash (the tag) above the node's address; 0 is
// an empty slot. The tag also chooses the slot, so that growing reads no node.
//
// One goroutine at a time uses an index, but for absent, which runs beside all. Why: most lookups
// are of keys that are not in the memtable, and those of a hot partition would wait for each other.
type hashIndex struct {
	table atomic.Pointer[[]atomic.Uint64] // nil while empty; its slots change once, from 0
	taken int
}

func (x *hashIndex) slots() []atomic.Uint64 {
	if p := x.table.Load(); p != nil {
		return *p
	}
	return nil
}

// absent reports whether no key with that hash had been inserted when it began. If it returns
// false, there may still be none.
func (x *hashIndex) absent(hash uint64) bool {
	slots := x.slots()
	if len(slots) == 0 {
		return true
	}
	tag := hash >> 32
	mask := uint64(len(slots) - 1)
	for i := tag & mask; ; i = (i + 1) & mask {
		switch s := slots[i].Load(); {
		case s == 0:
			return true
		case s>>32 == tag:
			return false
		}
	}
}

// find returns the node of key, or 0.
func (x *hashIndex) find(c chunkTable, key []byte, hash uint64) uint32 {
	slots := x.slots()
	if len(slots) == 0 {
		return 0
	}
	tag := hash >> 32
	mask := uint64(len(slots) - 1)
	for i := tag & mask; ; i = (i + 1) & mask {
		s := slots[i].Load()
		if s == 0 {
			return 0
		}
		if s>>32 == tag && bytes.Equal(c.key(uint32(s)), key) {
			return uint32(s)
		}
	}
}

// insert adds a node whose key is not in the index.
func (x *hashIndex) insert(hash uint64, node uint32) {
	slots := x.slots()
	if (x.taken+1)*indexLoadDen > len(slots)*indexLoadNum {
		more := grown(slots)
		x.table.Store(&more) // whole: absent may read it at once
		slots = more
	}
	x.taken++
	slot := hash>>32<<32 | uint64(node)
	place(slots, slot)
}

// place puts a slot into slots.
func place(slots []atomic.Uint64, slot uint64) {
	mask := uint64(len(slots) - 1)
	i := slot >> 32 & mask
	for slots[i].Load() != 0 {
		i = (i + 1) & mask
	}
	slots[i].Store(slot)
}

// grown returns twice the slots with what is in the old ones.
func grown(old []atomic.Uint64) []atomic.Uint64 {
	slots := make([]atomic.Uint64, max(minIndexSlots, 2*len(old)))
	for i := range old {
		if s := old[i].Load(); s != 0 {
			place(slots, s)
		}
	}
	return slots
}

// heldBytes returns the memory of the slots.
func (x *hashIndex) heldBytes() int64 { return int64(len(x.slots())) * 8 }
