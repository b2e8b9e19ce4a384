package stripe

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// Count returns how many keys of [lo, hi), where nil hi is no bound, have a value for a reader at
// snap. Files are not read: their indexes know. What memtables have beside them is walked over, and
// looked up in them. ok is false if a merge of all sources takes less, or if it has to decide: runs
// may have the same keys, or entries may be deleted or expire. What is found out is kept in k,
// which may be nil.
func (s *Stripe) Count(lo, hi []byte, snap base.SeqNum, k *Known) (n int64, ok bool, err error) {
	v := s.Acquire()
	if v == nil {
		return 0, false, ErrClosed
	}
	defer v.Release()
	written, ranges := v.Active.HasKeys(), v.Active.HasRanges()
	for _, t := range v.Frozen {
		written, ranges = written || t.HasKeys(), ranges || t.HasRanges()
	}
	if ranges {
		return 0, false, nil
	}
	files, err := v.plainSpan(lo, hi, snap, k)
	if files == nil || err != nil {
		return 0, false, err
	}
	if n = files.n; !written {
		return n, true, nil
	}
	c := tableCounts.Get().(*tableCount)
	defer tableCounts.Put(c)
	c.view, c.seed, c.snap, c.files, c.n, c.looks = v, s.env.Seed, snap, n, 0, 0
	defer c.cursor.Release()
	ok, err = c.all(lo, hi)
	c.view = nil
	return n + c.n, ok, err
}

// plainSpan is what the runs of a view have of a span of keys whose entries are all of it: each is
// the only version of its key, in the only run that has it, and has a value that does not expire.
//
// Invariant: it is a function of the files that overlap the span, which a view never changes, so a
// reader that sees all of their versions may use it as long as the view lives.
type plainSpan struct {
	view   uint64      // its number
	maxSeq base.SeqNum // of those files
	n      int64       // keys
	runs   []int       // of several, those that have some, in the order of their keys
}

// plainSpan returns what the runs have of [lo, hi), nil if a merge of them has to decide. It is
// kept in k, which may be nil.
func (v *View) plainSpan(lo, hi []byte, snap base.SeqNum, k *Known) (*plainSpan, error) {
	if s := k.plainOf(v); s != nil {
		return s.visible(snap), nil
	}
	s := &plainSpan{view: v.number}
	var few [4]keyRange
	parts := few[:0]
	for i, run := range v.Runs {
		from, to := run.overlap(lo, hi)
		if run.HasRanges {
			return nil, nil
		}
		part, ok, err := countFiles(run.Files[from:to], lo, hi, snap)
		if !ok || err != nil {
			return nil, err
		}
		s.maxSeq = max(s.maxSeq, part.maxSeq)
		if part.run = i; part.n > 0 {
			s.n += part.n
			parts = append(parts, part)
		}
	}
	if disjoint, err := sortDisjoint(parts); !disjoint || err != nil {
		return nil, err
	}
	if len(v.Runs) > 1 {
		for i := range parts {
			s.runs = append(s.runs, parts[i].run)
		}
	}
	if k == nil {
		return s, nil
	}
	k.plain.Store(s)
	return s, nil
}

// visible returns s, nil if a reader at snap does not see all of it.
func (s *plainSpan) visible(snap base.SeqNum) *plainSpan {
	if s.maxSeq > snap {
		return nil
	}
	return s
}

// keyRange is what a run has of a range.
type keyRange struct {
	run         int
	n           int64 // keys
	maxSeq      base.SeqNum
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
		if r.maxSeq = max(r.maxSeq, f.Meta.MaxSeq); from == to {
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
