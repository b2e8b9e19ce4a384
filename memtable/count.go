package memtable

import (
	"bytes"
	"slices"
)

// someKeys is a random sample of the keys of a table, ascending.
type someKeys struct {
	keys [][]byte
	of   int // how many keys the table had
}

const (
	// sampleKeys is the size of a sample, which is taken again when the table has grown by a
	// sampleGrowth-th and some keys: it costs about 200 µs.
	sampleKeys   = 2048
	sampleGrowth = 10
	sampleSlack  = 32
)

// CountAbout estimates how many keys of the table are in [lo, hi), whatever their versions are;
// a nil hi is no bound. give is by how much the estimate may be wrong, roughly: 0 of a frozen
// table.
//
// Why a sample: the tree does not know the rank of a key. The hash index has the keys in an
// order that has nothing to do with theirs, so any part of it is a sample.
func (t *Table) CountAbout(lo, hi []byte) (n, give float64) {
	switch t.state.Load() {
	case stateEmpty:
		return 0, 0
	case stateFrozen:
		items := t.sorted()
		to := len(items)
		if hi != nil {
			to = t.search(items, hi)
		}
		return float64(max(0, to-t.search(items, lo))), 0
	}
	s, all := t.sample()
	from, _ := slices.BinarySearchFunc(s.keys, lo, bytes.Compare)
	to := len(s.keys)
	if hi != nil {
		to, _ = slices.BinarySearchFunc(s.keys, hi, bytes.Compare)
	}
	give = float64(all - s.of)
	if s.of > len(s.keys) {
		give += float64(s.of) / float64(len(s.keys))
	}
	return float64(max(0, to-from)) * float64(all) / float64(len(s.keys)), give
}

// sample returns a sample and the number of keys of a table that is not empty.
func (t *Table) sample() (s *someKeys, all int) {
	t.mu.Lock()
	all = t.index.taken
	if s = t.some.Load(); s != nil && all <= s.of+s.of/sampleGrowth+sampleSlack {
		t.mu.Unlock()
		return s, all
	}
	s = &someKeys{of: all}
	var nodes [sampleKeys]uint32
	n := 0
	slots := t.index.slots()
	for i := range slots {
		if slot := slots[i].Load(); slot != 0 {
			nodes[n] = uint32(slot)
			if n++; n == len(nodes) {
				break
			}
		}
	}
	chunks := t.arena.chunks
	t.mu.Unlock()
	for _, node := range nodes[:n] {
		s.keys = append(s.keys, chunks.key(node))
	}
	slices.SortFunc(s.keys, bytes.Compare)
	t.some.Store(s)
	return s, all
}
