package stripe

import (
	"bytes"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
)

const (
	// lookupRows is about how many keys of files a merge passes in the time that one is looked up.
	lookupRows = 8
	// fewLookups are made however few keys the files have.
	fewLookups = 8
	// tableBatch is how many keys of a memtable are walked over at a time.
	tableBatch = 64
)

// tableCount is by how many keys the memtables of a view have more than its files, or fewer.
type tableCount struct {
	cursor memtable.Cursor
	view   *View
	seed   uint64
	snap   base.SeqNum
	files  int64 // the keys of files
	n      int64
	looks  int64 // how many keys were looked up in files
}

var tableCounts = sync.Pool{New: func() any { return new(tableCount) }}

// all counts the keys of [lo, hi). ok is false if that takes a merge.
func (c *tableCount) all(lo, hi []byte) (ok bool, err error) {
	ok, err = c.table(c.view.Active, nil, lo, hi)
	for i, t := range c.view.Frozen {
		if !ok || err != nil {
			break
		}
		ok, err = c.table(t, c.view.Frozen[:i], lo, hi)
	}
	return ok, err
}

// table counts the keys of a memtable that none of the newer ones has; without newer it is the
// active one.
func (c *tableCount) table(t *memtable.Table, newer []*memtable.Table, lo, hi []byte) (ok bool,
	err error) {
	if !t.HasKeys() {
		return true, nil
	}
	t.InitCursor(&c.cursor, c.snap)
	c.cursor.Expect(tableBatch)
	c.cursor.Limit(hi)
	alone := t == c.view.Active || len(newer) == 0 && !c.view.Active.HasKeys()
	for more := c.cursor.SeekGE(lo); more; more = c.cursor.Next() {
		e := c.cursor.Entry()
		switch {
		case hi != nil && bytes.Compare(e.Key, hi) >= 0:
			return true, nil
		case e.Kind == base.KindPutTTL:
			return false, nil
		case e.Kind == base.KindPut && alone && c.files == 0:
			c.n++
			continue
		}
		if ok, err = c.beside(e, alone, newer); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// beside counts an entry that newer memtables or files may have, too.
func (c *tableCount) beside(e *base.Entry, alone bool, newer []*memtable.Table) (ok bool,
	err error) {
	hash := base.Hash(e.Key, c.seed)
	var other base.Entry
	if !alone {
		found := c.view.Active.Get(e.Key, hash, c.snap, &other)
		for i := 0; i < len(newer) && !found; i++ {
			found = newer[i].Get(e.Key, hash, c.snap, &other)
		}
		if found {
			return true, nil
		}
	}
	if e.Kind == base.KindPut {
		c.n++
	}
	if c.files == 0 {
		return true, nil
	}
	if c.looks++; c.looks > fewLookups && c.looks*lookupRows > c.files {
		return false, nil
	}
	for _, r := range c.view.Runs {
		i := r.find(e.Key)
		if i == len(r.Files) {
			continue
		}
		found, err := r.Files[i].Reader.Find(e.Key, hash, c.snap, &other)
		if err != nil {
			return false, err
		}
		if found { // a value, since files have counted it
			c.n--
			break
		}
	}
	return true, nil
}
