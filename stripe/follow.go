package stripe

import (
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/memtable"
)

// Follow prepares a stripe that goes on from another one in a later state of the manifest, which
// another process has made: with its runs, and with what is above flushed of the memtables. What
// stays the same is shared. From is only read from now on. Requires: from has every commit up to
// flushed. At base.MaxSeqNum nothing of the memtables stays.
func (s *Stripe) Follow(from *Stripe, runs []*manifest.Run, flushed base.SeqNum) {
	s.id, s.env, s.values, s.prefix = from.id, from.env, from.values, from.prefix
	v := from.view.Load()
	next := &View{Active: v.Active, Frozen: v.Frozen}
	if oldestSeq(v) <= flushed {
		before := v.MemtableBytes()
		next.Frozen = nil
		next.Active = s.above(v.Active, flushed)
		for _, t := range v.Frozen {
			if t = s.above(t, flushed); t.HasKeys() || t.HasRanges() {
				t.Freeze()
				next.Frozen = append(next.Frozen, t)
			}
		}
		s.env.Memory.Add(next.MemtableBytes() - before)
	}
	for _, r := range runs {
		i := slices.IndexFunc(v.Runs, func(old *Run) bool { return old.ID == r.ID })
		if i >= 0 {
			next.Runs = append(next.Runs, v.Runs[i])
		} else {
			next.Runs = append(next.Runs, s.openRun(r, v.Runs))
		}
	}
	s.publish(next)
}

// oldestSeq returns the lowest sequence number in memtables.
func oldestSeq(v *View) base.SeqNum {
	low := base.MaxSeqNum
	v.tables(func(t *memtable.Table) { low = min(low, t.MinSeq()) })
	return low
}

// above returns a table with what is above a sequence number in t: t itself if that is all.
func (s *Stripe) above(t *memtable.Table, flushed base.SeqNum) *memtable.Table {
	switch {
	case t.MinSeq() > flushed:
		return t
	case t.MaxSeq() <= flushed:
		return s.newTable()
	}
	t.Freeze()
	var entries []base.Entry
	src := t.NewSource()
	for rows := src.Rows(); len(rows) > 0; rows = src.Rows() {
		for i := range rows {
			if rows[i].Seq > flushed {
				entries = append(entries, rows[i])
			}
		}
	}
	slices.SortFunc(entries, func(a, b base.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	rest := s.newTable()
	for i := range entries {
		e := &entries[i]
		// The horizon is 0: older versions than a reader needs were let go before.
		rest.Put(e.Key, base.Hash(e.Key, s.env.Seed), e.Seq, e.Kind, e.Expiry, e.Value, 0)
	}
	for _, rt := range t.RangeTombstones(nil, base.MaxSeqNum) {
		if rt.Seq > flushed {
			rest.DeleteRange(rt)
		}
	}
	return rest
}
