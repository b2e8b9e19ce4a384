package sst

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// Rows appends to rows the entries that the first moves of a Cursor would show, up to n of
// them, from the seek on that was approached; further calls go on after those. All calls
// get what Index and Search were given. It looks into no other block than the one that was
// found, so it may append none though there are more: the Cursor that finds them has to
// seek after the last row. Many rows end before those from hi on, nil being no bound; a few may be
// after it. Nothing of it needs the file to stay open.
func (a *Approach) Rows(
	rows *cursor.Batch, n int, key, hi []byte, snap base.SeqNum, reverse bool,
) {
	switch {
	case !a.found || !a.begun && !a.begin(key, snap, reverse):
	case reverse:
		if shown := a.b.back(rows, n, a.lo, 0, a.block > 0, snap); shown != a.lo {
			a.lo, a.last = shown, shown
		}
	default:
		end := a.b.n
		if n > manyRows && hi != nil {
			end = a.b.before(hi)
		}
		a.lo, a.last, a.touched = a.b.onward(rows, n, a.lo, end, a.last, snap)
	}
}

// begin finds the entry that the seek leads to. It reports false if it meets damage, which
// a Cursor will tell about.
func (a *Approach) begin(key []byte, snap base.SeqNum, reverse bool) (ok bool) {
	if reverse {
		snap = base.MaxSeqNum
	}
	if a.lo < a.hi {
		if a.lo, _, ok = a.b.seekAmong(a.lo, a.hi, key[a.b.shared:], snap); !ok {
			a.found = false
			return false
		}
	}
	a.begun, a.last = true, -1
	a.r.stats.c.Add(statLookups, 1)
	return true
}

// manyRows are worth a search for their end.
const manyRows = 16
