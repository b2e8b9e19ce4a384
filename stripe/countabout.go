package stripe

import (
	"bytes"
	"cmp"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/zonemap/zone"
)

const (
	// countedRows bounds how many rows CountAbout reads.
	countedRows = 128
	// sureOf is how many times more than it may be wrong an estimate has to be so that nothing is
	// read.
	sureOf = 8
)

// countCursors recycles the cursors of CountAbout.
var countCursors = sync.Pool{New: func() any { return new(Cursor) }}

// testedBlocks is how many blocks of a file are tested for their zones.
const testedBlocks = 32

// CountAbout estimates how many items the keys [lo, hi) have: from the indexes of files and
// samples of memtables, where versions and tombstones count as items, or, of what may be few
// items, by reading up to countedRows of them. A nil hi is no bound. With mayHold it counts those
// that are in blocks whose zones may hold something, and in memtables, by some blocks of each
// file: see Bounds.MayHold.
func (s *Stripe) CountAbout(lo, hi []byte, mayHold func(zone.Columns) bool) (float64, error) {
	v := s.Acquire()
	if v == nil {
		return 0, ErrClosed
	}
	if mayHold != nil {
		defer v.Release()
		return v.countLeft(&Bounds{Lo: lo, Hi: hi, MayHold: mayHold})
	}
	n, give, err := v.countAbout(lo, hi)
	v.Release()
	if err != nil || n >= sureOf*give {
		return n, err
	}
	c := countCursors.Get().(*Cursor)
	defer countCursors.Put(c)
	defer c.Close()
	err = c.Add(s, &Bounds{Lo: lo, Hi: hi, Snap: base.MaxSeqNum, KeysOnly: true}, nil)
	for read := 0; err == nil; {
		rows := len(c.Rows())
		if read += rows; rows == 0 {
			return float64(read), c.Err()
		}
		if read >= countedRows {
			return max(n, float64(read)), nil
		}
	}
	return n, err
}

// countAbout estimates entries without reading a block. give is by how much it may be wrong.
func (v *View) countAbout(lo, hi []byte) (n, give float64, err error) {
	v.tables(func(t *memtable.Table) {
		m, by := t.CountAbout(lo, hi)
		n, give = n+m, give+by
	})
	for _, r := range v.Runs {
		from, to := r.overlap(lo, hi)
		for _, f := range r.Files[from:to] {
			entries := float64(f.Meta.Entries)
			if entries == 0 {
				continue
			}
			if bytes.Compare(f.Meta.Smallest, lo) >= 0 &&
				(hi == nil || bytes.Compare(f.Meta.Largest, hi) < 0) {
				n += entries
				continue
			}
			m, block, err := f.Reader.CountBetween(lo, hi)
			if err != nil {
				return 0, 0, err
			}
			n, give = n+m, give+block
		}
	}
	return n, give, nil
}

// countLeft estimates how many entries a reading with b.MayHold comes across.
func (v *View) countLeft(b *Bounds) (n float64, err error) {
	v.tables(func(t *memtable.Table) {
		m, _ := t.CountAbout(b.Lo, b.Hi)
		n += m
	})
	var p pruner
	for i, r := range v.Runs {
		p.init(v, i, b)
		from, to := r.overlap(b.Lo, b.Hi)
		for _, f := range r.Files[from:to] {
			if f.Meta.Entries == 0 || p.prunes(f) {
				continue
			}
			pruned, tested, err := f.Reader.SamplePruned(b.Lo, b.Hi, &p, testedBlocks)
			entries, block, counted := f.Reader.CountBetween(b.Lo, b.Hi)
			if err := cmp.Or(err, counted); err != nil {
				return 0, err
			}
			// The block of b.Hi was tested, but has not been counted: it may be the only one.
			n += max(entries, block) * float64(tested-pruned) / float64(max(1, tested))
		}
	}
	return n, nil
}
