package memtable

import "bytes"

const (
	minIndexSlots = 64
	// At most 3/4 of the slots are taken.
	indexLoadNum, indexLoadDen = 3, 4
)

// hashIndex maps keys to nodes: open addressing, linear probing, no deletion. A slot
// holds the upper 32 bits of the key's hash (the tag) above the node's address; 0 is
// an empty slot. The tag also chooses the slot, so that growing reads no node.
type hashIndex struct {
	slots []uint64
	taken int
}

// find returns the node of key, or 0.
func (x *hashIndex) find(c chunkTable, key []byte, hash uint64) uint32 {
	if len(x.slots) == 0 {
		return 0
	}
	tag := hash >> 32
	mask := uint64(len(x.slots) - 1)
	for i := tag & mask; ; i = (i + 1) & mask {
		s := x.slots[i]
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
	if (x.taken+1)*indexLoadDen > len(x.slots)*indexLoadNum {
		x.grow()
	}
	x.taken++
	x.place(hash>>32<<32 | uint64(node))
}

func (x *hashIndex) place(slot uint64) {
	mask := uint64(len(x.slots) - 1)
	i := slot >> 32 & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = slot
}

func (x *hashIndex) grow() {
	old := x.slots
	x.slots = make([]uint64, max(minIndexSlots, 2*len(old)))
	for _, s := range old {
		if s != 0 {
			x.place(s)
		}
	}
}

// heldBytes returns the memory of the slots.
func (x *hashIndex) heldBytes() int64 { return int64(len(x.slots)) * 8 }
