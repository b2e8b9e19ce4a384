package read

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

const (
	// minSlotScans is after how many short scans a map is made, and slotScansAgain after how many
	// if there was one that was of no use.
	minSlotScans   = 64
	slotScansAgain = 8192
	// slotKeysPerScan is how many keys a scan adds to a map that is filled: that takes two to
	// three times as long as the scan.
	slotKeysPerScan = 8192
	// slotKeys and maxSlotKeys are how many keys a slot has. Fewer take more memory; with more
	// most stripes have one of them.
	slotKeys    = 8
	maxSlotKeys = 128
	// slotBytes is about what a slot takes.
	slotBytes = 80
	// slotIdleMs is after what time without a scan a map goes.
	slotIdleMs = 30_000
)

// errSlotBytes is about anchors that are longer than what a map may take.
var errSlotBytes = errors.New("read: long keys")

// slotMaking makes the map of a database that is written and scanned in short pieces.
type slotMaking struct {
	noting atomic.Pointer[slotMap] // that writers note keys in
	usable atomic.Pointer[slotMap] // that readers use; the same, or nil

	mu     sync.Mutex
	scans  int // guarded by mu; until a map is begun
	filled int // guarded by mu; stripes that are in noting
	credit int // guarded by mu; keys that may be added
}

// Note notes a key that is about to be inserted. Requires: the stripe is locked.
func (s *State) Note(id uint8, key []byte) {
	if m := s.making.noting.Load(); m != nil {
		m.add(m.slot(key), id)
	}
}

// slotsFor returns the map for a short scan at a seq, or nil without a usable map.
func (s *State) slotsFor(seq base.SeqNum) *slotMap {
	b := &s.making
	m := b.usable.Load()
	if m == nil {
		if s.log != nil {
			b.proceed(s)
		}
		return nil
	}
	m.usedMs.Store(s.env.NowMs())
	if used := m.used.Add(1); used%1024 == 0 && m.useless.Load() > used/2 {
		b.drop(slotScansAgain)
	}
	if seq < m.since {
		return nil
	}
	return m
}

// ageSlots drops a map that is not used any more.
func (s *State) ageSlots(nowMs int64) {
	m := s.making.noting.Load()
	if m != nil && nowMs-m.usedMs.Load() > slotIdleMs {
		s.making.drop(minSlotScans)
	}
}

// drop drops the map; the next one is begun after so many scans.
func (b *slotMaking) drop(scans int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usable.Store(nil) // first: a reader that takes the map sees only commits that were noted
	base.Yield()
	b.noting.Store(nil)
	b.scans = minSlotScans - scans
}

// proceed counts a short scan and does its part of making a map. Another scan that does its part
// is not waited for, nor is a commit.
func (b *slotMaking) proceed(s *State) {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	m := b.noting.Load()
	if m == nil {
		if b.scans++; b.scans < minSlotScans && !base.Invariants {
			return
		}
		if m = s.newSlots(); m == nil {
			b.scans = minSlotScans - slotScansAgain
			return
		}
		b.filled, b.credit = 0, 0
		b.noting.Store(m)
	}
	m.usedMs.Store(s.env.NowMs())
	b.credit += slotKeysPerScan
	for b.filled < base.NumStripes && b.credit > 0 {
		n, ok := s.fillSlots(m, uint8(b.filled))
		if !ok {
			return
		}
		b.credit -= n
		b.filled++
	}
	if b.filled == base.NumStripes {
		b.usable.Store(m)
	}
}

// fillSlots adds the keys of a stripe, and returns about how many they are. It reports false if
// that is not possible now.
func (s *State) fillSlots(m *slotMap, id uint8) (keys int, ok bool) {
	st := &s.env.Stripes[id]
	if !st.TryLock() {
		return 0, false
	}
	last := s.log.LastSeq()
	st.Unlock()
	base.Yield()
	m.since = max(m.since, last) // readers load the map later
	err := s.readKeys([]uint8{id}, last, func(c *stripe.Cursor) error { return m.fill(c, id) })
	return int(keysOf(st)), err == nil
}

// keysOf returns about how many keys a stripe has.
func keysOf(st *stripe.Stripe) (n int64) {
	v := st.Acquire()
	if v == nil {
		return 0
	}
	defer v.Release()
	return v.Entries()
}

// newSlots returns an empty map for the keys of all stripes, nil if it would be too large. Its
// anchors are the keys of some stripes, which are a sample of all.
func (s *State) newSlots() *slotMap {
	total := int64(0)
	for id := range s.env.Stripes {
		total += keysOf(&s.env.Stripes[id])
	}
	keys := slotKeys
	for total/int64(keys)*slotBytes > int64(s.env.SlotBytes) {
		if keys *= 2; keys > maxSlotKeys {
			return nil
		}
	}
	var ids []uint8
	for id := 0; id < base.NumStripes; id += keys {
		ids = append(ids, uint8(id))
	}
	var anchors []byte
	var ends []uint32
	err := s.readKeys(ids, s.log.LastSeq(), func(c *stripe.Cursor) error {
		for rows := c.Rows(); len(rows) > 0; rows = c.Rows() {
			for i := range rows {
				anchors = append(anchors, rows[i].Key...)
				ends = append(ends, uint32(len(anchors)))
			}
			if len(anchors) > s.env.SlotBytes {
				return errSlotBytes
			}
		}
		return c.Err()
	})
	if err != nil {
		return nil
	}
	return newSlotMap(anchors, ends, keys)
}

// readKeys opens a cursor on the keys of some stripes that are visible at a seq, in their order.
func (s *State) readKeys(ids []uint8, seq base.SeqNum, read func(*stripe.Cursor) error) error {
	c := mergedPool.Get().(*stripe.Cursor)
	defer mergedPool.Put(c)
	defer c.Close()
	b := stripe.Bounds{Snap: seq, KeysOnly: true}
	for _, id := range ids {
		if err := c.Add(&s.env.Stripes[id], &b, nil); err != nil {
			return err
		}
	}
	return read(c)
}
