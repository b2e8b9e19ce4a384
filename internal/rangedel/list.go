// Package rangedel keeps range tombstones in a form that can be searched: a list
// of fragments that do not overlap, each with the newest tombstone over it.
//
// A range tombstone [start, end)@seq deletes the versions below seq of the keys in
// its range. Among several tombstones over one key only the newest matters to a
// reader, so a List holds at most 2n-1 fragments for n tombstones and one binary
// search answers "is this version deleted?".
//
// A compaction has to answer the question for every snapshot at once; Eras and
// ByEra do that, Keep says which tombstones it must write out.
package rangedel

import (
	"bytes"
	"container/heap"
	"slices"
	"sort"

	"github.com/kstonedb/kstone/internal/base"
)

// List is an immutable set of fragmented range tombstones. A nil *List is valid
// and empty. It may be used by any number of goroutines.
//
// Invariant: fragments are sorted, do not overlap, are not empty, and two
// fragments that touch have different sequence numbers.
//
// Ownership: a List refers to the key slices of the tombstones that it was built
// from; they must not change.
type List struct {
	frags []base.RangeTombstone
}

// Build returns the fragments of those tombstones in ts whose sequence number is
// at most snap, nil if there are none. Tombstones that are empty (Start >= End)
// are ignored. The order of ts does not matter and ts is not changed.
func Build(ts []base.RangeTombstone, snap base.SeqNum) *List {
	in := make([]base.RangeTombstone, 0, len(ts))
	for _, t := range ts {
		if t.Seq <= snap && bytes.Compare(t.Start, t.End) < 0 {
			in = append(in, t)
		}
	}
	if len(in) == 0 {
		return nil
	}
	return &List{frags: fragment(in)}
}

// fragment sweeps over the boundaries of in from left to right. The heap holds
// the tombstones that have started, newest on top; ended ones leave it when they
// come to the top. An empty fragment between equal boundaries grows with the next one.
//
// Requires: no empty tombstones; in may be reordered.
func fragment(in []base.RangeTombstone) []base.RangeTombstone {
	slices.SortFunc(in, func(a, b base.RangeTombstone) int {
		return bytes.Compare(a.Start, b.Start)
	})
	bounds := make([][]byte, 0, 2*len(in))
	for _, t := range in {
		bounds = append(bounds, t.Start, t.End)
	}
	slices.SortFunc(bounds, bytes.Compare)

	var out []base.RangeTombstone
	var open newestFirst
	next := 0
	for i, b := range bounds[:len(bounds)-1] {
		for next < len(in) && bytes.Equal(in[next].Start, b) {
			heap.Push(&open, in[next])
			next++
		}
		for len(open) > 0 && bytes.Compare(open[0].End, b) <= 0 {
			heap.Pop(&open)
		}
		if len(open) == 0 {
			continue
		}
		seq, end := open[0].Seq, bounds[i+1]
		if n := len(out); n > 0 && out[n-1].Seq == seq && bytes.Equal(out[n-1].End, b) {
			out[n-1].End = end
			continue
		}
		out = append(out, base.RangeTombstone{Start: b, End: end, Seq: seq})
	}
	return out
}

// newestFirst is a heap of tombstones by descending sequence number.
type newestFirst []base.RangeTombstone

func (h newestFirst) Len() int           { return len(h) }
func (h newestFirst) Less(i, j int) bool { return h[i].Seq > h[j].Seq }
func (h newestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *newestFirst) Push(x any)        { *h = append(*h, x.(base.RangeTombstone)) }
func (h *newestFirst) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}

// Len returns the number of fragments.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.frags)
}

// All returns the fragments in key order. The caller must not change them.
func (l *List) All() []base.RangeTombstone {
	if l == nil {
		return nil
	}
	return l.frags
}

// search returns the index of the first fragment that ends after key.
func (l *List) search(key []byte) int {
	return sort.Search(len(l.frags), func(i int) bool {
		return bytes.Compare(key, l.frags[i].End) < 0
	})
}

// CoverSeq returns the sequence number of the newest tombstone over key, 0 if
// there is none. A version of key is deleted if its number is below the result.
func (l *List) CoverSeq(key []byte) base.SeqNum {
	if l == nil {
		return 0
	}
	i := l.search(key)
	if i == len(l.frags) || bytes.Compare(key, l.frags[i].Start) < 0 {
		return 0
	}
	return l.frags[i].Seq
}

// Fragment returns the fragment that holds key; ok is false if there is none. A
// cursor on a deleted key jumps to the fragment's end or before its start.
func (l *List) Fragment(key []byte) (start, end []byte, seq base.SeqNum, ok bool) {
	start, end, seq, ok = l.Next(key)
	if !ok || bytes.Compare(key, start) < 0 {
		return nil, nil, 0, false
	}
	return start, end, seq, true
}

// Next returns the first fragment that ends after key: the one that holds key, or
// else the first one to its right; ok is false if there is none.
func (l *List) Next(key []byte) (start, end []byte, seq base.SeqNum, ok bool) {
	if l == nil {
		return nil, nil, 0, false
	}
	i := l.search(key)
	if i == len(l.frags) {
		return nil, nil, 0, false
	}
	f := &l.frags[i]
	return f.Start, f.End, f.Seq, true
}

// Walker answers CoverSeq for keys that only ascend, in amortised constant time.
// The zero Walker is over an empty list. It belongs to one goroutine.
type Walker struct {
	rest []base.RangeTombstone // fragments that end after the last key asked for
}

// Walk returns a Walker at the start of l.
func (l *List) Walk() Walker { return Walker{rest: l.All()} }

// CoverSeq is List.CoverSeq.
//
// Requires: key is not below the key of an earlier call.
func (w *Walker) CoverSeq(key []byte) base.SeqNum {
	for len(w.rest) > 0 && bytes.Compare(w.rest[0].End, key) <= 0 {
		w.rest = w.rest[1:]
	}
	if len(w.rest) == 0 || bytes.Compare(key, w.rest[0].Start) < 0 {
		return 0
	}
	return w.rest[0].Seq
}
