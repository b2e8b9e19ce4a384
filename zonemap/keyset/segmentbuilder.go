package keyset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/mapping"
)

// SegmentOptions say how a segment is built. Nil, and the zero value, mean one filter
// with 8-bit fingerprints for all keys, under seed 0, without stored keys.
type SegmentOptions struct {
	// Seed of the hash; NewSeed makes one. Whoever knows it can choose absent keys that
	// pass for present ones. It is stored in the segment.
	Seed uint64
	// Bits of a fingerprint: 8 (0 means 8) for about 1 false positive in 256 absent
	// keys, 16 for 1 in 65536 at twice the size.
	Bits int
	// StoreKeys keeps the keys beside the filters, sorted, so that positives can be
	// checked without a reader.
	StoreKeys bool
	// BlockKeys above 0 sorts the keys and makes a filter and a zone map for every so
	// many: for data on disk that is read in small parts, and for sorted
	// queries.
	BlockKeys int
	// Shards above 1, a power of two up to 4096, splits the keys by hash into so many
	// filters: they are built in the processor's cache, and in parallel. A filter of
	// fewer keys takes a little more space. 0 means 1. Not together with BlockKeys.
	Shards int
	// Workers is how many goroutines build blocks or shards, at most one for each of
	// them; 0 means 1.
	Workers int
}

func (o *SegmentOptions) withDefaults() (SegmentOptions, error) {
	var c SegmentOptions
	if o != nil {
		c = *o
	}
	c.Bits = cmp.Or(c.Bits, 8)
	c.Shards = cmp.Or(c.Shards, 1)
	var errs []error
	if c.Bits != 8 && c.Bits != 16 {
		errs = append(errs, fmt.Errorf("keyset: %d bits; 8 and 16 are supported", c.Bits))
	}
	if c.Shards < 0 || c.Shards&(c.Shards-1) != 0 || c.Shards > maxShards {
		errs = append(errs, fmt.Errorf("keyset: %d shards, not a power of two up to %d",
			c.Shards, maxShards))
	}
	if c.Workers < 0 {
		errs = append(errs, fmt.Errorf("keyset: %d workers", c.Workers))
	}
	if c.BlockKeys < 0 || c.BlockKeys > fuse.MaxKeys {
		errs = append(errs, fmt.Errorf("keyset: blocks of %d keys, not 0 to %d",
			c.BlockKeys, fuse.MaxKeys))
	}
	if c.BlockKeys > 0 && c.Shards > 1 {
		errs = append(errs, errors.New("keyset: a segment has blocks or shards, not both"))
	}
	return c, errors.Join(errs...)
}

// A SegmentBuilder collects keys and builds segments of them, one after the other,
// keeping its working memory: 25 to 40 bytes a key, and the keys themselves if they are
// not integers. It belongs to one goroutine at a time.
type SegmentBuilder struct {
	opts SegmentOptions
	hash keyHash

	words []uint64 // of all keys; for integers these are the keys
	// For keys that are not all integers: heads, and the keys themselves in arena.
	heads []uint64
	ends  []int
	arena []byte

	hashes []uint64
	fuse   []fuse.Builder // one for each worker that there has been work for
	sort   radixSorter
}

// NewSegmentBuilder returns a builder; nil options mean the defaults.
func NewSegmentBuilder(opts *SegmentOptions) (*SegmentBuilder, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &SegmentBuilder{opts: o, hash: newKeyHash(o.Seed)}, nil
}

// Add adds a key. A key may be added more than once.
func (b *SegmentBuilder) Add(key uint64) {
	b.words = append(b.words, key)
	if b.ends != nil {
		b.addBytes(key, keyBytes(key))
	}
}

// AddAll adds keys, which it copies.
func (b *SegmentBuilder) AddAll(keys []uint64) {
	if b.ends == nil {
		if len(b.words) == 0 {
			b.words = mapping.Grow(b.words, len(keys))[:0]
		}
		b.words = append(b.words, keys...)
		return
	}
	for _, k := range keys {
		b.Add(k)
	}
}

// AddBytes adds a key of bytes, which it copies. Eight bytes are the same key as the
// big-endian number they make.
func (b *SegmentBuilder) AddBytes(key []byte) {
	if len(key) != 8 && b.ends == nil {
		b.ends = make([]int, 0, 1024)
		for _, w := range b.words {
			b.addBytes(w, keyBytes(w))
		}
	}
	b.words = append(b.words, b.hash.word(key))
	if b.ends != nil {
		b.addBytes(base.KeyHead(key), key)
	}
}

func (b *SegmentBuilder) addBytes(head uint64, key []byte) {
	b.heads = append(b.heads, head)
	b.arena = append(b.arena, key...)
	b.ends = append(b.ends, len(b.arena))
}

// Len returns the number of keys added since the last Build or Reset.
func (b *SegmentBuilder) Len() int { return len(b.words) }

