package stripe

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/zonemap"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Clock is the time of a reading, in Unix milliseconds. It must not move while the reading lasts.
type Clock interface{ NowMs() int64 }

// pruner knows what a reading wants of a run, see sst.Pruner: versions not below from that are not
// deleted, have not expired, and lie in zones that may hold what is looked for.
type pruner struct {
	from  base.SeqNum
	nowMs int64 // what has expired then is not wanted; 0 if that is not asked
	older []*Run
	// lo and hi are the bounds of the reading, nil being none.
	lo, hi []byte
	// mayHold, if not nil, reports whether a zone may have what the caller looks for.
	mayHold func(zone.Columns) bool
	blocks  *zone.BlockCounts // or nil
}

// init sets what is wanted of run number i of the view. It reports false if all of it may be.
func (p *pruner) init(v *View, i int, b *Bounds) bool {
	expired := int64(0)
	if in := &v.Runs[i].Info; b.Clock != nil && in.TTLEntries > 0 {
		// Why not for tombstones alone: nearly always there is something beneath them.
		if now := b.Clock.NowMs(); in.MinExpiry <= now {
			expired = now
		}
	}
	if b.From == 0 && expired == 0 && b.MayHold == nil {
		return false
	}
	*p = pruner{
		from: b.From, nowMs: expired, older: v.Runs[i+1:], lo: b.Lo, hi: b.Hi, mayHold: b.MayHold,
		blocks: b.Blocks,
	}
	return true
}

// Unwanted implements sst.Pruner.
func (p *pruner) Unwanted(z *zonemap.Map, columns zone.Columns) bool {
	return p.old(z) || p.mayHold != nil && !p.mayHold(columns)
}

// old reports that all versions are deleted, have expired, or are below from.
func (p *pruner) old(z *zonemap.Map) bool {
	if z.MaxSeq < p.from {
		return true
	}
	return p.nowMs > 0 && z.Tombstones+z.TTLEntries == z.Entries &&
		(z.TTLEntries == 0 || z.MaxExpiry <= p.nowMs)
}

// Beneath implements sst.Pruner.
func (p *pruner) Beneath(first, last []byte) bool {
	for _, r := range p.older {
		if r.MaxSeq < p.from {
			return false // so have all from here on
		}
		for i := r.find(first); i < len(r.Files) && !r.Files[i].after(last); i++ {
			f := r.Files[i]
			if !p.unwantedFile(f) && f.Reader.Wanted(first, last, p) {
				return true
			}
		}
	}
	return false
}

// Count implements sst.Pruner.
func (p *pruner) Count(read, skipped int) {
	if p.blocks != nil {
		p.blocks.Read += int64(read)
		p.blocks.Skipped += int64(skipped)
	}
}

// countFile counts a file that is left out.
func (p *pruner) countFile(f *File) {
	n := f.Reader.CountPruned()
	if p.blocks != nil {
		p.blocks.Skipped += int64(n)
		p.blocks.Whole += int64(n)
	}
}

// unwantedFile is Unwanted of all entries of a file.
func (p *pruner) unwantedFile(f *File) bool {
	m := f.Meta
	return p.old(&zonemap.Map{
		MaxSeq: m.MaxSeq, Entries: m.Entries, Tombstones: m.Tombstones, TTLEntries: m.TTLEntries,
		MinExpiry: m.MinExpiry, MaxExpiry: m.MaxExpiry,
	}) || p.mayHold != nil && !p.mayHold(f.Reader.Columns())
}

// prunes reports whether a file can be left out, by the rule for blocks, of the keys that are read.
// No key goes on in another file.
func (p *pruner) prunes(f *File) bool {
	if !p.unwantedFile(f) {
		return false
	}
	first, last := f.Meta.Smallest, f.Meta.Largest
	if bytes.Compare(first, p.lo) < 0 {
		first = p.lo
	}
	if p.hi != nil && bytes.Compare(last, p.hi) > 0 {
		last = p.hi
	}
	return !p.Beneath(first, last)
}

var _ sst.Pruner = (*pruner)(nil)
