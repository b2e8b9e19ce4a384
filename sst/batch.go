package sst

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap"
)

// BatchStats count what a group of lookups has cost.
type BatchStats struct {
	Probes         uint64 // questions to filters
	Positives      uint64 // of these, answered "perhaps"
	FalsePositives uint64 // of these, without such a key in the file
	DataReads      uint64 // data blocks looked into, each once for all keys in it
}

// Batch asks files for groups of keys. Ask takes the questions, as many as there are for
// files that can be asked at the same time, and Answer finds all answers. It goes through
// the questions in passes: filters, indexes, blocks, heads, keys. Why: what one question
// waits for is a chain of loads from memory, each needing the one before; in a pass
// the loads of many questions do not depend on each other, and the processor waits for
// several at once.
//
// A Batch belongs to one goroutine. The zero Batch is ready.
type Batch struct {
	Stats BatchStats
	// FiltersOnly takes "perhaps" for an answer: a key that a file's range and filter
	// allow is found there, with a version without value, expiry or number. Neither range
	// tombstones nor data blocks are read, except data blocks of files without filters.
	FiltersOnly bool
	// KeysOnly is for large groups whose values are not wanted: what is found may be
	// without its value, and blocks that are not cached stay so more often, see readOnce.
	KeysOnly bool
	// NoValues leaves large values unread, whatever the group.
	NoValues bool
	// Unfiltered says that the filters of the files that Ask is called for are not asked.
	Unfiltered bool

	own   ownBlock
	reads uint // blocks that were not cached

	files   []askedFile
	asks    []ask
	touched byte // keeps loads that fill the processor's cache
}

// askedFile is a file with its questions, which lie after those of the file before.
type askedFile struct {
	r   *Reader
	t   *tail
	end int // of its questions

	unfiltered bool
	absent     bool // a key was
	found      int  // keys that were
}

// asksFilters reports whether filters of the file are asked.
func (f *askedFile) asksFilters() bool { return len(f.t.filters) > 0 && !f.unfiltered }

// asksParts reports whether the filters of the parts of its index are asked.
func (f *askedFile) asksParts() bool { return f.t.ownFilters && !f.unfiltered }

// ask is a question: whether a file has the key of a lookup.
type ask struct {
	lookup uint32
	part   uint32 // of the index, with the block
	block  uint32 // data block that decides
	lo, hi uint32 // entries of it among which the key is
	found  uint32 // one more than the entry that was found to be it, or 0
	data   *dataBlock
}

// Ask adds the question whether r has the keys of ls with the given numbers. None may be
// Done. What the file's description rules out is left out.
func (b *Batch) Ask(r *Reader, ls []base.Lookup, which []uint32, snap base.SeqNum) {
	if r.meta.Entries == 0 || snap < r.meta.MinSeq {
		return
	}
	first := len(b.asks)
	for _, i := range which {
		if r.mayCover(ls[i].Key, snap) {
			b.asks = append(b.asks, ask{lookup: i})
		}
	}
	if len(b.asks) > first {
		unfiltered := b.Unfiltered
		if !b.FiltersOnly && !b.KeysOnly && !b.NoValues { // else keys are expected to be absent
			unfiltered = unfiltered || !r.asksFilters()
		}
		b.files = append(b.files, askedFile{r: r, end: len(b.asks), unfiltered: unfiltered})
	}
}

// Answer answers the questions as Reader.Find does, and reads large values: lookups that it
// finds are Done. It forgets the questions, also after an error, when some lookups may be Done. It
// does not allocate when everything is cached.
func (b *Batch) Answer(ls []base.Lookup, snap base.SeqNum) error {
	defer b.Forget()
	return b.answer(ls, snap)
}

// Forget drops the questions, for a caller that no longer needs the answers.
func (b *Batch) Forget() {
	clear(b.files) // what they refer to must be able to go
	clear(b.asks)
	b.files, b.asks = b.files[:0], b.asks[:0]
}

func (b *Batch) answer(ls []base.Lookup, snap base.SeqNum) error {
	parts, filters := false, false // of any file: passes that none needs cost time, too
	for i := range b.files {
		f := &b.files[i]
		var err error
		if f.t, err = f.r.loadTail(); err != nil {
			return err
		}
		parts = parts || len(f.t.parts) > 1
		filters = filters || f.asksFilters()
	}
	if parts {
		if err := b.findParts(ls, snap); err != nil {
			return err
		}
	}
	if filters {
		if err := b.askFilters(ls); err != nil {
			return err
		}
	}
	if err := b.askIndexes(ls, snap); err != nil {
		return err
	}
	if filters {
		if err := b.askPartitions(ls); err != nil {
			return err
		}
	}
	if b.FiltersOnly {
		b.believeFilters(ls)
	}
	if err := b.readOnce(ls, snap); err != nil {
		return err
	}
	if err := b.searchBlocks(ls, snap); err != nil {
		return err
	}
	for i := range b.files {
		if f := &b.files[i]; f.absent {
			f.r.noteAbsent()
		} else {
			f.r.noteFound(f.found)
		}
	}
	return nil
}

