package stripe

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// Count returns how many keys of [lo, hi), where nil hi is no bound, have a value for a reader at
// snap, without reading them. ok is false if that takes reading: some are in a memtable, runs may
// have the same keys, or not all of their entries are such keys.
func (s *Stripe) Count(lo, hi []byte, snap base.SeqNum) (n int64, ok bool, err error) {
	v := s.Acquire()
	if v == nil {
		return 0, false, ErrClosed
	}
	defer v.Release()
	if v.Active.HasKeys() || v.Active.HasRanges() {
		return 0, false, nil
	}
	for _, t := range v.Frozen {
		if t.HasKeys() || t.HasRanges() {
			return 0, false, nil
		}
	}
	var few [4]keyRange
	parts := few[:0] // of the runs
	for _, run := range v.Runs {
		from, to := run.overlap(lo, hi)
		if run.HasRanges {
			return 0, false, nil
		}
		part, ok, err := countFiles(run.Files[from:to], lo, hi, snap)
		if !ok || err != nil {
			return 0, false, err
		}
		if part.n > 0 {
			n += part.n
			parts = append(parts, part)
		}
	}
	disjoint, err := sortDisjoint(parts)
	return n, disjoint, err
}

// keyRange is what a run has of a range.
type keyRange struct {
	at          int   // which run, as the caller counts
	n           int64 // keys
	first, last *File // where the first and the last of them are
	from, to    int64 // their ranks, to that after the last

	lowest, highest []byte // of the keys, once sortDisjoint has looked
}

// countFiles counts the keys of some files of a run.
func countFiles(files []*File, lo, hi []byte, snap base.SeqNum) (r keyRange, ok bool, err error) {
	for _, f := range files {
		from, to, ok, err := f.Reader.Ranks(lo, hi, snap)
		if !ok || err != nil {
			return r, false, err
		}
		if from == to {
			continue
		}
		if r.n == 0 {
			r.first, r.from = f, from
		}
		r.n += to - from
		r.last, r.to = f, to
	}
	return r, true, nil
}

// sortDisjoint brings the parts, which have keys, into their order, and reports whether no run may
// have a key of another one.
func sortDisjoint(parts []keyRange) (bool, error) {
	if len(parts) < 2 {
		return true, nil
	}
	for i := range parts {
		p := &parts[i]
		var err error
		if p.lowest, err = p.first.Reader.KeyAt(p.from); err != nil {
			return false, err
		}
		if p.highest, err = p.last.Reader.KeyAt(p.to - 1); err != nil {
			return false, err
		}
	}
	slices.SortFunc(parts, func(a, b keyRange) int { return bytes.Compare(a.lowest, b.lowest) })
	for i := 1; i < len(parts); i++ {
		if bytes.Compare(parts[i-1].highest, parts[i].lowest) >= 0 {
			return false, nil
		}
	}
	return true, nil
}
