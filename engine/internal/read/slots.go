package read

import (
	"bytes"
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// # Slots
//
// An ordered scan of few rows asks 256 stripes for their next key, and most of them have none that
// matters. Slots are short parts of the order of all keys; a slotMap has for each of them the
// stripes that may have keys in it. A scan reads a window of some slots, in those stripes only, and
// the next window if rows are missing.
//
// The naive way: the map is made of what the stripes have, and thrown away when a file changes.
//
// Why it fails: one insert makes it wrong, and to make it reads all keys.
//
// The way taken: flushes and merges bring no keys that were not in a memtable before, so the map
// grows with the commits alone, and nothing is ever taken out of it. Writers note keys from the
// moment that the map is theirs (noting). Then it is filled stripe by stripe: the stripe's write
// mutex is taken once, so that every commit that missed the map is in the memtable, and the keys
// visible at the last seq are added. When all stripes are in, readers may use it.
//
// Invariant: a map that readers may use has every key that a reader at since or above can see. A
// version at or below the seq of the filling of its stripe was visible then or is hidden from such
// readers; a higher one was noted. A reader takes the map first and its views afterwards.
//
// Scans do the filling, each a part of it, because only many of them are worth it. A map that is
// not used goes with the next flush or merge, so that writers do not go on noting.

// slotMap says which stripes may have keys in which slot. Slot i are the keys before anchor i that
// are not before anchor i-1.
type slotMap struct {
	prefix  []byte          // of all anchors
	heads   []uint64        // of the anchors after it
	anchors []byte          // all of them, ascending
	ends    []uint32        // of the anchors in anchors
	sets    []atomic.Uint64 // slotWords for each slot, one more than there are anchors
	keys    int             // in a slot, about, when the map was made
	since   base.SeqNum     // readers below it do not use the map

	used    atomic.Uint64 // scans
	useless atomic.Uint64 // those of them that it did not help
	usedMs  atomic.Int64  // when it was used
}

// nearSlots is how far a slot is near: two keys of a stripe are some 32 apart.
const nearSlots = 128

// slotWords are the words of a set of stripes.
const slotWords = base.NumStripes / 64

// newSlotMap returns a map with anchors, which end at ends and ascend.
func newSlotMap(anchors []byte, ends []uint32, keys int) *slotMap {
	m := &slotMap{anchors: anchors, ends: ends, keys: keys}
	n := len(ends)
	m.sets = make([]atomic.Uint64, (n+1)*slotWords)
	if n == 0 {
		return m
	}
	first, last := m.anchor(0), m.anchor(n-1)
	common := 0
	for common < min(len(first), len(last)) && first[common] == last[common] {
		common++
	}
	m.prefix = first[:common]
	m.heads = make([]uint64, n)
	for i := range m.heads {
		m.heads[i] = base.KeyHead(m.anchor(i)[common:])
	}
	return m
}

// slots returns how many there are.
func (m *slotMap) slots() int { return len(m.ends) + 1 }

// anchor returns the first key after slot i.
func (m *slotMap) anchor(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = m.ends[i-1]
	}
	return m.anchors[from:m.ends[i]:m.ends[i]]
}

// slot returns the slot of a key.
func (m *slotMap) slot(key []byte) int { return m.slotFrom(0, key) }

// slotFrom is slot for a key that is not before slot from. It is faster if the slot is near.
func (m *slotMap) slotFrom(from int, key []byte) int {
	n := len(m.prefix)
	switch d := bytes.Compare(key[:min(len(key), n)], m.prefix); {
	case d < 0:
		return 0
	case d > 0:
		return len(m.heads)
	}
	head := base.KeyHead(key[n:])
	after := func(i int) bool { // whether anchor i is after the key
		h := m.heads[i]
		return h > head || h == head && bytes.Compare(m.anchor(i), key) > 0
	}
	lo, hi := from, len(m.heads)
	if near := from + nearSlots; from > 0 && near < hi && after(near) {
		hi = near
	}
	for lo < hi {
		i := int(uint(lo+hi) / 2)
		if after(i) {
			hi = i
		} else {
			lo = i + 1
		}
	}
	return lo
}

// add notes that a stripe may have keys in a slot.
func (m *slotMap) add(slot int, id uint8) {
	w := &m.sets[slot*slotWords+int(id/64)]
	if bit := uint64(1) << (id % 64); w.Load()&bit == 0 {
		w.Or(bit)
	}
}

// fill adds the keys that the cursor shows, in ascending order, of one stripe.
func (m *slotMap) fill(c *stripe.Cursor, id uint8) error {
	var slots []int
	for rows := c.Rows(); len(rows) > 0; rows = c.Rows() {
		slots = slots[:0]
		slot := 0
		for i := range rows {
			slot = m.slotFrom(slot, rows[i].Key)
			slots = append(slots, slot)
		}
		m.addAll(slots, id)
	}
	return c.Err()
}

// addAll is add for many slots. They are some 32 apart, so that most sets are not in a cache of the
// processor: all are loaded before one is changed, because loads overlap and atomic changes do not.
func (m *slotMap) addAll(slots []int, id uint8) {
	var all uint64
	for _, slot := range slots {
		all |= m.sets[slot*slotWords+int(id/64)].Load()
	}
	runtime.KeepAlive(all)
	for _, slot := range slots {
		m.add(slot, id)
	}
}

// stripesOf returns the stripes that may have keys in the slots [from, to), and their number.
func (m *slotMap) stripesOf(from, to int) (set stripeWords, n int) {
	for i := from * slotWords; i < to*slotWords; i++ {
		set[i%slotWords] |= m.sets[i].Load()
	}
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	return set, n
}

// stripeWords is a set of stripes.
type stripeWords [slotWords]uint64

func (s *stripeWords) has(id uint8) bool { return s[id/64]>>(id%64)&1 == 1 }
