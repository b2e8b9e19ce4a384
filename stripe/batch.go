package stripe

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/sst"
)

// BatchStats count what the files of a group of lookups have cost.
type BatchStats = sst.BatchStats

// Batch is what GetBatch works with besides the lookups: memory to reuse and counters.
// It belongs to one goroutine.
type Batch struct {
	sst.Batch
	// MemtableHits counts the keys about which a memtable decided.
	MemtableHits uint64

	open []uint32 // numbers of the lookups that are not done
}

// GetBatch is Get for a group of keys of the stripe; what Get returns is in the lookups
// then, all of which are Done. Sources are asked one after the other, newest first, each
// for all keys that are still open: the memory that a source occupies is touched by all
// of them while it is close. It does not allocate when everything is cached.
func (s *Stripe) GetBatch(b *Batch, ls []base.Lookup, snap base.SeqNum) error {
	stats, hits := b.Stats, b.MemtableHits
	for {
		v := s.view.Load()
		if v == nil {
			return ErrClosed
		}
		err := v.getBatch(b, ls, snap)
		if err == nil {
			return nil
		}
		if s.view.Load() == v { // as in Get
			return err
		}
		b.Stats, b.MemtableHits = stats, hits
	}
}

func (v *View) getBatch(b *Batch, ls []base.Lookup, snap base.SeqNum) error {
	b.open = b.open[:0]
	for i := range ls {
		ls[i].Done, ls[i].Found, ls[i].Cover = false, false, 0
		b.open = append(b.open, uint32(i))
	}
	b.askTable(v.Active, ls, snap)
	for _, t := range v.Frozen {
		b.askTable(t, ls, snap)
	}
	b.MemtableHits += uint64(len(ls) - len(b.open))
	for _, r := range v.Runs {
		if len(b.open) == 0 {
			break
		}
		if err := b.askRun(r, ls, snap); err != nil {
			return err
		}
	}
	for _, i := range b.open {
		ls[i].Done = true
	}
	for i := range ls {
		if l := &ls[i]; l.Found && l.Seq < l.Cover {
			l.Found = false
		}
	}
	return nil
}

func (b *Batch) askTable(t *memtable.Table, ls []base.Lookup, snap base.SeqNum) {
	if t.HasRanges() {
		for _, i := range b.open {
			ls[i].Cover = max(ls[i].Cover, t.CoverSeq(ls[i].Key, snap))
		}
	}
	t.GetBatch(ls, b.open, snap)
	b.closeDone(ls)
}

// closeDone takes the lookups that are done out of the open ones.
func (b *Batch) closeDone(ls []base.Lookup) {
	n := 0
	for _, i := range b.open {
		b.open[n] = i
		if !ls[i].Done {
			n++
		}
	}
	b.open = b.open[:n]
}

func (b *Batch) askRun(r *Run, ls []base.Lookup, snap base.SeqNum) error {
	if r.HasRanges && !b.FiltersOnly {
		for _, i := range b.open {
			c, err := r.coverSeq(ls[i].Key, snap)
			if err != nil {
				return err
			}
			ls[i].Cover = max(ls[i].Cover, c)
		}
	}
	covered := false
	for _, i := range b.open {
		if ls[i].Cover > r.MaxSeq { // everything from here on is deleted
			ls[i].Done, covered = true, true
		}
	}
	if covered {
		b.closeDone(ls)
	}
	if len(r.Files) == 1 {
		if err := r.Files[0].Reader.GetBatch(&b.Batch, ls, b.open, snap); err != nil {
			return err
		}
	} else if err := b.askFiles(r, ls, snap); err != nil {
		return err
	}
	b.closeDone(ls)
	return nil
}

// askFiles is askRun for a run of several files.
func (b *Batch) askFiles(r *Run, ls []base.Lookup, snap base.SeqNum) error {
	slices.SortFunc(b.open, func(i, j uint32) int { return bytes.Compare(ls[i].Key, ls[j].Key) })
	for lo := 0; lo < len(b.open); {
		f := r.find(ls[b.open[lo]].Key)
		if f == len(r.Files) {
			break
		}
		first := lo
		for last := r.Files[f].Meta.Largest; lo < len(b.open) &&
			bytes.Compare(ls[b.open[lo]].Key, last) <= 0; {
			lo++
		}
		err := r.Files[f].Reader.GetBatch(&b.Batch, ls, b.open[first:lo], snap)
		if err != nil {
			return err
		}
	}
	return nil
}

// NewestSeq returns a number above which the stripe has no version and no range
// tombstone. Requires: Lock held (else the answer is stale at once).
func (s *Stripe) NewestSeq() base.SeqNum {
	v := s.view.Load()
	if v == nil {
		return 0
	}
	newest := base.SeqNum(0)
	v.tables(func(t *memtable.Table) bool {
		newest = max(newest, t.MaxSeq())
		return true
	})
	for _, r := range v.Runs {
		newest = max(newest, r.MaxSeq)
	}
	return newest
}
