package stripe

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
)

// Count returns how many keys of [lo, hi), where nil hi is no bound, have a value for a reader at
// snap. Files are not read: their indexes know. What memtables have beside them is walked over, and
// looked up in them. ok is false if a merge of all sources takes less, or if it has to decide: runs
// may have the same keys, or entries may be deleted or expire.
func (s *Stripe) Count(lo, hi []byte, snap base.SeqNum) (n int64, ok bool, err error) {
	v := s.Acquire()
	if v == nil {
		return 0, false, ErrClosed
	}
	defer v.Release()
	written, ranges := false, false
	v.tables(func(t *memtable.Table) {
		written, ranges = written || t.HasKeys(), ranges || t.HasRanges()
	})
	if ranges {
		return 0, false, nil
	}
	if n, ok, err = v.countRuns(lo, hi, snap); !ok || err != nil || !written {
		return n, ok, err
	}
	c := tableCounts.Get().(*tableCount)
	defer tableCounts.Put(c)
	c.view, c.seed, c.snap, c.files, c.n, c.looks = v, s.env.Seed, snap, n, 0, 0
	defer c.cursor.Release()
	ok, err = c.all(lo, hi)
	c.view = nil
	return n + c.n, ok, err
}

// countRuns is Count of the runs.
func (v *View) countRuns(lo, hi []byte, snap base.SeqNum) (n int64, ok bool, err error) {
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