// Reset forgets the keys and keeps the memory.
func (b *SegmentBuilder) Reset() {
	b.words, b.heads, b.arena = b.words[:0], b.heads[:0], b.arena[:0]
	b.ends = nil
}

// Build makes a segment of the added keys and forgets them. The same keys in the same
// order give the same bytes.
func (b *SegmentBuilder) Build() (*Segment, error) {
	defer b.Reset()
	s := &Segment{hash: b.hash, bits: b.opts.Bits, ints: b.ends == nil,
		stored: b.opts.StoreKeys, blocked: b.opts.BlockKeys > 0}
	if b.opts.Shards > 1 {
		s.shardBits = uint(bits.TrailingZeros(uint(b.opts.Shards)))
	}
	in := b.arrange(s)
	if err := b.cut(s, in); err != nil {
		return nil, err
	}
	return b.write(s, in)
}

// buildOf is Build for integer keys, which stay where they are unless they must be sorted.
// Requires: no key was added, and b builds with nothing else.
func (b *SegmentBuilder) buildOf(keys []uint64) (*Segment, error) {
	if b.opts.BlockKeys > 0 || b.opts.StoreKeys {
		b.AddAll(keys)
		return b.Build()
	}
	b.words = keys // never appended to: no build of b copies keys
	return b.Build()
}

// arranged are the keys in the order in which parts take them: sorted for blocks and
// stored keys, by shard for shards.
type arranged struct {
	words, heads []uint64 // the same slice for integers
	order        []int    // key i is added key order[i]; nil for integers
	from         []int    // part i has the keys from[i] to from[i+1]
	min, max     []byte
	zone         zone // of all heads
}

func (b *SegmentBuilder) arrange(s *Segment) *arranged {
	in := &arranged{words: b.words, heads: b.words}
	if !s.ints {
		b.arrangeBytes(in)
	} else if s.blocked || s.stored {
		in.words = slices.Compact(b.sort.sorted(b.words))
		in.heads = in.words
	}
	n := len(in.words)
	switch {
	case s.shardBits > 0:
		b.shard(in, s.shardBits)
	case s.blocked:
		for at := 0; at < n; at += b.opts.BlockKeys {
			in.from = append(in.from, at)
		}
		in.from = append(in.from, n)
	case n > 0:
		in.from = []int{0, n}
	}
	if n > 0 {
		in.zone.lo, in.zone.hi, _ = bounds(in.heads)
		s.min, s.max = in.min, in.max
	}
	if n > 0 && s.ints {
		s.min, s.max = keyBytes(in.zone.lo), keyBytes(in.zone.hi)
	}
	s.keys = uint64(n)
	return in
}

// addedKey returns the bytes of the added key i.
func (b *SegmentBuilder) addedKey(i int) []byte {
	from := 0
	if i > 0 {
		from = b.ends[i-1]
	}
	return b.arena[from:b.ends[i]]
}

// arrangeBytes sorts keys of bytes and drops repeated ones.
func (b *SegmentBuilder) arrangeBytes(in *arranged) {
	order := make([]int, len(b.words))
	for i := range order {
		order[i] = i
	}
	compare := func(x, y int) int {
		if b.heads[x] != b.heads[y] {
			if b.heads[x] < b.heads[y] {
				return -1
			}
			return 1
		}
		return bytes.Compare(b.addedKey(x), b.addedKey(y))
	}
	slices.SortFunc(order, compare)
	order = slices.CompactFunc(order, func(x, y int) bool { return compare(x, y) == 0 })
	in.order = order
	in.words, in.heads = make([]uint64, len(order)), make([]uint64, len(order))
	for i, at := range order {
		in.words[i], in.heads[i] = b.words[at], b.heads[at]
	}
	in.min = bytes.Clone(b.addedKey(order[0]))
	in.max = bytes.Clone(b.addedKey(order[len(order)-1]))
}

// shard puts the keys in order of their shards, and keeps the order within a shard.
func (b *SegmentBuilder) shard(in *arranged, shardBits uint) {
	n := len(in.words)
	in.from = make([]int, 1<<shardBits+1)
	b.hashes = slices.Grow(b.hashes[:0], n)[:n]
	for i, w := range in.words {
		h := base.Mix(w + b.hash.seed)
		b.hashes[i] = h
		in.from[h>>(64-shardBits)+1]++
	}
	for i := range 1 << shardBits {
		in.from[i+1] += in.from[i]
	}
	next := slices.Clone(in.from)
	words := make([]uint64, n)
	heads, order := words, in.order
	if in.order != nil {
		heads, order = make([]uint64, n), make([]int, n)
	}
	for i, h := range b.hashes {
		at := next[h>>(64-shardBits)]
		next[h>>(64-shardBits)]++
		words[at] = in.words[i]
		if in.order != nil {
			heads[at], order[at] = in.heads[i], in.order[i]
		}
	}
	in.words, in.heads, in.order = words, heads, order
}
