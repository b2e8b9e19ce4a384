package stripe

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/sst"
)

// runCursor joins the cursors of the files [lo, hi) of a run, which have disjoint,
// ascending keys. Only one file is open at a time. Its methods are those of cursor.Cursor.
type runCursor struct {
	run    *Run
	lo, hi int
	at     int // the file cur belongs to, -1 before the first positioning
	snap   base.SeqNum
	ahead  int     // limit of reading ahead, 0 for the default
	yields bool    // see sst.Cursor.MakeRoom
	pruner *pruner // nil: everything is read
	cur    sst.Cursor
}

// rowCursor is what is used of the cursors of memtables and runs.
type rowCursor interface {
	Last() bool
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	Next() bool
	Entry() *base.Entry
	Err() error
}

func (c *runCursor) init(r *Run, lo, hi int, snap base.SeqNum, ahead int) {
	c.run, c.lo, c.hi, c.at, c.snap, c.ahead, c.pruner = r, lo, hi, -1, snap, ahead, nil
}

// release lets go of the run.
func (c *runCursor) release() {
	if c.run != nil {
		c.run, c.pruner = nil, nil
		c.cur.Release()
	}
}

// open makes file i the current one.
func (c *runCursor) open(i int) {
	if c.at != i {
		c.at = i
		c.run.Files[i].Reader.InitCursor(&c.cur, c.snap)
		c.cur.LimitReadAhead(c.ahead)
		if c.yields {
			c.cur.MakeRoom()
		}
		if c.pruner != nil {
			c.cur.Prune(c.pruner)
		}
	}
}

// pruned reports whether file i is left out.
func (c *runCursor) pruned(i int) bool {
	if c.pruner == nil || !c.pruner.prunes(c.run.Files[i]) {
		return false
	}
	c.pruner.countFile(c.run.Files[i])
	return true
}

func (c *runCursor) Last() bool {
	return c.backward(c.hi - 1)
}

func (c *runCursor) SeekGE(key []byte) bool {
	i := max(c.lo, c.run.find(key))
	if i >= c.hi {
		return false
	}
	if c.pruned(i) {
		return c.forward(i + 1)
	}
	c.open(i)
	return c.cur.SeekGE(key) || c.forward(i+1)
}

// fileFor returns the file in which a seek of key begins, c.hi if it ends at once.
func (r *Run) fileFor(lo, hi int, key []byte, reverse bool) int {
	i := r.find(key)
	if reverse {
		return max(lo, min(i, hi-1))
	}
	return max(lo, i)
}

// approached reports what was found out about the key of the next seek in file i.
func (c *runCursor) approached(i int, a *sst.Approach) {
	c.open(i)
	c.cur.Approached(a)
}

// resume stands on the last row that was read of what an approach has found in file i.
func (c *runCursor) resume(i int, a *sst.Approach, last *base.Entry) {
	c.open(i)
	c.cur.Resume(a, last)
}

func (c *runCursor) SeekLT(key []byte) bool {
	i := min(c.hi-1, c.run.find(key))
	if i = max(i, c.lo); c.pruned(i) {
		return c.backward(i - 1)
	}
	c.open(i)
	return c.cur.SeekLT(key) || c.backward(i-1)
}

func (c *runCursor) Next() bool { return c.cur.Next() || c.forward(c.at+1) }

func (c *runCursor) Prev() bool { return c.cur.Prev() || c.backward(c.at-1) }

// forward goes on with the first entry of the files from i on, after an end.
func (c *runCursor) forward(i int) bool {
	for ; c.cur.Err() == nil && i < c.hi; i++ {
		if c.pruned(i) {
			continue
		}
		c.open(i)
		if c.cur.First() {
			return true
		}
	}
	return false
}

// backward goes on with the last entry of the files from i down, after an end.
func (c *runCursor) backward(i int) bool {
	for ; c.cur.Err() == nil && i >= c.lo; i-- {
		if c.pruned(i) {
			continue
		}
		c.open(i)
		if c.cur.Last() {
			return true
		}
	}
	return false
}

// seekEntries is sst.Cursor.SeekEntries.
func (c *runCursor) seekEntries(x *Entries, key, hi []byte) bool {
	i := max(c.lo, c.run.find(key))
	if i < c.hi && !c.pruned(i) {
		if c.open(i); c.cur.SeekEntries(x, key, hi) {
			return true
		}
	}
	return c.forwardEntries(x, i+1, hi)
}

// nextEntries is sst.Cursor.NextEntries.
func (c *runCursor) nextEntries(x *Entries, hi []byte) bool {
	return c.cur.NextEntries(x, hi) || c.forwardEntries(x, c.at+1, hi)
}

// forwardEntries goes on with the files from i on, after an end.
func (c *runCursor) forwardEntries(x *Entries, i int, hi []byte) bool {
	for ; i < c.hi && c.cur.Err() == nil; i++ {
		if c.pruned(i) {
			continue
		}
		if c.open(i); c.cur.FirstEntries(x, hi) {
			return true
		}
	}
	return false
}

func (c *runCursor) Entry() *base.Entry { return c.cur.Entry() }

func (c *runCursor) Err() error { return c.cur.Err() }
