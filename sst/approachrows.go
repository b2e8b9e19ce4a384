package sst

import (
	"bytes"

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
		a.back(rows, n, snap)
	default:
		a.on(rows, n, hi, snap)
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

// on is Rows of a SeekGE.
func (a *Approach) on(rows *cursor.Batch, n int, hi []byte, snap base.SeqNum) {
	b := a.b
	end := b.n
	if n > manyRows && hi != nil {
		end = b.before(hi)
	}
	prefix := b.prefix()
	var head uint32
	var suffix []byte
	if a.last >= 0 {
		head = b.head(a.last)
		suffix, _, _ = b.suffix(a.last)
	}
	var e blockEntry
	i := a.lo
	for ; i < end && n > 0 && b.scan(i, &e); i++ {
		h := b.head(i)
		if e.seq > snap || a.last >= 0 && h == head && bytes.Equal(e.suffix, suffix) {
			continue
		}
		appendRow(rows, prefix, &e)
		a.last, head, suffix = i, h, e.suffix
		n--
	}
	a.lo = i
}

// back is Rows of a SeekLT. The first key of a block may have newer versions in the one
// before.
func (a *Approach) back(rows *cursor.Batch, n int, snap base.SeqNum) {
	b := a.b
	prefix := b.prefix()
	var e blockEntry
	for i := a.lo - 1; i >= 0 && n > 0 && b.scan(i, &e); i-- {
		if e.seq > snap {
			continue
		}
		if i = b.newest(i, snap, &e); i < 0 || i == 0 && a.block > 0 {
			return
		}
		appendRow(rows, prefix, &e)
		a.lo, a.last = i, i
		n--
	}
}
