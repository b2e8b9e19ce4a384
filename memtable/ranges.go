package memtable

import (
	"bytes"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
)

// DeleteRange adds a range tombstone. It copies Start and End. The versions in the
// table stay; readers apply range tombstones themselves.
//
// Requires: as for Put.
func (t *Table) DeleteRange(rt base.RangeTombstone) {
	rt.Start, rt.End = bytes.Clone(rt.Start), bytes.Clone(rt.End)
	t.mu.Lock()
	t.checkWriteLocked()
	t.ranges = append(t.ranges, rt)
	t.rangeBytes += int64(len(rt.Start)+len(rt.End)) + 2*int64(unsafe.Sizeof(rt))
	t.noteSeqLocked(rt.Seq)
	t.updateBytesLocked()
	t.hasRanges.Store(true)
	t.mu.Unlock()
}

// HasRanges reports whether the table has a range tombstone. It is one atomic load.
func (t *Table) HasRanges() bool { return t.hasRanges.Load() }

// Ranges returns the number of range tombstones.
func (t *Table) Ranges() int {
	if !t.hasRanges.Load() {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ranges)
}

// RangeTombstones appends to dst the range tombstones with a sequence number of at
// most snap, in the order they came, and returns it. Start and End are shared and must
// not be changed; they stay valid as long as they are referenced.
func (t *Table) RangeTombstones(
	dst []base.RangeTombstone, snap base.SeqNum,
) []base.RangeTombstone {
	if !t.hasRanges.Load() {
		return dst
	}
	t.mu.Lock()
	ranges := t.ranges // elements never change, appends go after them
	t.mu.Unlock()
	for _, rt := range ranges {
		if rt.Seq <= snap {
			dst = append(dst, rt)
		}
	}
	return dst
}

// CoverSeq returns the highest sequence number, at most snap, of a range tombstone
// over key, or 0. The cost grows with the number of range tombstones.
func (t *Table) CoverSeq(key []byte, snap base.SeqNum) (seq base.SeqNum) {
	if !t.hasRanges.Load() {
		return 0
	}
	t.mu.Lock()
	ranges := t.ranges // elements never change, appends go after them
	t.mu.Unlock()
	for i := range ranges {
		rt := &ranges[i]
		if rt.Seq > seq && rt.Seq <= snap &&
			bytes.Compare(rt.Start, key) <= 0 && bytes.Compare(key, rt.End) < 0 {
			seq = rt.Seq
		}
	}
	return seq
}
