package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sort"
)

// Reads are what a transaction has read of its base.
type Reads struct {
	Keys   map[string]KeyRead // looked up
	Ranges []RangeRead        // in order; they neither overlap nor touch

	cached int // bytes of values in Keys
	keep   int // how many more pairs Ranges keep
}

// KeyRead is what a key had: Sum of no pair if there was none.
type KeyRead struct {
	Version uint64
	Sum     Sum
	pair    Pair // if it is kept for reading it again
	kept    bool
}

// RangeRead is what the range from Start on and before End had.
type RangeRead struct {
	Start, End []byte
	Sum        Sum
	// Pairs are those of the range, without values: as many as a commit may have operations, of all
	// ranges together, and none if that is not limited.
	Pairs []Pair
}

// Sum identifies a set of pairs: equal sets have equal sums in a process, and others do not. Sums
// of disjoint sets add up, so that it does not matter in what parts and order a range is read.
type Sum struct {
	n    int
	hash uint64
}

var sumSeed = maphash.MakeSeed()

// add adds a pair.
func (s *Sum) add(p Pair) {
	if p.Value == nil {
		return
	}
	var h maphash.Hash
	h.SetSeed(sumSeed)
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(p.Key)))
	h.Write(n[:])
	h.Write(p.Key)
	h.Write(p.Value)
	s.n++
	s.hash += h.Sum64()
}

// Len returns the number of pairs.
func (s Sum) Len() int { return s.n }

// maxCachedBytes bounds the values that a transaction keeps for reading them again.
const maxCachedBytes = 4 << 20

// key notes that a key was looked up.
func (r *Reads) key(key []byte, p Pair) {
	if r.Keys == nil {
		r.Keys = map[string]KeyRead{}
	}
	read := KeyRead{Version: p.Version}
	read.Sum.add(p)
	if n := len(p.Value); r.cached+n <= maxCachedBytes {
		read.pair, read.kept = p, true
		r.cached += n
	}
	r.Keys[string(key)] = read
}

// pair returns what a key had that was looked up before and is kept.
func (r *Reads) pair(key []byte) (Pair, bool) {
	read := r.Keys[string(key)]
	return read.pair, read.kept
}

// span notes that a range was read and what pairs it has. What was read before is not counted
// again: all is of one moment.
func (r *Reads) span(start, end []byte, pairs []Pair) {
	n := len(r.Ranges)
	from := sort.Search(n, func(i int) bool { return bytes.Compare(r.Ranges[i].End, start) >= 0 })
	to := from + sort.Search(n-from, func(i int) bool {
		return bytes.Compare(r.Ranges[from+i].Start, end) > 0
	})
	known := r.Ranges[from:to]
	one := RangeRead{Start: bytes.Clone(start), End: bytes.Clone(end)}
	if len(known) > 0 && bytes.Compare(known[0].Start, start) < 0 {
		one.Start = known[0].Start
	}
	if k := len(known); k > 0 && bytes.Compare(known[k-1].End, end) > 0 {
		one.End = known[k-1].End
	}
	for i := range known {
		one.Sum.n += known[i].Sum.n
		one.Sum.hash += known[i].Sum.hash
		one.Pairs = append(one.Pairs, known[i].Pairs...)
	}
	for _, p := range pairs {
		if covers(known, p.Key) {
			continue
		}
		if one.Sum.add(p); r.keep > 0 {
			one.Pairs = append(one.Pairs, Pair{Key: p.Key, Version: p.Version})
			r.keep--
		}
	}
	r.Ranges = slices.Replace(r.Ranges, from, to, one)
}

// covers reports whether one of the ranges, which are in order, has the key.
func covers(ranges []RangeRead, key []byte) bool {
	i := sort.Search(len(ranges), func(i int) bool {
		return bytes.Compare(ranges[i].End, key) > 0
	})
	return i < len(ranges) && bytes.Compare(ranges[i].Start, key) <= 0
}

// recheckPagePairs is how many pairs a page has that is read once more.
const recheckPagePairs = 4096

// Hold reads everything once more, and reports whether it is in v what it was.
func (r *Reads) Hold(ctx context.Context, v View) (bool, error) {
	keys := make([][]byte, 0, len(r.Keys))
	for key := range r.Keys {
		keys = append(keys, []byte(key))
	}
	if len(keys) > 0 {
		pairs, err := v.Get(ctx, keys)
		if err != nil {
			return false, err
		}
		for i, key := range keys {
			var now Sum
			if now.add(pairs[i]); now != r.Keys[string(key)].Sum {
				return false, nil
			}
		}
	}
	return r.rangesHold(ctx, v)
}

func (r *Reads) rangesHold(ctx context.Context, v View) (bool, error) {
	sums, spans := make([]Sum, len(r.Ranges)), make([]Span, len(r.Ranges))
	open := make([]int, len(r.Ranges))
	for i := range r.Ranges {
		open[i] = i
		spans[i] = Span{Start: r.Ranges[i].Start, End: r.Ranges[i].End, Limit: recheckPagePairs}
	}
	for len(open) > 0 {
		pages, err := v.Pages(ctx, spans)
		if err != nil {
			return false, err
		}
		n := 0
		for j := range pages {
			i, pairs := open[j], pages[j].Pairs
			for _, p := range pairs {
				sums[i].add(p)
			}
			if !pages[j].More {
				if sums[i] != r.Ranges[i].Sum {
					return false, nil
				}
				continue
			}
			open[n], spans[n] = i, spans[j]
			spans[n].Start = append(slices.Clip(pairs[len(pairs)-1].Key), 0)
			n++
		}
		open, spans = open[:n], spans[:n]
	}
	return true, nil
}
