package sst

import (
	"encoding/binary"
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// Approach looks for the place that a seek of a Cursor leads to, as far as what is in memory
// shows it. It takes five steps, Touch, Index, Block, Heads and Search; each loads what the
// next one looks at. Why: a seek is a chain of loads that wait
// for each other. A caller that seeks in many files takes each step for all of them, so that
// the chains wait together. What lies there in the block that was found is read with Rows,
// without a cursor.
//
// The steps read no file; where something is not in memory they do nothing, and the seek
// reads it. The zero Approach must be initialised with Init. It belongs to one goroutine.
type Approach struct {
	r       *Reader
	t       *tail
	x       *indexBlock
	b       *dataBlock
	block   int
	lo, hi  int  // entries of b that share prefix and head with the key: see among
	found   bool // the last step has been taken
	begun   bool // Rows has been called: lo is where it goes on, hi means nothing
	last    int  // the entry that Rows has shown last, -1 for none
	touched byte // keeps loads that fill the processor's cache
}

// Init forgets what was found and begins again in r.
func (a *Approach) Init(r *Reader) {
	a.block = -1
	a.r, a.t, a.x, a.b, a.found, a.begun = r, nil, nil, nil, false, false
}

// Release lets go of the file and its blocks.
func (a *Approach) Release() { a.Init(nil) }

// Touch is the first step.
func (a *Approach) Touch() {
	p := a.r.tail.Get()
	if p == nil {
		return
	}
	t := *p
	x := &t.top
	if len(t.parts) == 1 {
		x = t.parts[0].Get()
	}
	if x == nil || x.n == 0 {
		return
	}
	a.t, a.x = t, x
	a.touched = x.data[indexHeaderBytes+8*(x.n/2)] + x.data[indexHeaderBytes+12*x.n]
}

// Index is the second step. Reverse reports that the seek is SeekLT; else it is SeekGE of a
// cursor at snap.
func (a *Approach) Index(key []byte, snap base.SeqNum, reverse bool) {
	if a.x == nil {
		return
	}
	if reverse {
		snap = base.MaxSeqNum
	}
	i, ok := a.x.find(key, snap)
	if len(a.t.parts) > 1 {
		if !ok || i == len(a.t.parts) {
			return
		}
		if a.x = a.t.parts[i].Get(); a.x == nil {
			return
		}
		i, ok = a.x.find(key, snap)
	}
	if !ok || i == a.x.end() {
		return
	}
	if a.x.slot(i).Touch() {
		a.block = i
	}
}

// Block is the third step.
func (a *Approach) Block() {
	if a.block < 0 {
		return
	}
	if a.b = a.x.slot(a.block).Get(); a.b != nil {
		a.touched = byte(a.b.n)
	}
}

// Heads is the fourth step.
func (a *Approach) Heads() {
	if a.b == nil {
		return
	}
	n, heads := a.b.n, a.b.data[blockHeaderBytes:]
	a.touched = heads[n] + heads[2*n] + heads[3*n] + heads[8*n-1] // prefix begins at 8*n
}

// Search is the last step.
func (a *Approach) Search(key []byte) {
	if a.b == nil {
		return
	}
	a.lo, a.hi = a.b.among(key)
	a.found = true
	if a.lo < a.b.n {
		a.touched = a.b.data[blockHeaderBytes+4*a.b.n+4*a.lo]
	}
}

// Entry is a step for those whose entries will be read, after the last.
func (a *Approach) Entry() {
	if b := a.b; b != nil && a.found && a.lo < b.n {
		if at := b.offset(a.lo); uint64(at) < uint64(len(b.data)) {
			a.touched = b.data[at]
		}
	}
}

// Bound appends to dst a key such that no entry that the cursor moves to from the seek on,
// or, if Rows has shown some, after those, comes before it; with reverse none comes after
// it. ok is false if no such key is known but the one that is sought, or was shown last. It
// looks at no entry.
func (a *Approach) Bound(dst []byte, reverse bool) (key []byte, ok bool) {
	if a.begun {
		return a.boundBehind(dst, reverse)
	}
	if !a.found || a.lo != a.hi {
		return dst, false
	}
	if !reverse {
		if a.lo == a.b.n {
			return dst, false
		}
		return appendHead(append(dst, a.b.prefix()...), a.b.head(a.lo)), true
	}
	if a.lo == 0 {
		return a.boundBefore(dst)
	}
	h := a.b.head(a.lo - 1)
	if h == math.MaxUint32 {
		return dst, false
	}
	return appendHead(append(dst, a.b.prefix()...), h+1), true
}

// boundBehind is Bound after the rows that were shown. Heads that are not in order are those
// of a damaged block.
func (a *Approach) boundBehind(dst []byte, reverse bool) (key []byte, ok bool) {
	b := a.b
	if a.last < 0 || !reverse && a.lo == b.n || reverse && a.lo == 0 {
		return dst, false
	}
	shown := b.head(a.last)
	if !reverse {
		h := b.head(a.lo)
		return appendHead(append(dst, b.prefix()...), h), h > shown
	}
	h := b.head(a.lo - 1)
	return appendHead(append(dst, b.prefix()...), h+1), h < shown
}

// boundBefore appends the last key of the block before, if the same part of the index has it.
func (a *Approach) boundBefore(dst []byte) (key []byte, ok bool) {
	if a.block == a.x.first {
		return dst, false
	}
	last, ok := a.x.lastSuffix(a.block - 1)
	if !ok {
		return dst, false
	}
	return append(append(dst, a.x.prefix()...), last...), true
}

// appendHead appends the shortest bytes that have the head h: of all keys with a head of
// at least h none sorts before them.
func appendHead(dst []byte, h uint32) []byte {
	n := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, h)
	for len(dst) > n && dst[len(dst)-1] == 0 {
		dst = dst[:len(dst)-1]
	}
	return dst
}

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
