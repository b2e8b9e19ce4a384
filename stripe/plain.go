package stripe

import (
	"slices"

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
