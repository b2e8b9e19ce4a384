package sst

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
)

const (
	// onceReadBytes bounds a read of several blocks at once, onceGapBytes what it reads
	// between two of them in vain.
	onceReadBytes, onceGapBytes = 128 << 10, 8 << 10
	// maxOnceBytes bounds the memory for stored blocks, and for a decoded one, that a Batch keeps.
	maxOnceBytes = 256 << 10
	// admitOnce is how many blocks are read until one is offered to a full cache, which
	// takes some.
	admitOnce = 4
)

// readOnce answers the questions about blocks that are not cached, of each file in order
// of the blocks, and keeps the others with their blocks. A block is decoded into memory
// of the Batch and searched at once; the cache gets it if there is room or, now and then,
// if there is none. Why: a large group comes to every block in the same order each time,
// and would push out of the cache what the next one asks for first.
func (b *Batch) readOnce(ls []base.Lookup, snap base.SeqNum) error {
	err := b.narrow(func(f *askedFile, asks []ask) (n int, err error) {
		b.own.stored.reset()
		for lo, end := 0, 0; lo < len(asks); lo = end {
			for end = lo + 1; end < len(asks) && asks[end].block == asks[lo].block; end++ {
			}
			b.Stats.DataReads++
			d, kept, err := b.onceBlock(f, asks[lo:])
			if err != nil {
				return 0, err
			}
			if !kept {
				if err := b.searchOnce(f, d, asks[lo:end], ls, snap); err != nil {
					return 0, err
				}
				continue
			}
			for _, a := range asks[lo:end] {
				a.data = d
				asks[n] = a
				n++
			}
		}
		return n, nil
	})
	if cap(b.own.raw) > maxOnceBytes {
		b.own.raw = nil
	}
	if cap(b.own.stored.buf) > maxOnceBytes {
		b.own.stored.buf = nil
	}
	return err
}

// onceBlock returns the block of the first of asks; kept reports that it stays valid, else
// it does until the next call.
func (b *Batch) onceBlock(f *askedFile, asks []ask) (d *dataBlock, kept bool, err error) {
	i, r := int(asks[0].block), f.r
	x, err := r.partOf(f.t, nil, i)
	if err != nil {
		return nil, false, err
	}
	if d := x.slot(i).Get(); d != nil {
		return d, true, nil
	}
	r.stats.c.Add(statBlockMisses, 1)
	h := x.handle(i)
	stored := &b.own.stored
	if !stored.holds(h) {
		span := f.span(x, asks)
		if err = stored.fill(r, f.t, h, span); err != nil && uint64(span) > h.end()-h.off {
			err = stored.fill(r, f.t, h, 0) // only what is needed must be readable
		}
		if err != nil {
			return nil, false, err
		}
	}
	b.reads++
	if x.admits(h, b.KeysOnly, b.KeysOnly && b.reads%admitOnce != 0) {
		raw, err := stored.decode(r, h)
		if err != nil {
			return nil, false, err
		}
		d, err = r.keepBlock(x, i, h, raw)
		return d, true, err
	}
	d, err = b.own.decode(r, h)
	return d, false, err
}

// span returns how many bytes from the first block of asks on hold blocks that are asked
// for, close to each other, and not cached.
func (f *askedFile) span(x *indexBlock, asks []ask) int {
	last := asks[0].block
	first := x.handle(int(last))
	end := first.end()
	for i := range asks {
		block := asks[i].block
		if int(block) >= x.end() {
			break
		}
		if block == last || x.slot(int(block)).Peek() != nil {
			continue
		}
		last = block
		h := x.handle(int(block))
		if !h.check(f.r.meta.SizeBytes, maxDataBytes) || h.off < end ||
			h.off-end > onceGapBytes || h.end()-first.off > onceReadBytes {
			break
		}
		end = h.end()
	}
	return int(min(end-first.off, maxDataBytes))
}

// searchOnce answers questions by their block.
func (b *Batch) searchOnce(
	f *askedFile, d *dataBlock, asks []ask, ls []base.Lookup, snap base.SeqNum,
) error {
	for i := range asks {
		a := &asks[i]
		l := &ls[a.lookup]
		pos, exact, ok := d.seek(l.Key, snap)
		if !ok {
			return f.r.damagedEntry(f.t, int(a.block), pos)
		}
		if err := b.take(f, a, d, pos, exact, l); err != nil {
			return err
		}
	}
	f.countLookups(len(asks))
	return nil
}

// take takes over the entry at pos if it was found to be that of the lookup.
func (b *Batch) take(
	f *askedFile, a *ask, d *dataBlock, pos int, found bool, l *base.Lookup,
) error {
	if !found {
		if d.hasNewer(pos, l.Key) {
			return nil
		}
		f.absent = true
		if f.asksFilters() {
			b.Stats.FalsePositives++
			f.r.stats.c.Add(statFalsePositives, 1)
		}
		return nil
	}
	f.found++
	var e base.Entry
	if !d.entry(pos, &e) {
		return f.r.damagedEntry(f.t, int(a.block), pos)
	}
	switch own := d == &b.own.block; { // whose memory is used again
	case (own || e.Large) && (b.KeysOnly || b.NoValues):
		e.Value = nil
	case e.Large:
		var err error
		if e.Value, err = f.r.CachedValue(e.Value); err != nil {
			return err
		}
	case own:
		e.Value = bytes.Clone(e.Value)
	}
	l.Value, l.Seq, l.Expiry, l.Kind = e.Value, e.Seq, e.Expiry, e.Kind
	l.Done, l.Found = true, true
	return nil
}

// countLookups counts questions that led to data blocks.
func (f *askedFile) countLookups(n int) {
	if n == 0 {
		return
	}
	counter := statLookups
	if f.asksFilters() {
		counter = statFilteredLookups
	}
	f.r.stats.c.Add(counter, uint64(n))
}
