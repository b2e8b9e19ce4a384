package memtable

import (
	"bytes"
	"errors"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

var errNotFrozen = errors.New("memtable: source of a table that is not frozen")

// sorted returns the items of a frozen table in key order. The first call makes a plain
// array of them, from the tree for a few nanoseconds a key or by sorting for about fifty;
// it needs no lock to read and is smaller than the tree, which goes away.
//
// Requires: the caller has seen the table frozen.
func (t *Table) sorted() []item {
	t.flattenOnce.Do(t.flatten)
	return t.flat
}

func (t *Table) flatten() {
	// Why no lock: writers are gone, readers of a frozen table come through sorted,
	// and those that found it unfrozen were done with the tree before Freeze returned.
	if t.tree == nil {
		t.choosePrefixLocked()
		t.flat, t.fresh = t.sortFresh(), nil
		return
	}
	t.settleLocked()
	flat := make([]item, 0, t.index.taken)
	t.tree.Ascend(func(it item) bool {
		flat = append(flat, it)
		return true
	})
	t.flat, t.tree, t.fresh = flat, nil, nil
}

// search returns the index of the first of the items whose key is >= key.
func (t *Table) search(items []item, key []byte) int {
	probe := newItem(t.prefix, key, 0)
	low, high := 0, len(items)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if t.below(items[mid], probe, key) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// below reports whether it sorts below the probe for key. It does what less does
// without the table's only probe, for readers that hold no lock.
func (t *Table) below(it, probe item, key []byte) bool {
	if it.prefix != probe.prefix {
		return it.prefix < probe.prefix
	}
	if it.tail != probe.tail {
		return it.tail < probe.tail
	}
	return bytes.Compare(t.arena.chunks.key(it.node), key) < 0
}

// CommonPrefix returns the common prefix of all keys of a frozen table as far as
// Options.Prefix of the next one takes it. The caller owns it. It is empty for a table
// that is empty or not frozen.
func (t *Table) CommonPrefix() []byte {
	if !t.frozen() {
		return nil
	}
	items := t.sorted()
	if len(items) == 0 {
		return nil
	}
	c := t.arena.chunks
	prefix := commonPrefix(c.key(items[0].node), c.key(items[len(items)-1].node))
	return bytes.Clone(prefix[:min(len(prefix), maxPrefixBytes)])
}

// Source delivers all versions of a frozen table, for a flush. It takes no lock. Keys
// and values are views into the table that stay valid as long as they are referenced.
// A Source belongs to one goroutine; a table may have several.
type Source struct {
	chunks chunkTable
	items  []item // keys not begun
	key    []byte // of the last entry
	ver    uint32 // its version, 0 before the first and at the end
	rows   []base.Entry
	err    error
}

var _ cursor.Source = (*Source)(nil)

// NewSource returns a source before its first entry. On a table that is not frozen
// the source delivers nothing and its Err says so.
func (t *Table) NewSource() *Source {
	if !t.frozen() {
		return &Source{err: errNotFrozen}
	}
	return &Source{items: t.sorted(), chunks: t.arena.chunks}
}

// sourceRows is how many entries a Source delivers at a time.
const sourceRows = 16

// Rows implements cursor.Source.
func (s *Source) Rows() []base.Entry {
	if s.rows == nil {
		s.rows = make([]base.Entry, 0, min(sourceRows, len(s.items)))
	}
	s.rows = s.rows[:0]
	for len(s.rows) < cap(s.rows) && s.next() {
		s.rows = s.rows[:len(s.rows)+1]
		e := &s.rows[len(s.rows)-1]
		e.Key = s.key
		s.chunks.load(s.ver, e)
	}
	return s.rows
}

// next moves to the next version.
func (s *Source) next() bool {
	if s.ver != 0 {
		s.ver = s.chunks.word(s.ver, versionPrev)
	}
	if s.ver == 0 {
		if len(s.items) == 0 {
			return false
		}
		node := s.items[0].node
		s.items = s.items[1:]
		s.key = s.chunks.key(node)
		s.ver = s.chunks.word(node, nodeHead)
	}
	return true
}

// Err implements cursor.Source.
func (s *Source) Err() error { return s.err }
