package keyset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// SetOptions say how a Set answers. Nil, and the zero value, mean approximate answers
// and the default budget.
type SetOptions struct {
	// Exact makes every answer right: what a filter lets pass is looked up among the
	// stored keys of the segment, or where it stores none, by CheckKeys or CheckBytes.
	// Otherwise an absent key passes for a present one as often as the filters let it.
	Exact bool
	// CheckKeys and CheckBytes read the data of seg and set present[i] if it has
	// keys[i]. They may be called concurrently. An error makes the whole question
	// fail; a key is never called absent because a read has failed.
	CheckKeys  func(seg *Segment, keys []uint64, present []bool) error
	CheckBytes func(seg *Segment, keys [][]byte, present []bool) error
	// MemoryBytes is what the interleaved copies of overlapping filters may take, which
	// make batches fast; 0 means 1 GiB, below 0 none are made. The memory of segments
	// read on demand is the business of their Cache.
	MemoryBytes int64
}

const defaultMemoryBytes = 1 << 30

// A Set answers which keys are in any of its segments, which are appended and dropped
// as a whole. A key that is in a segment is never denied.
//
// A Set is safe for concurrent use. Every question is answered from the segments at the
// time it began; Append and Drop do not wait for questions, nor questions for them.
type Set struct {
	opts  SetOptions
	mu    sync.Mutex // serialises changes
	view  atomic.Pointer[view]
	count counters
	spare atomic.Pointer[parted] // what the last large batch has worked with
}

// NewSet returns an empty Set; nil options mean the defaults.
func NewSet(opts *SetOptions) *Set {
	s := &Set{}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.MemoryBytes == 0 {
		s.opts.MemoryBytes = defaultMemoryBytes
	}
	s.view.Store(newView(nil, &s.opts))
	return s
}

// ErrSeed says that segments with different seeds were to be in one Set.
var ErrSeed = errors.New("keyset: segments of a set must have the same seed")

// ErrNoKeys says that a Set of exact answers cannot check the positives of a segment.
var ErrNoKeys = errors.New("keyset: segment stores no keys, and there is no function to check")

// checkable reports whether the positives of a segment can be checked, or need not be.
func (s *Segment) checkable(o *SetOptions) bool {
	if s.stored || o.CheckKeys != nil || o.CheckBytes != nil {
		return true
	}
	for i := range s.parts {
		if !s.parts[i].exact() {
			return false
		}
	}
	return true
}

// Append adds segments. Filters in memory are checked now, so that no later question
// meets damage; for a damaged one the error is a *corrupt.Error and nothing is added.
// A segment that is in the Set already is not added twice.
func (s *Set) Append(segments ...*Segment) error {
	for _, seg := range segments {
		if s.opts.Exact && !seg.checkable(&s.opts) {
			return ErrNoKeys
		}
		if err := seg.load(); err != nil {
			return fmt.Errorf("keyset: append segment: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.view.Load().segments)
	for _, seg := range segments {
		if len(all) > 0 && all[0].hash.seed != seg.hash.seed {
			return ErrSeed
		}
		if !slices.Contains(all, seg) {
			all = append(all, seg)
		}
	}
	s.view.Store(newView(all, &s.opts))
	return nil
}

// Drop removes a segment and reports whether it was there.
func (s *Set) Drop(segment *Segment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.view.Load().segments
	at := slices.Index(old, segment)
	if at < 0 {
		return false
	}
	s.view.Store(newView(slices.Delete(slices.Clone(old), at, at+1), &s.opts))
	return true
}

// Segments returns the segments in the order in which they were appended.
func (s *Set) Segments() []*Segment { return slices.Clone(s.view.Load().segments) }

// Prepare makes the interleaved copies now. Otherwise they are made once batches have
// asked for a share of the keys, which slows one batch down.
func (s *Set) Prepare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.Load().interleave(&s.opts)
}

// A view is the state of a Set between two changes. All but planes and asked is
// immutable.
type view struct {
	segments   []*Segment
	seed       uint64
	candidates []candidate
	zones      []zone // of the candidates
	reach      zone   // from the smallest to the largest head of all zones
	index      *intervals
	parting    *parting // nil where it is not worth it

	planes atomic.Pointer[planes] // nil until made, or not worth it
	asked  atomic.Int64           // keys of batches, for the decision to make planes
	worth  int64                  // so many asked keys pay for planes; 0 for never
}

// A candidate is what an interval's list names: a block, or a segment without blocks.
type candidate struct {
	shape     fuse.Shape
	seed      uint64
	table     *byte // nil for shards, and for what is read on demand
	part      *part // nil for shards
	segment   *Segment
	zone      zone
	twoPlanes bool // 16 bits
	shardBits uint
	kind      uint8
	simple    bool // one resident filter under the seed of the Set, whose word is final
}

// findSoles notes where a list has one simple candidate.
func (v *view) findSoles(x *intervals) *intervals {
	x.sole = make([]*candidate, len(x.starts))
	for i := range x.starts {
		if list := x.list(i); len(list) == 1 && v.candidates[list[0]].simple {
			x.sole[i] = &v.candidates[list[0]]
		}
	}
	return x
}

func newView(segments []*Segment, opts *SetOptions) *view {
	// A reach of no keys: heads are compared by their distance from lo.
	v := &view{segments: segments, reach: zone{lo: math.MaxUint64, hi: math.MaxUint64}}
	for _, seg := range segments {
		v.seed = seg.hash.seed
		if seg.keys == 0 {
			continue
		}
		if seg.shardBits > 0 {
			v.add(candidate{segment: seg, shardBits: seg.shardBits, kind: partFuse,
				twoPlanes: seg.bits == 16,
				zone:      zone{base.KeyHead(seg.min), base.KeyHead(seg.max)}})
			continue
		}
		for i := range seg.parts {
			p := &seg.parts[i]
			c := candidate{segment: seg, part: p, zone: zone{p.lo, p.hi}, kind: p.kind,
				shape: p.shape, seed: p.seed, twoPlanes: seg.bits == 16}
			if seg.data != nil {
				c.table = p.tablePtr.Load()
			}
			c.simple = c.table != nil && c.kind == partFuse && c.seed == v.seed &&
				!c.twoPlanes && !opts.Exact
			v.add(c)
		}
	}
	v.index = v.findSoles(newIntervals(v.zones, func(int) bool { return true }))
	v.worth = v.planesWorth(opts)
	v.parting = newParting(v)
	return v
}

func (v *view) add(c candidate) {
	if len(v.candidates) == 0 {
		v.reach = c.zone
	}
	v.reach.lo, v.reach.hi = min(v.reach.lo, c.zone.lo), max(v.reach.hi, c.zone.hi)
	v.candidates = append(v.candidates, c)
	v.zones = append(v.zones, c.zone)
}

// of returns the part of c that decides about the hash, and its table. The hash is that
// under the seed of the Set.
func (c *candidate) of(hash uint64) (*part, *byte, error) {
	if c.table != nil || c.kind == partRange {
		return c.part, c.table, nil
	}
	p := c.part
	if p == nil {
		p = &c.segment.parts[hash>>(64-c.shardBits)]
	}
	t, err := c.segment.table(p)
	return p, t, err
}
