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
	ahead  int // limit of reading ahead, 0 for the default
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
	c.run, c.lo, c.hi, c.at, c.snap, c.ahead = r, lo, hi, -1, snap, ahead
}

// release lets go of the run.
func (c *runCursor) release() {
	if c.run != nil {
		c.run = nil
		c.cur.Release()
	}
}

// open makes file i the current one.
func (c *runCursor) open(i int) {
	if c.at != i {
		c.at = i
		c.run.Files[i].Reader.InitCursor(&c.cur, c.snap)
		c.cur.LimitReadAhead(c.ahead)
	}
}

func (c *runCursor) Last() bool {
	c.open(c.hi - 1)
	return c.cur.Last() || c.backward()
}

func (c *runCursor) SeekGE(key []byte) bool {
	i := max(c.lo, c.run.find(key))
	if i >= c.hi {
		return false
	}
	c.open(i)
	return c.cur.SeekGE(key) || c.forward()
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
	c.open(max(i, c.lo))
	return c.cur.SeekLT(key) || c.backward()
}

func (c *runCursor) Next() bool { return c.cur.Next() || c.forward() }

func (c *runCursor) Prev() bool { return c.cur.Prev() || c.backward() }

// forward goes on with the first entry of the next files after an end.
func (c *runCursor) forward() bool {
	for c.cur.Err() == nil && c.at+1 < c.hi {
		c.open(c.at + 1)
		if c.cur.First() {
			return true
		}
	}
	return false
}

// backward goes on with the last entry of the files before after an end.
func (c *runCursor) backward() bool {
	for c.cur.Err() == nil && c.at > c.lo {
		c.open(c.at - 1)
		if c.cur.Last() {
			return true
		}
	}
	return false
}

func (c *runCursor) Entry() *base.Entry { return c.cur.Entry() }

func (c *runCursor) Err() error { return c.cur.Err() }
