package sst

import "github.com/kstonedb/kstone/internal/base"

const (
	// onceReadBytes bounds a read of several blocks at once, onceGapBytes what it reads
	// between two of them in vain.
	onceReadBytes, onceGapBytes = 128 << 10, 8 << 10
	// maxOnceBytes bounds the memory for a decoded block that a Batch keeps.
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
	n, lo := 0, 0
	for i := range b.files {
		f := &b.files[i]
		b.once.reset()
		for lo < f.end {
			end := lo + 1
			for end < f.end && b.asks[end].block == b.asks[lo].block {
				end++
			}
			b.Stats.DataReads++
			d, kept, err := b.onceBlock(f, b.asks[lo:f.end])
			if err != nil {
				return err
			}
			asks := b.asks[lo:end]
			lo = end
			if !kept {
				if err := b.searchOnce(f, d, asks, ls, snap); err != nil {
					return err
				}
				continue
			}
			for _, a := range asks {
				a.data = d
				b.asks[n] = a
				n++
			}
		}
		f.end = n
	}
	b.asks = b.asks[:n]
	if cap(b.raw) > maxOnceBytes {
		b.raw = nil
	}
	return nil
}

// onceBlock returns the block of the first of asks; kept reports that it stays valid, else
// it does until the next call.
func (b *Batch) onceBlock(f *askedFile, asks []ask) (d *dataBlock, kept bool, err error) {
	i := int(asks[0].block)
	if d := f.t.blocks[i].Get(); d != nil {
		return d, true, nil
	}
	r := f.r
	r.stats.c.Add(statBlockMisses, 1)
	x, err := r.partOf(f.t, nil, i)
	if err != nil {
		return nil, false, err
	}
	h := x.handle(i)
	if !b.once.holds(h) {
		if err = b.once.fill(r, f.t, h, f.span(x, asks)); err != nil {
			err = b.once.fill(r, f.t, h, 0) // only what is needed must be readable
		}
		if err != nil {
			return nil, false, err
		}
	}
	b.reads++
	if r.group.Admits(int64(h.raw), b.reads%admitOnce != 0) {
		raw, err := b.once.decode(r, h)
		if err != nil {
			return nil, false, err
		}
		d, err = r.keepBlock(f.t, i, h, raw)
		return d, true, err
	}
	b.raw = b.raw[:0]
	raw, err := b.once.view(r, h, &b.raw)
	if err != nil {
		return nil, false, err
	}
	b.block, err = openDataBlock(raw)
	return &b.block, false, r.named(err, h.off)
}

// span returns how many bytes from the first block of asks on hold blocks that are asked
// for, close to each other, and not cached.
func (f *askedFile) span(x *indexBlock, asks []ask) int {
	last := asks[0].block
	first := x.handle(int(last))
	end := first.end()
	for i := range asks {
		block := asks[i].block
		if block == last || f.t.blocks[block].Peek() != nil {
			continue
		}
		if last = block; int(block) >= x.end() {
			break
		}
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
		l.Value = nil // in memory that is used again
	}
	f.countLookups(len(asks))
	return nil
}

// take takes over the entry at pos if it was found to be that of the lookup.
func (b *Batch) take(
	f *askedFile, a *ask, d *dataBlock, pos int, found bool, l *base.Lookup,
) error {
	if !found {
		if f.asksFilters() && !d.hasNewer(pos, l.Key) {
			b.Stats.FalsePositives++
			f.r.stats.c.Add(statFalsePositives, 1)
		}
		return nil
	}
	var e base.Entry
	if !d.entry(pos, &e) {
		return f.r.damagedEntry(f.t, int(a.block), pos)
	}
	switch {
	case !e.Large:
	case b.KeysOnly || b.NoValues:
		e.Value = nil
	default:
		var err error
		if e.Value, err = f.r.CachedValue(e.Value); err != nil {
			return err
		}
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
