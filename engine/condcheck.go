package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// condCheck looks up the keys of many conditions together, by stripe. Unlike lookups it
// takes keys as the batch has them, in ordered form. It is reused.
type condCheck struct {
	order []uint32 // numbers of conditions, by stripe and ascending in each
	start [base.NumStripes + 1]uint32
	list  []base.Lookup
	batch stripe.Batch
}

var condChecks = sync.Pool{New: func() any { return new(condCheck) }}

// release gives c back. It must not keep the values alive that were found.
func (c *condCheck) release() {
	if cap(c.order) > maxPooledKeys || cap(c.list) > maxPooledLookups {
		return
	}
	clear(c.list[:cap(c.list)])
	c.list = c.list[:0]
	c.batch.Stats, c.batch.MemtableHits = stripe.BatchStats{}, 0
	condChecks.Put(c)
}

// sort puts the conditions in the order of their stripes.
func (c *condCheck) sort(list []batchCond) {
	clear(c.start[:])
	for i := range list {
		c.start[int(list[i].stripe)+1]++
	}
	for id := range base.NumStripes {
		c.start[id+1] += c.start[id]
	}
	next := c.start
	c.order = slices.Grow(c.order[:0], len(list))[:len(list)]
	for i := range list {
		at := &next[list[i].stripe]
		c.order[*at] = uint32(i)
		*at++
	}
}

// groupEnd returns the end of the stripes that are looked up together, from lo on.
func (c *condCheck) groupEnd(lo int) int {
	hi := lo + 1
	for hi < base.NumStripes && c.start[hi+1]-c.start[lo] <= lookupsAtOnce {
		hi++
	}
	return hi
}

// get looks up the keys of the stripes [lo, hi) at present. Requires: they are locked.
func (c *condCheck) get(db *DB, b *Batch, lo, hi int) error {
	first, end := c.start[lo], c.start[hi]
	c.list = slices.Grow(c.list[:0], int(end-first))[:end-first]
	for i, n := range c.order[first:end] {
		cond := &b.conds.list[n]
		key := b.keys[cond.key:cond.keyEnd:cond.keyEnd]
		c.list[i] = base.Lookup{Key: key, Hash: db.hash(key), Index: n}
	}
	for id := lo; id < hi; id++ {
		if from, to := c.start[id], c.start[id+1]; from < to {
			c.batch.Add(&db.stripes[id], int(from-first), int(to-first))
		}
	}
	return c.batch.Get(c.list, base.MaxSeqNum)
}

// checkManyConds is checkConds with one search for all keys, or for some thousands of them
// at a time.
func (db *DB) checkManyConds(b *Batch) error {
	check := condChecks.Get().(*condCheck)
	defer check.release()
	check.sort(b.conds.list)
	now := db.nowMs()
	at, failed := uint32(len(b.conds.list)), base.Lookup{}
	for lo := 0; lo < base.NumStripes; {
		if err := db.calls.ctx.Err(); err != nil {
			return context.Cause(db.calls.ctx)
		}
		hi := check.groupEnd(lo)
		if err := check.get(db, b, lo, hi); err != nil {
			return db.readError(err)
		}
		for i := range check.list {
			f := &check.list[i]
			c := &b.conds.list[f.Index]
			if f.Index < at && !b.condition(c).holds(f.Live(now), f.Seq, f.Value) {
				at, failed = f.Index, *f
			}
		}
		lo = hi
	}
	if at == uint32(len(b.conds.list)) {
		return nil
	}
	return b.failed(&b.conds.list[at], failed.Live(now), failed.Seq)
}