// narrow leaves of the questions of each file those that keep puts to their front.
func (b *Batch) narrow(keep func(f *askedFile, asks []ask) (kept int, err error)) error {
	n, lo := 0, 0
	for i := range b.files {
		f := &b.files[i]
		first := lo
		asks := b.asks[first:f.end]
		lo = f.end
		kept, err := keep(f, asks)
		if err != nil {
			return err
		}
		if n < first {
			copy(b.asks[n:], asks[:kept])
		}
		n += kept
		f.end = n
	}
	b.asks = b.asks[:n]
	return nil
}

// findParts finds the parts of the indexes that lead to the blocks that decide, and puts the
// questions of each file in order of its parts.
func (b *Batch) findParts(ls []base.Lookup, snap base.SeqNum) error {
	return b.narrow(func(f *askedFile, asks []ask) (n int, err error) {
		if len(f.t.parts) == 1 {
			return len(asks), nil
		}
		for _, a := range asks {
			p, err := f.r.partFor(f.t, ls[a.lookup].Key, snap)
			if err != nil {
				return 0, err
			}
			a.part = uint32(p)
			asks[n] = a
			if p < len(f.t.parts) { // else all versions of the file's last key are too new
				n++
			}
		}
		slices.SortFunc(asks[:n], byPart)
		return n, nil
	})
}

func byPart(x, y ask) int { return cmp.Compare(x.part, y.part) }

// askFilters keeps the questions that the filters of parts let through, before the parts are
// touched, as Reader.locate does.
func (b *Batch) askFilters(ls []base.Lookup) error {
	return b.narrow(func(f *askedFile, asks []ask) (n int, err error) {
		if !f.asksParts() {
			return len(asks), nil
		}
		var filter *zonemap.Filter
		for j, a := range asks {
			if j == 0 || a.part != asks[j-1].part {
				if filter, err = f.r.filter(f.t, int(a.part)); err != nil {
					return 0, err
				}
			}
			asks[n] = a
			if filter.Contains(ls[a.lookup].Hash) {
				n++
			}
		}
		b.countProbes(f, len(asks), n)
		return n, nil
	})
}

func (b *Batch) countProbes(f *askedFile, asked, passed int) {
	b.Stats.Probes += uint64(asked)
	b.Stats.Positives += uint64(passed)
	if asked > passed {
		f.absent = true
		f.r.stats.c.Add(statNegatives, uint64(asked-passed))
	}
}

// askIndexes finds the blocks that decide, and puts the questions of each file in order
// of their blocks.
func (b *Batch) askIndexes(ls []base.Lookup, snap base.SeqNum) error {
	return b.narrow(func(f *askedFile, asks []ask) (n int, err error) {
		if b.FiltersOnly && f.t.ownFilters {
			return len(asks), nil
		}
		var x *indexBlock
		for j, a := range asks {
			if j == 0 || a.part != asks[j-1].part {
				if x, err = f.r.part(f.t, int(a.part)); err != nil {
					return 0, err
				}
			}
			block, err := f.r.findIn(f.t, x, ls[a.lookup].Key, snap)
			if err != nil {
				return 0, err
			}
			a.block = uint32(block)
			asks[n] = a
			if block < f.t.blocks { // else all versions of the file's last key are too new
				n++
			}
		}
		if f.asksParts() {
			f.r.stats.c.Add(statPassedOnly, uint64(len(asks)-n))
		}
		slices.SortFunc(asks[:n], byBlock)
		return n, nil
	})
}

func byBlock(x, y ask) int { return cmp.Compare(x.block, y.block) }

// askPartitions keeps the questions that the other filters let through. Requires: those of a file
// are in order of their blocks.
func (b *Batch) askPartitions(ls []base.Lookup) error {
	return b.narrow(func(f *askedFile, asks []ask) (n int, err error) {
		if !f.asksFilters() || f.t.ownFilters {
			return len(asks), nil
		}
		var filter *zonemap.Filter
		end := uint64(0) // of the blocks of the filter
		for _, a := range asks {
			if uint64(a.block) >= end {
				part := f.t.props.partitionOf(int(a.block))
				if filter, err = f.r.filter(f.t, part); err != nil {
					return 0, err
				}
				end = f.t.props.blocks
				if part+1 < len(f.t.props.partitions) {
					end = f.t.props.partitions[part+1].firstBlock
				}
			}
			asks[n] = a
			if filter.Contains(ls[a.lookup].Hash) {
				n++
			}
		}
		b.countProbes(f, len(asks), n)
		return n, nil
	})
}

