package memtable

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/rangedel"
)

// rangesPart is a run of range tombstones in a form that can be searched. Parts follow each other
// and are immutable. A new one takes in those before it that are not longer, as digits of a binary
// number do, so there are few, and each tombstone is in a part that is made a logarithmic number of
// times.
type rangesPart struct {
	end    int         // after its last tombstone in Table.ranges
	newest base.SeqNum // of its tombstones
	list   *rangedel.List
}

// maxLoose is how many range tombstones are compared one by one before they become a part.
const maxLoose = 32

// searchable returns parts of ranges that can be searched: parts, and one of the latest if they are
// many.
func (t *Table) searchable(parts *[]rangesPart, ranges []base.RangeTombstone) []rangesPart {
	var kept []rangesPart
	if parts != nil {
		kept = *parts
	}
	begin := func(i int) int {
		if i == 0 {
			return 0
		}
		return kept[i-1].end
	}
	n := len(kept)
	if len(ranges)-begin(n) < maxLoose {
		return kept
	}
	for n > 0 && kept[n-1].end-begin(n-1) <= len(ranges)-begin(n) {
		n--
	}
	part := rangesPart{end: len(ranges)}
	late := ranges[begin(n):]
	for i := range late {
		part.newest = max(part.newest, late[i].Seq)
	}
	part.list = rangedel.Build(late, part.newest)
	next := append(slices.Clone(kept[:n]), part)
	t.parts.CompareAndSwap(parts, &next)
	return next
}

// DeleteRange adds a range tombstone. It copies Start and End. The versions in the
// table stay; readers apply range tombstones themselves.
//
// Requires: as for Put.
func (t *Table) DeleteRange(rt base.RangeTombstone) {
	rt.Start, rt.End = bytes.Clone(rt.Start), bytes.Clone(rt.End)
	t.mu.Lock()
	t.checkWriteLocked()
	t.ranges = append(t.ranges, rt)
	t.rangeBytes += int64(len(rt.Start)+len(rt.End)) + 4*int64(unsafe.Sizeof(rt))
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
// over key, or 0. It searches parts whose range tombstones are all visible at snap; of others
// and of the latest ones it compares each.
func (t *Table) CoverSeq(key []byte, snap base.SeqNum) (seq base.SeqNum) {
	if !t.hasRanges.Load() {
		return 0
	}
	parts := t.parts.Load()
	t.mu.Lock()
	ranges := t.ranges // elements never change, appends go after them
	t.mu.Unlock()
	begin := 0
	for _, p := range t.searchable(parts, ranges) {
		if p.newest <= snap {
			seq = max(seq, p.list.CoverSeq(key))
		} else {
			seq = max(seq, coverSeq(ranges[begin:p.end], key, snap))
		}
		begin = p.end
	}
	return max(seq, coverSeq(ranges[begin:], key, snap))
}

func coverSeq(ranges []base.RangeTombstone, key []byte, snap base.SeqNum) (seq base.SeqNum) {
	for i := range ranges {
		rt := &ranges[i]
		if rt.Seq > seq && rt.Seq <= snap &&
			bytes.Compare(rt.Start, key) <= 0 && bytes.Compare(key, rt.End) < 0 {
			seq = rt.Seq
		}
	}
	return seq
}
