package stripe

import (
	"context"
	"slices"

	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/sst"
)

// Entries are rows of a Plain cursor.
type Entries = sst.Entries

// Plain reports whether Entries can be called in place of Rows, which was not called: the cursor
// reads, in ascending order, one run, or several that begin each after the end of another,
// whose entries are all visible, and nothing else.
func (c *Cursor) Plain() bool {
	if c.err != nil || c.opened != 1 || c.started {
		return false
	}
	r := c.readings[0]
	if r.block != nil {
		return true
	}
	if !r.asked {
		r.asked = true
		r.findPlain()
	}
	return len(r.plain) > 0
}

// Entries moves over the next entries, as many as are at hand, and sets x to them; it reports
// false at the end or after an error. They are valid until the next call.
func (c *Cursor) Entries(x *Entries) bool {
	r := c.readings[0]
	if r.block != nil {
		return r.blockEntries(x)
	}
	for ; ; r.at++ {
		s := r.plain[r.at]
		if s.entries(x) {
			return true
		}
		if r.at+1 == len(r.plain) || s.Err() != nil {
			return false
		}
	}
}

// minPlain is how many keys several runs have at least so that they are read one after the other.
// Why not fewer: it takes longer to find out that they can be.
const minPlain = 64

// findPlain sets plain if the sources are runs whose keys do not overlap, and that are visible as
// they are. What cannot be read is reported where it is read.
func (r *reading) findPlain() {
	if r.merged {
		return
	}
	for _, s := range r.sources[:r.used] {
		if !s.plain() {
			return
		}
	}
	if r.used == 1 {
		r.plain = append(r.plain, r.sources[0])
	}
	if r.used < 2 {
		return
	}
	b := r.bounds
	span, err := r.view.plainSpan(b.Lo, b.Hi, b.Snap, b.Known)
	if span == nil || err != nil || span.n < minPlain {
		return
	}
	for _, run := range span.runs {
		of := r.view.Runs[run]
		i := slices.IndexFunc(r.sources[:r.used], func(s *source) bool { return s.files.of == of })
		r.plain = append(r.plain, r.sources[i])
	}
}

// inOneBlock returns what the view has of the bounds, if it is known to be in one block, all of it
// visible, or nothing; nil if that is not known. Why: to open a run and to search the bounds takes
// longer than to read the ten rows that a stripe has of a small table.
func (v *View) inOneBlock(b *Bounds) (*plainSpan, error) {
	if b.Reverse || b.From != 0 || b.Spans != nil || v.written() {
		return nil, nil
	}
	s := b.Known.plainOf(v)
	if s == nil && len(v.Runs) == 1 {
		var err error
		if s, err = v.plainSpan(b.Lo, b.Hi, b.Snap, b.Known); err != nil {
			return nil, err
		}
	}
	if s == nil || s.maxSeq > b.Snap || s.n > 0 && s.located == nil {
		return nil, nil
	}
	return s, nil
}

// written reports whether memtables have anything.
func (v *View) written() bool {
	if v.Active.HasKeys() || v.Active.HasRanges() {
		return true
	}
	return slices.ContainsFunc(v.Frozen, func(t *memtable.Table) bool {
		return t.HasKeys() || t.HasRanges()
	})
}

// blockEntries is Entries of what is in one block.
func (r *reading) blockEntries(x *Entries) bool {
	s := r.block
	if r.at > 0 || s.n == 0 || r.stopped() {
		return false
	}
	r.at++
	file := r.view.Runs[s.run].Files[s.file].Reader
	if r.bounds.MayHold != nil && r.prunesBlock(file, s.located) {
		return false
	}
	r.err = file.LocatedEntries(x, s.located)
	return r.err == nil
}

// prunesBlock reports whether nothing of a block is wanted, which has all there is. It is true
// after an error, too.
func (r *reading) prunesBlock(file *sst.Reader, l *sst.Located) (prunes bool) {
	prunes, r.err = file.PrunesLocated(l, r.bounds.MayHold)
	if n := r.bounds.Blocks; n != nil && prunes {
		n.Skipped++
	} else if n != nil {
		n.Read++
	}
	return prunes || r.err != nil
}

// stopped reports whether the context of the bounds has ended.
func (r *reading) stopped() bool {
	select {
	case <-r.done: // never, if it is nil
		r.err = context.Cause(r.bounds.Ctx)
		return true
	default:
		return false
	}
}
