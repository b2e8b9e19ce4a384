package rangedel

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// Eras divides the sequence numbers by what snapshots can tell apart. Two numbers
// are of the same era if every snapshot, present or future, sees both or neither.
// Of the versions of one key within one era only the newest can ever be read.
//
// With snapshots at 20 and 50 and horizon 80 the eras are (0..20], (20..50],
// (50..80], and from there on every number is an era of its own, because a
// snapshot may yet be taken at any of them.
//
// The zero Eras has horizon 0: every number is its own era. Eras is immutable.
type Eras struct {
	ends    []base.SeqNum // ascending, below horizon, maybe with duplicates
	horizon base.SeqNum
}

// NewEras returns the eras for the snapshots that exist (any order, duplicates
// allowed; the slice is copied) and for those that will be taken later, at horizon
// or above. A horizon that is too low is safe, it only keeps more.
func NewEras(snapshots []base.SeqNum, horizon base.SeqNum) Eras {
	e := Eras{horizon: horizon}
	for _, s := range snapshots {
		if s < horizon {
			e.ends = append(e.ends, s)
		}
	}
	slices.Sort(e.ends)
	return e
}

// End returns the newest number of the era of seq: the lowest number at or above
// seq at which a snapshot exists or may be taken.
func (e *Eras) End(seq base.SeqNum) base.SeqNum {
	if seq > e.horizon {
		return seq
	}
	// Few snapshots are open at a time and most versions are newer than all of
	// them or older than all of them.
	n := len(e.ends)
	if n == 0 || seq > e.ends[n-1] {
		return e.horizon
	}
	if seq <= e.ends[0] {
		return e.ends[0]
	}
	i, _ := slices.BinarySearch(e.ends, seq)
	return e.ends[i]
}

// Oldest returns the end of the oldest era: every snapshot sees the numbers up to
// it.
func (e *Eras) Oldest() base.SeqNum {
	if len(e.ends) > 0 {
		return e.ends[0]
	}
	return e.horizon
}

// EraList is the list of the tombstones of one era. A version of the same era is
// garbage if the list covers it; versions of other eras are not its business.
type EraList struct {
	End  base.SeqNum
	List *List
}

// ByEra groups tombstones by era, newest era first, and fragments each group.
// Eras without tombstones do not appear.
func ByEra(ts []base.RangeTombstone, eras *Eras) []EraList {
	groups := make(map[base.SeqNum][]base.RangeTombstone)
	for _, t := range ts {
		end := eras.End(t.Seq)
		groups[end] = append(groups[end], t)
	}
	var out []EraList
	for end, g := range groups {
		if l := Build(g, end); l != nil {
			out = append(out, EraList{End: end, List: l})
		}
	}
	slices.SortFunc(out, func(a, b EraList) int { return cmp.Compare(b.End, a.End) })
	return out
}

// Keep returns the tombstones that a merge of files must write out in place of
// ts, the tombstones of its inputs: the fragments of every era, in (start
// ascending, sequence descending) order.
//
// At the bottom (no older file exists) the tombstones of the oldest era go away:
// every snapshot sees them, so what they cover in the inputs is garbage, and there
// is nothing further down. The others stay, since they still hide older versions
// that are kept for a snapshot.
func Keep(ts []base.RangeTombstone, eras *Eras, bottom bool) []base.RangeTombstone {
	var out []base.RangeTombstone
	for _, g := range ByEra(ts, eras) {
		if bottom && g.End == eras.Oldest() {
			continue
		}
		out = append(out, g.List.All()...)
	}
	slices.SortFunc(out, func(a, b base.RangeTombstone) int {
		return cmp.Or(bytes.Compare(a.Start, b.Start), cmp.Compare(b.Seq, a.Seq))
	})
	return out
}
