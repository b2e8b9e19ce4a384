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

// Batch looks up groups of keys, of one stripe or of several. Sources are asked one after
// the other, newest first, each for all keys that are still open; and the first runs of
// all stripes together, then the second ones, and so on, which gives sst.Batch the many
// questions it wants. It belongs to one goroutine. The zero Batch is ready.
type Batch struct {
	sst.Batch
	// Expected says that most keys are expected to have values. Then the filters of the
	// oldest run are not asked.
	Expected bool
	// MemtableHits counts the keys about which a memtable decided.
	MemtableHits uint64

	groups []group
	open   []uint32 // numbers of lookups
}

// group are the lookups of one stripe.
type group struct {
	stripe   *Stripe
	view     *View
	from, to int // its lookups
	open     int // how many are not done: numbers at open[from:]
}

// Add adds the lookups [from, to) of those that Get will be given, keys of s. Groups follow
// each other without gaps.
func (b *Batch) Add(s *Stripe, from, to int) {
	b.groups = append(b.groups, group{stripe: s, from: from, to: to})
}

// Get is Stripe.Get for the lookups that were added: what that returns is in them then,
// and all are Done. It forgets the groups. It does not allocate when everything is cached.
func (b *Batch) Get(ls []base.Lookup, snap base.SeqNum) error {
	stats, hits := b.Stats, b.MemtableHits
	defer func() {
		clear(b.groups) // what they refer to must be able to go
		b.groups = b.groups[:0]
	}()
	for {
		err := b.get(ls, snap)
		if err == nil || err == ErrClosed || !b.outdated() {
			return err
		}
		b.Stats, b.MemtableHits = stats, hits
	}
}

// outdated reports whether a view has been replaced since it was loaded: as in
// Stripe.Get, this explains any error.
func (b *Batch) outdated() bool {
	for i := range b.groups {
		g := &b.groups[i]
		if g.view != nil && g.stripe.view.Load() != g.view {
			return true
		}
	}
	return false
}

func (b *Batch) get(ls []base.Lookup, snap base.SeqNum) error {
	b.open = slices.Grow(b.open[:0], len(ls))[:len(ls)]
	for i := range ls {
		ls[i].Done, ls[i].Found, ls[i].Cover = false, false, 0
		b.open[i] = uint32(i)
	}
	for i := range b.groups {
		g := &b.groups[i]
		if g.view = g.stripe.view.Load(); g.view == nil {
			return ErrClosed
		}
		g.open = g.to - g.from
		b.askTable(g, g.view.Active, ls, snap)
		for _, t := range g.view.Frozen {
			b.askTable(g, t, ls, snap)
		}
		b.MemtableHits += uint64(g.to - g.from - g.open)
	}
	if err := b.askRuns(ls, snap); err != nil {
		return err
	}
	for i := range ls {
		l := &ls[i]
		l.Done = true
		l.Found = l.Found && l.Seq >= l.Cover
	}
	return nil
}

func (b *Batch) askTable(g *group, t *memtable.Table, ls []base.Lookup, snap base.SeqNum) {
	open := b.open[g.from : g.from+g.open]
	if t.HasRanges() {
		for _, i := range open {
			ls[i].Cover = max(ls[i].Cover, t.CoverSeq(ls[i].Key, snap))
		}
	}
	base.Yield()
	t.GetBatch(ls, open, snap)
	b.closeDone(g, ls)
}

// closeDone takes the lookups that are done out of the open ones.
func (b *Batch) closeDone(g *group, ls []base.Lookup) {
	open := b.open[g.from : g.from+g.open]
	n := 0
	for _, i := range open {
		open[n] = i
		if !ls[i].Done {
			n++
		}
	}
	g.open = n
}

// askRuns asks the runs of all groups, the youngest of each first.
func (b *Batch) askRuns(ls []base.Lookup, snap base.SeqNum) error {
	for depth, more := 0, true; more; depth++ {
		more = false
		for i := range b.groups {
			g := &b.groups[i]
			if g.open == 0 || depth >= len(g.view.Runs) {
				continue
			}
			more = true
			b.Unfiltered = b.Expected && !b.FiltersOnly && depth+1 == len(g.view.Runs)
			if err := b.askRun(g, g.view.Runs[depth], ls, snap); err != nil {
				b.Forget() // those about the groups before
				return err
			}
		}
		base.Yield()
		if err := b.Answer(ls, snap); err != nil {
			return err
		}
		for i := range b.groups {
			if g := &b.groups[i]; depth < len(g.view.Runs) {
				b.closeDone(g, ls)
			}
		}
	}
	return nil
}

// askRun notes the questions to a run.
func (b *Batch) askRun(g *group, r *Run, ls []base.Lookup, snap base.SeqNum) error {
	open := b.open[g.from : g.from+g.open]
	if r.HasRanges && !b.FiltersOnly {
		for _, i := range open {
			c, err := r.coverSeq(ls[i].Key, snap)
			if err != nil {
				return err
			}
			ls[i].Cover = max(ls[i].Cover, c)
		}
	}
	covered := false
	for _, i := range open {
		if ls[i].Cover > r.MaxSeq { // everything from here on is deleted
			ls[i].Done, covered = true, true
		}
	}
	if covered {
		b.closeDone(g, ls)
		open = open[:g.open]
	}
	if len(r.Files) == 1 {
		b.Ask(r.Files[0].Reader, ls, open, snap)
		return nil
	}
	slices.SortFunc(open, func(i, j uint32) int { return bytes.Compare(ls[i].Key, ls[j].Key) })
	for lo := 0; lo < len(open); {
		f := r.find(ls[open[lo]].Key)
		if f == len(r.Files) {
			break
		}
		first, last := lo, r.Files[f].Meta.Largest
		for lo < len(open) && bytes.Compare(ls[open[lo]].Key, last) <= 0 {
			lo++
		}
		b.Ask(r.Files[f].Reader, ls, open[first:lo], snap)
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
	v.tables(func(t *memtable.Table) {
		newest = max(newest, t.MaxSeq())
	})
	for _, r := range v.Runs {
		newest = max(newest, r.MaxSeq)
	}
	return newest
}
