package memtable

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/google/btree"
)

const (
	// treeDegree: 64 to 128 is the measured plateau for 16-byte items.
	treeDegree = 64
	// treeKeyBytes is what the tree holds per key: 16 bytes of item, nodes between
	// half and completely full, and their headers.
	treeKeyBytes = 28

	// The expected prefix is checked against the keys when their number reaches
	// firstAdapt, and every adaptGrowth times as many up to lastAdapt. A rebuild of
	// the tree costs about 50 ns a key; the bound keeps it below 2 ms.
	firstAdapt  = 64
	adaptGrowth = 8
	lastAdapt   = 32 << 10
	// adaptSlack is how many bytes of the keys' common prefix a new expected prefix
	// leaves out, for keys to come. An item has 12 bytes, 8 of them stay.
	adaptSlack = 4
)

// item is what the B-tree holds for a key. Node 0 stands for the key in Table.probe.
//
// Invariant: pointer-free, 16 bytes.
type item struct {
	prefix uint64 // the 8 bytes after the expected prefix, see newItem
	tail   uint32 // the 4 bytes after those
	node   uint32
}

// newItem maps a key to its item, in a way that preserves the order of keys for any
// expected prefix: keys below all keys with that prefix get zeros, keys above them
// get ones, and the others the 12 bytes that follow it, padded with zeros. Keys with
// equal items are ordered by a full comparison, so a wrong prefix costs time only.
func newItem(expected, key []byte, node uint32) item {
	n := min(len(expected), len(key))
	switch c := bytes.Compare(key[:n], expected); {
	case c < 0:
		return item{node: node}
	case c > 0:
		return item{prefix: math.MaxUint64, tail: math.MaxUint32, node: node}
	}
	rest := key[n:]
	if len(rest) >= 12 {
		return item{binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:]), node}
	}
	var padded [12]byte
	copy(padded[:], rest)
	return item{binary.BigEndian.Uint64(padded[:]), binary.BigEndian.Uint32(padded[8:]), node}
}

// less orders the tree. The probe sorts right before the key equal to it, so that one
// probe serves for "from this key on" and for "below this key".
//
// Requires: t.mu is held, or this goroutine alone uses the tree.
func (t *Table) less(a, b item) bool {
	if a.prefix != b.prefix {
		return a.prefix < b.prefix
	}
	if a.tail != b.tail {
		return a.tail < b.tail
	}
	if a.node == b.node {
		return false
	}
	if c := bytes.Compare(t.keyOf(a), t.keyOf(b)); c != 0 {
		return c < 0
	}
	return a.node == 0
}

func (t *Table) keyOf(it item) []byte {
	if it.node == 0 {
		return t.probe
	}
	return t.arena.chunks.key(it.node)
}

func (t *Table) newTree() *btree.BTreeG[item] {
	// Why no free list: keys are never taken out of the tree.
	return btree.NewWithFreeListG(treeDegree, t.less, btree.NewFreeListG[item](0))
}

// adaptIfDueLocked replaces an expected prefix that does not suit the keys of the tree,
// when there are enough of them, and rebuilds the tree with it. The keys at one and at
// fifteen sixteenths decide: a few odd keys at the ends (they fall to full comparisons)
// do not spoil the prefix of the others.
func (t *Table) adaptIfDueLocked() {
	n := t.tree.Len()
	if t.adaptAt == 0 || n < t.adaptAt {
		return
	}
	for t.adaptAt <= n {
		t.adaptAt *= adaptGrowth
	}
	if t.adaptAt > lastAdapt {
		t.adaptAt = 0
	}
	low, high := n/16, n-1-n/16
	var first, last []byte
	rank := 0
	t.tree.Ascend(func(it item) bool {
		switch rank {
		case low:
			first = t.keyOf(it)
		case high:
			last = t.keyOf(it)
		}
		rank++
		return rank <= high
	})
	if !t.suitPrefixLocked(first, last) {
		return
	}
	old := t.tree
	t.tree = t.newTree()
	old.Ascend(func(it item) bool {
		t.tree.ReplaceOrInsert(newItem(t.prefix, t.keyOf(it), it.node))
		return true
	})
}

// commonPrefix returns the longest common prefix, a view into a.
func commonPrefix(a, b []byte) []byte {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
