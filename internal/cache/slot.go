package cache

import (
	"sync/atomic"
	"unsafe"
)

// Slot is a place for one cached value of type T. The zero Slot is empty. Slots
// are safe for concurrent use and must not be copied after the first use.
type Slot[T any] struct {
	p atomic.Pointer[item[T]]
}

// item is a cached value. The value comes first: a hit touches its cache line and
// the marks.
type item[T any] struct {
	value T
	node
	slot *Slot[T]
}

// unlink implements evictee. The slot may hold another item by now.
func (it *item[T]) unlink() { it.slot.p.CompareAndSwap(it, nil) }

// Get returns the cached value, or nil. The value must not be
// changed; it stays valid after its eviction.
func (s *Slot[T]) Get() *T {
	it := s.p.Load()
	if it == nil {
		return nil
	}
	// Why the comparison: a store to a line that other cores read would take it
	// away from all of them on every hit.
	if it.marks.Load() != it.weight {
		it.marks.Store(it.weight)
	}
	return &it.value
}

// Touch reports whether there is a value, and does not look at it. Why: a caller that is about to
// get the values of many slots does not wait for one after the other if it asks for all first.
func (s *Slot[T]) Touch() bool { return s.p.Load() != nil }

// Peek is Get without keeping the value in the cache for longer.
func (s *Slot[T]) Peek() *T {
	if it := s.p.Load(); it != nil {
		return &it.value
	}
	return nil
}

// Insert offers a value to the cache and returns the value to use: v, or the one
// that another goroutine put into the slot first. Bytes is what v holds besides
// its own size; weight is how many passes of the hand a value survives after a hit,
// at least 1. A value that cannot be cached (larger than the budget, dropped
// group) is returned in either case.
func Insert[T any](g *Group, s *Slot[T], v T, bytes int64, weight int) *T {
	return insert(g, s, &item[T]{value: v}, bytes, weight)
}

// Replace is Insert of a value that takes the place of what is in the slot.
func Replace[T any](g *Group, s *Slot[T], v T, bytes int64, weight int) *T {
	g.cache.mu.Lock()
	if it := s.p.Load(); it != nil && it.place > 0 {
		g.cache.removeLocked(&it.node)
	}
	g.cache.mu.Unlock()
	return Insert(g, s, v, bytes, weight)
}

// InsertRoot is Insert of a value that has the slots of the values of another group, which is
// dropped when the value is evicted. It survives one more pass of the hand than other new values,
// since its user is about to fill the slots.
//
// Why: a value in a slot keeps the memory of all slots beside it, which nothing accounts for, and
// nobody would find it there.
func InsertRoot[T any](g *Group, s *Slot[T], v T, bytes int64, weight int, of *Group) *T {
	it := &item[T]{value: v}
	it.of = of
	it.marks.Store(1)
	return insert(g, s, it, bytes, weight)
}

func insert[T any](g *Group, s *Slot[T], it *item[T], bytes int64, weight int) *T {
	it.slot = s
	it.group = g
	it.weight = uint32(max(weight, 1))
	it.bytes = bytes + int64(unsafe.Sizeof(*it))

	c := g.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := s.p.Load(); first != nil {
		return &first.value
	}
	if c.insertLocked(it) {
		s.p.Store(it)
	} else if it.of != nil {
		it.of.dropped = true // nobody else finds its slots
	}
	return &it.value
}
