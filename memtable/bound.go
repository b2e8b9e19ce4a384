package memtable

// bound is the result of one walk of the tree by Bound.
type bound struct {
	at   item
	take func(item) bool // sets at to the first item of a walk
}

// Bound appends to dst the first key from key on (reversed: the last one below key, or of all
// for nil), whatever its versions are. It reports false if there is none. It costs less than
// a cursor, and serves readers that want to know whether they need one.
func (t *Table) Bound(dst, key []byte, reverse bool) ([]byte, bool) {
	switch t.state.Load() {
	case stateEmpty:
		return dst, false
	case stateFrozen:
		return t.boundSorted(dst, key, reverse)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Load() == stateFrozen {
		return t.boundSorted(dst, key, reverse)
	}
	t.settleLocked()
	b := &t.bound
	if b.take == nil {
		b.take = func(it item) bool { b.at = it; return false }
	}
	b.at, t.probe = item{}, key
	switch pivot := newItem(t.prefix, key, 0); {
	case !reverse:
		t.tree.AscendGreaterOrEqual(pivot, b.take)
	case key == nil:
		t.tree.Descend(b.take)
	default:
		t.tree.DescendLessOrEqual(pivot, b.take)
	}
	if t.probe = nil; b.at.node == 0 {
		return dst, false
	}
	return append(dst, t.arena.chunks.key(b.at.node)...), true
}

func (t *Table) boundSorted(dst, key []byte, reverse bool) ([]byte, bool) {
	items := t.sorted()
	i := len(items)
	if !reverse || key != nil {
		i = t.search(items, key)
	}
	if reverse {
		i--
	}
	if i < 0 || i == len(items) {
		return dst, false
	}
	return append(dst, t.arena.chunks.key(items[i].node)...), true
}
