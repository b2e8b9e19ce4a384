package kv

import (
	"iter"

	"github.com/kstonedb/kstone/internal/base"
)

// Results are the items that a MultiGet has found, in the order of its keys. The zero
// Results is ready; one that is used again saves its memory. It belongs to one goroutine
// at a time.
//
// Ownership: the items are valid until the Results are used again or released, and must
// not be modified. Item.Clone makes a copy to keep.
type Results struct {
	// Expected says that most of the keys are expected to have items, as those do that an
	// index leads to. It only matters for speed.
	Expected bool
	// Expired asks for items that have expired and are still stored, too. Merges drop them.
	Expired bool

	keys  []Key // the caller's
	items []result
}

// result is what was found for one key.
type result struct {
	value   []byte
	expiry  int64
	version uint64
	found   bool
}

// Len returns the number of keys that were looked up.
func (r *Results) Len() int { return len(r.items) }

// Item returns the item of the i-th key; ok is false if it has none.
func (r *Results) Item(i int) (it Item, ok bool) {
	f := &r.items[i]
	if !f.found {
		return Item{}, false
	}
	return Item{Key: r.keys[i], Value: f.value, Expiry: f.expiry, Version: f.version}, true
}

// Value returns the value of the i-th key; ok is false if it has none.
func (r *Results) Value(i int) (value []byte, ok bool) {
	return r.items[i].value, r.items[i].found
}

// Has reports whether the i-th key has an item.
func (r *Results) Has(i int) bool { return r.items[i].found }

// All returns the items that were found, with the numbers of their keys, ascending.
func (r *Results) All() iter.Seq2[int, Item] {
	return func(yield func(int, Item) bool) {
		for i := range r.items {
			if it, ok := r.Item(i); ok && !yield(i, it) {
				return
			}
		}
	}
}

// Release lets go of the items and keeps the memory for the next use. Why: until then
// they keep alive the blocks that they lie in.
func (r *Results) Release() {
	clear(r.items)
	r.items, r.keys = r.items[:0], nil
}

// Prepare makes room for the results of keys.
func Prepare(r *Results, keys []Key) {
	r.keys = keys
	if cap(r.items) < len(keys) {
		r.items = make([]result, len(keys))
	}
	r.items = r.items[:len(keys)]
}

// wants reports whether something that was found is a result.
func (r *Results) wants(f *base.Lookup, nowMs int64) bool {
	return f.Live(nowMs) || r.Expired && f.Found && f.Kind == base.KindPutTTL
}

// Fill fills in what was found.
func Fill(r *Results, ls []base.Lookup, nowMs int64) {
	for i := range ls {
		f := &ls[i]
		if !r.wants(f, nowMs) {
			r.items[f.Index] = result{}
			continue
		}
		if f.Value == nil {
			f.Value = []byte{}
		}
		r.items[f.Index] = result{f.Value, f.Expiry, uint64(f.Seq), true}
	}
}