// believeFilters takes what the filters let through for found, and keeps the questions to
// files without filters.
func (b *Batch) believeFilters(ls []base.Lookup) {
	_ = b.narrow(func(f *askedFile, asks []ask) (int, error) {
		if len(f.t.filters) == 0 {
			return len(asks), nil
		}
		for _, a := range asks {
			ls[a.lookup].Set(&base.Entry{Kind: base.KindPut, Seq: base.MaxSeqNum})
		}
		f.r.stats.c.Add(statPassedOnly, uint64(len(asks)))
		return 0, nil
	})
}

// searchBlocks looks for the keys in their blocks: by the heads first, then by whole keys
// among those with equal heads.
func (b *Batch) searchBlocks(ls []base.Lookup, snap base.SeqNum) error {
	b.touchHeads()
	most, err := b.searchHeads(ls, snap)
	if err != nil {
		return err
	}
	for ; most > 0; most >>= 1 { // a step of each binary search at a time
		b.touch()
		lo := 0
		for i := range b.files {
			f := &b.files[i]
			for ; lo < f.end; lo++ {
				a := &b.asks[lo]
				if a.lo >= a.hi {
					continue
				}
				if mid := int(a.lo+a.hi) / 2; !a.step(mid, ls[a.lookup].Key, snap) {
					return f.r.damagedEntry(f.t, int(a.block), mid)
				}
			}
		}
	}
	return b.takeEntries(ls)
}

// searchHeads finds the entries among which each key is, and returns the largest number
// of them. Of the keys of one block it finds all but the first for good: it does not wait
// for memory that the first has not waited for.
func (b *Batch) searchHeads(ls []base.Lookup, snap base.SeqNum) (most int, err error) {
	lo := 0
	for i := range b.files {
		f := &b.files[i]
		for first := lo; lo < f.end; lo++ {
			a := &b.asks[lo]
			key := ls[a.lookup].Key
			if lo == first || b.asks[lo-1].block != a.block {
				from, to := a.data.among(key)
				a.lo, a.hi = uint32(from), uint32(to)
				most = max(most, to-from)
				continue
			}
			pos, exact, ok := a.data.seek(key, snap)
			if !ok {
				return 0, f.r.damagedEntry(f.t, int(a.block), pos)
			}
			a.lo, a.hi = uint32(pos), uint32(pos)
			if exact {
				a.found = uint32(pos) + 1
			}
		}
	}
	return most, nil
}

// touchHeads loads what the searches by head compare first.
func (b *Batch) touchHeads() {
	sum := b.touched
	for i := range b.asks {
		d := b.asks[i].data
		sum += d.data[blockHeaderBytes+4*(d.n/2)] + d.data[blockHeaderBytes+8*d.n]
	}
	b.touched = sum
}

// touch loads the next key that each search compares.
func (b *Batch) touch() {
	var sum byte
	for i := range b.asks {
		if a := &b.asks[i]; a.lo < a.hi {
			d := a.data
			if at := d.offset(int(a.lo+a.hi) / 2); uint64(at) < uint64(len(d.data)) {
				sum += d.data[at]
			}
		}
	}
	b.touched = sum
}

// step narrows a search down by comparing with the entry mid. ok is false if that is
// damaged.
func (a *ask) step(mid int, key []byte, snap base.SeqNum) (ok bool) {
	suffix, rest, ok := a.data.suffix(mid)
	if !ok {
		return false
	}
	c := bytes.Compare(suffix, key[a.data.shared:])
	if c == 0 {
		seq, ok := a.data.seqOf(rest)
		if !ok {
			return false
		}
		if seq > snap {
			c = -1
		} else {
			a.found = uint32(mid) + 1
		}
	}
	if c < 0 {
		a.lo = uint32(mid) + 1
	} else {
		a.hi = uint32(mid)
	}
	return true
}

// takeEntries takes over what was found.
func (b *Batch) takeEntries(ls []base.Lookup) error {
	lo := 0
	for i := range b.files {
		f := &b.files[i]
		f.countLookups(f.end - lo)
		for ; lo < f.end; lo++ {
			a := &b.asks[lo]
			err := b.take(f, a, a.data, int(a.lo), a.found == a.lo+1, &ls[a.lookup])
			if err != nil {
				return err
			}
		}
	}
	return nil
}
