package memtable

import (
	"bytes"
	"cmp"
	"slices"
)

const (
	// maxFresh bounds the keys that wait for their place in the tree, and with them
	// how long the first ordered read has to sort: about a millisecond.
	maxFresh = 8 << 10
	// fewFresh keys go into the tree one by one, without memory to sort them in.
	fewFresh = 16
	// prefixSample is how many keys decide on the first expected prefix.
	prefixSample = 32
)

// addFreshLocked notes a new node whose place in the order is found later: by the
// first cursor that comes, for all at once, or by flatten if none comes. Why: sorting
// a batch costs a fraction of as many walks through a tree that is in no cache, and a
// table that is only written and read by key never needs the tree.
func (t *Table) addFreshLocked(node uint32) {
	if len(t.fresh) < maxFresh {
		t.fresh = append(t.fresh, node)
		return
	}
	if t.tree == nil {
		t.settleLocked()
		t.fresh = append(t.fresh, node)
		return
	}
	t.tree.ReplaceOrInsert(newItem(t.prefix, t.arena.chunks.key(node), node))
	t.adaptIfDueLocked()
}

// settleLocked brings all keys into the tree.
func (t *Table) settleLocked() {
	if len(t.fresh) == 0 {
		return
	}
	if t.tree == nil {
		t.choosePrefixLocked()
		t.tree = t.newTree()
	}
	if len(t.fresh) <= fewFresh {
		for _, node := range t.fresh {
			t.tree.ReplaceOrInsert(newItem(t.prefix, t.arena.chunks.key(node), node))
		}
	} else {
		for _, it := range t.sortFresh() {
			t.tree.ReplaceOrInsert(it)
		}
	}
	t.fresh = t.fresh[:0]
	t.adaptIfDueLocked()
}

// sortFresh returns the items of the fresh nodes in key order.
func (t *Table) sortFresh() []item {
	items := make([]item, len(t.fresh))
	c := t.arena.chunks
	for i, node := range t.fresh {
		items[i] = newItem(t.prefix, c.key(node), node)
	}
	return sortItems(items, func(a, b item) int {
		switch {
		case a.prefix < b.prefix:
			return -1
		case a.prefix > b.prefix:
			return 1
		case a.tail != b.tail:
			return cmp.Compare(a.tail, b.tail)
		}
		return bytes.Compare(c.key(a.node), c.key(b.node))
	})
}

// choosePrefixLocked checks the expected prefix against a sample of the fresh keys, a
// few odd ones at both ends left aside.
func (t *Table) choosePrefixLocked() {
	if len(t.fresh) < prefixSample {
		return
	}
	var sample [prefixSample][]byte
	step := len(t.fresh) / prefixSample
	for i := range sample {
		sample[i] = t.arena.chunks.key(t.fresh[i*step])
	}
	slices.SortFunc(sample[:], bytes.Compare)
	t.suitPrefixLocked(sample[prefixSample/16], sample[prefixSample-1-prefixSample/16])
}

// suitPrefixLocked replaces the expected prefix if it does not suit most keys, which lie
// between low and high. It reports whether it did.
func (t *Table) suitPrefixLocked(low, high []byte) bool {
	common := commonPrefix(low, high)
	if bytes.HasPrefix(common, t.prefix) && len(common)-len(t.prefix) <= adaptSlack {
		return false
	}
	t.prefix = bytes.Clone(common[:max(0, len(common)-adaptSlack)])
	return true
}
