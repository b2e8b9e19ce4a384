package exec

import (
	"bytes"
	"container/heap"
	"iter"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// source is a stream of a merge, positioned at an item.
type source struct {
	next  func() (store.Item, error, bool)
	stop  func()
	item  store.Item
	key   []byte // what is compared
	index int    // place in the plan, for items that compare equal
	rows  bool   // the stream is of partition keys
	from  int    // bytes of the key that are left out
}

// advance goes to the next item; ok is false at the end.
func (s *source) advance() (ok bool, err error) {
	if s.item, err, ok = s.next(); err != nil || !ok {
		return false, err
	}
	s.key = s.item.Key.SK
	if s.rows {
		s.key = s.item.Key.PK
	}
	s.key = s.key[min(s.from, len(s.key)):]
	return true, nil
}

// sources is a heap of streams, the one with the first item on top.
type sources struct {
	list    []*source
	reverse bool
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h *sources) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *sources) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	c := bytes.Compare(a.key, b.key)
	if c == 0 && a.rows && b.rows {
		c = bytes.Compare(a.item.Key.SK, b.item.Key.SK)
	}
	if h.reverse {
		c = -c
	}
	return c < 0 || c == 0 && a.index < b.index
}

// Swap implements heap.Interface.
func (h *sources) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push implements heap.Interface.
func (h *sources) Push(x any) { h.list = append(h.list, x.(*source)) }

// Pop implements heap.Interface.
func (h *sources) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// readMerged merges streams by what follows their prefixes.
func (a *access) readMerged(s *sink) error {
	return a.merge(s.put, func(st *plan.Stream) iter.Seq2[store.Item, error] {
		return func(yield func(store.Item, error) bool) {
			err := a.one(st, func(it store.Item) bool { return yield(it, nil) })
			if err != nil {
				yield(store.Item{}, err)
			}
		}
	})
}

// merge puts the items of all streams in order.
func (a *access) merge(put func(store.Item) bool,
	items func(*plan.Stream) iter.Seq2[store.Item, error]) error {
	h := &sources{reverse: a.node.Reverse}
	var all []*source
	defer func() {
		for _, s := range all {
			s.stop()
		}
	}()
	for i := range a.node.Streams {
		st := &a.node.Streams[i]
		s := &source{index: i, rows: st.PK == nil, from: st.Prefix}
		s.next, s.stop = iter.Pull2(items(st))
		all = append(all, s)
		ok, err := s.advance()
		if err != nil {
			return err
		}
		if ok {
			h.list = append(h.list, s)
		}
	}
	heap.Init(h)
	for len(h.list) > 0 {
		top := h.list[0]
		if !put(top.item) {
			return nil
		}
		ok, err := top.advance()
		switch {
		case err != nil:
			return err
		case ok:
			heap.Fix(h, 0)
		default:
			heap.Pop(h)
		}
	}
	return nil
}
