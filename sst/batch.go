package sst

import (
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// BatchStats count what a group of lookups has cost.
type BatchStats struct {
	Probes         uint64 // questions to filters
	Positives      uint64 // of these, answered "perhaps"
	FalsePositives uint64 // of these, without such a key in the file
	DataReads      uint64 // data blocks looked into, each once for all keys in it
}

// Batch is what a group of lookups needs on its way through files: working memory and
// counters. It belongs to one goroutine.
type Batch struct {
	Stats BatchStats
	// FiltersOnly takes "perhaps" for an answer: a key that a file's range and filter
	// allow is found there, with a version without value, expiry or number. Neither data
	// blocks nor range tombstones are read.
	FiltersOnly bool

	hits []hit
}

// hit is a lookup that a file may answer.
type hit struct {
	lookup uint32
	block  uint32 // data block that decides
}

// GetBatch is Get for a group of keys, those of ls with the given numbers, not Done so
// far. Filters are asked for all of them first; what passes is looked up block by block,
// each block loaded once. It marks those found; the order of which does not matter. It
// does not allocate when everything is cached. After an error some may be Done.
func (r *Reader) GetBatch(b *Batch, ls []base.Lookup, which []uint32, snap base.SeqNum) error {
	if r.meta.Entries == 0 || snap < r.meta.MinSeq {
		return nil
	}
	b.hits = b.hits[:0]
	for _, i := range which {
		if r.mayCover(ls[i].Key, snap) {
			b.hits = append(b.hits, hit{lookup: i})
		}
	}
	if len(b.hits) == 0 {
		return nil
	}
	t, err := r.loadTail()
	if err != nil {
		return err
	}
	if err := r.passFilters(t, b, ls, snap); err != nil || len(b.hits) == 0 {
		return err
	}
	if b.FiltersOnly {
		for _, h := range b.hits {
			l := &ls[h.lookup]
			l.Set(&base.Entry{Kind: base.KindPut, Seq: base.MaxSeqNum})
		}
		if len(t.filters) > 0 {
			r.stats.c.Add(statPassedOnly, uint64(len(b.hits)))
		}
		return nil
	}
	return r.readHits(t, b, ls, snap)
}

// passFilters leaves in b.hits the keys that the filters let through, each with the
// block that decides about it (without, for FiltersOnly and one partition). The filter
// of a file with one partition is asked before the index is touched, as in locate.
func (r *Reader) passFilters(t *tail, b *Batch, ls []base.Lookup, snap base.SeqNum) error {
	if len(t.filters) == 1 {
		f, err := r.filter(t, 0)
		if err != nil {
			return err
		}
		n := 0
		for _, h := range b.hits {
			b.hits[n] = h
			if f.Contains(ls[h.lookup].Hash) {
				n++
			}
		}
		r.countProbes(b, len(b.hits), n)
		b.hits = b.hits[:n]
		if n == 0 || b.FiltersOnly {
			return nil
		}
	}
	x, err := r.index(t)
	if err != nil {
		return err
	}
	n := 0
	for _, h := range b.hits {
		block, ok := x.find(ls[h.lookup].Key, snap)
		if !ok {
			return r.damagedIndex(t, block)
		}
		b.hits[n] = hit{h.lookup, uint32(block)}
		if block < x.n { // else the last key's versions are too new
			n++
		}
	}
	if len(t.filters) == 1 {
		r.stats.c.Add(statPassedOnly, uint64(len(b.hits)-n))
	}
	b.hits = b.hits[:n]
	slices.SortFunc(b.hits, func(x, y hit) int { return cmp.Compare(x.block, y.block) })
	if len(t.filters) > 1 {
		return r.passPartitions(t, b, ls)
	}
	return nil
}

// passPartitions is passFilters for a file with several partitions. Requires: the hits
// are sorted by block.
func (r *Reader) passPartitions(t *tail, b *Batch, ls []base.Lookup) error {
	n, asked := 0, len(b.hits)
	for lo := 0; lo < asked; {
		part := t.props.partitionOf(int(b.hits[lo].block))
		f, err := r.filter(t, part)
		if err != nil {
			return err
		}
		end := t.props.blocks
		if part+1 < len(t.props.partitions) {
			end = t.props.partitions[part+1].firstBlock
		}
		for ; lo < asked && uint64(b.hits[lo].block) < end; lo++ {
			h := b.hits[lo]
			b.hits[n] = h
			if f.Contains(ls[h.lookup].Hash) {
				n++
			}
		}
	}
	r.countProbes(b, asked, n)
	b.hits = b.hits[:n]
	return nil
}

func (r *Reader) countProbes(b *Batch, asked, passed int) {
	b.Stats.Probes += uint64(asked)
	b.Stats.Positives += uint64(passed)
	if asked > passed {
		r.stats.c.Add(statNegatives, uint64(asked-passed))
	}
}

// readHits looks the hits up in their blocks. Requires: they are sorted by block.
func (r *Reader) readHits(t *tail, b *Batch, ls []base.Lookup, snap base.SeqNum) error {
	counter := statLookups
	if len(t.filters) > 0 {
		counter = statFilteredLookups
	}
	for lo := 0; lo < len(b.hits); {
		block := b.hits[lo].block
		d, err := r.dataBlock(t, int(block))
		if err != nil {
			return err
		}
		b.Stats.DataReads++
		first := lo
		for ; lo < len(b.hits) && b.hits[lo].block == block; lo++ {
			l := &ls[b.hits[lo].lookup]
			pos, exact, ok := d.seek(l.Key, snap)
			if ok && exact {
				var e blockEntry
				if ok = d.entry(pos, &e); ok {
					l.Value, l.Seq, l.Expiry, l.Kind = e.value, e.seq, e.expiry, e.kind
					l.Done, l.Found = true, true
					continue
				}
			}
			if !ok {
				return r.damagedEntry(t, int(block), pos)
			}
			if len(t.filters) > 0 && !d.hasNewer(pos, l.Key) {
				b.Stats.FalsePositives++
				r.stats.c.Add(statFalsePositives, 1)
			}
		}
		r.stats.c.Add(counter, uint64(lo-first))
	}
	return nil
}
