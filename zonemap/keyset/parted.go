package keyset

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/mapping"
)

// A parting is how large batches over segments that do not overlap are answered: the
// keys are put in order of the stretch of a filter that they will read. Such a stretch
// fits into the cache of one processor, and most reads find their line there.
//
// Why: three lines from memory a key, even with all of them under way at once, take
// twice as long as moving the key and reading three lines near by.
type parting struct {
	targets []target // by interval
	buckets int
	least   int // with fewer keys it is not worth it
	most    int // so many are put in order together
}

// A target is the filter of an interval: its stretches have the numbers first to
// first+stretches-1. In order of hashes, they are in order of positions.
type target struct {
	first     uint32
	stretches uint32
}

// The first two buckets are of keys that no zone covers, and of those that have more
// than one simple filter to ask.
const (
	bucketNone = iota
	bucketMany
	firstBucket
)

const (
	stretchBytes  = 256 << 10
	maxBucketBits = 12
	maxBuckets    = 1 << maxBucketBits
	// At most so many keys are put in order together, 14 bytes of memory each, and not
	// more than one for so many bytes of the filters.
	partedKeys  = 2 << 20
	bytesAtMost = 16
	// A line of a filter should be read a few times: one key for so many bytes.
	bytesPerPartedKey = 256
	// Below so many bytes the filters themselves are near by.
	leastPartedBytes = 4 << 20
)

// newParting returns nil where it is never worth it.
func newParting(v *view) *parting {
	p := &parting{targets: make([]target, len(v.index.starts)), buckets: firstBucket}
	size, simple := 0, 0
	for i, c := range v.index.sole {
		t := &p.targets[i]
		switch t.first, t.stretches = bucketMany, 1; {
		case c != nil:
			slots := c.shape.Slots()
			t.first = uint32(p.buckets)
			t.stretches = uint32((slots + stretchBytes - 1) / stretchBytes)
			p.buckets += int(t.stretches)
			size += slots
			simple++
		case len(v.index.list(i)) == 0:
			t.first = bucketNone
		}
	}
	if size < leastPartedBytes || p.buckets > maxBuckets || simple < len(v.candidates)/2 {
		return nil
	}
	p.least = size / bytesPerPartedKey
	p.most = min(size/bytesAtMost, partedKeys) &^ 63
	return p
}

// worth reports whether keys should be put in order; p may be nil.
func (p *parting) worth(keys []uint64) bool {
	return p != nil && len(keys) >= p.least && !slices.IsSorted(keys)
}

// A parted is the working memory of a large batch.
type parted struct {
	buckets []uint16
	hashes  []uint64
	order   []uint32 // whose hashes they are
	counts  [maxBuckets + 1]uint32
}

// takeParted returns the memory that the last large batch has left, or new one. It is
// kept because pages that are new to the process cost as much as the batch itself.
func (s *Set) takeParted() *parted {
	if m := s.spare.Swap(nil); m != nil {
		return m
	}
	return new(parted)
}

// askLarge answers for a large batch; pl is nil if there are no planes.
func (sc *scratch) askLarge(pl *planes, keys []uint64, found Bitmap) error {
	ask, most := sc.askParted, 0
	if pl != nil {
		ask = func(keys []uint64, found Bitmap) error { return sc.askOrdered(pl, keys, found) }
		most = pl.orderMost
	} else {
		most = sc.view.parting.most
	}
	for at := 0; at < len(keys); at += most {
		to := min(at+most, len(keys))
		if err := ask(keys[at:to], found[at/64:]); err != nil {
			return err
		}
	}
	return nil
}

// askParted answers for at most parting.most keys by the filters of one segment each.
func (sc *scratch) askParted(keys []uint64, found Bitmap) error {
	m := sc.set.takeParted()
	defer sc.set.spare.Store(m)
	clear(found[:(len(keys)+63)/64])
	if !m.arrange(sc.view, keys) {
		return nil
	}
	p, index := sc.view.parting, sc.view.index
	for i, t := range p.targets {
		if t.first < firstBucket {
			continue
		}
		// The stretches of a filter follow one another.
		from, to := m.counts[t.first-1], m.counts[t.first+t.stretches-1]
		for ; from < to; from += batchKeys {
			n := min(to-from, batchKeys)
			sc.askHashes(index.sole[i], m.hashes[from:from+n], m.order[from:from+n], found)
		}
	}
	from, to := m.counts[bucketMany-1], m.counts[bucketMany]
	for ; from < to; from += batchKeys {
		order := m.order[from:min(from+batchKeys, to)]
		for i, at := range order {
			sc.headBuf[i] = keys[at]
		}
		sc.heads, sc.words = sc.headBuf[:len(order)], sc.headBuf[:len(order)]
		if err := sc.run(); err != nil {
			return err
		}
		for i, at := range order {
			found[at>>6] |= sc.found[i>>6] >> (i & 63) & 1 << (at & 63)
		}
	}
	return nil
}

// arrange puts hashes and numbers of the keys in order of their buckets, and leaves in
// counts where each bucket ends; false if no zone covers any key.
func (m *parted) arrange(v *view, keys []uint64) bool {
	n := len(keys)
	m.buckets = mapping.Grow(m.buckets, n)
	m.hashes = mapping.Grow(m.hashes, n)
	m.order = mapping.Grow(m.order, n)
	clear(m.counts[:])
	p, index, seed := v.parting, v.index, v.seed
	for i, k := range keys {
		t := p.targets[index.find(k)]
		at, _ := bits.Mul64(base.Mix(k+seed), uint64(t.stretches))
		b := t.first + uint32(at)
		m.buckets[i] = uint16(b)
		m.counts[b]++
	}
	if int(m.counts[bucketNone]) == n {
		return false
	}
	next := uint32(0)
	for i, c := range m.counts[:p.buckets] {
		m.counts[i] = next
		next += c
	}
	for i, k := range keys {
		c := &m.counts[m.buckets[i]&(maxBuckets-1)]
		at := *c
		*c = at + 1
		m.hashes[at] = base.Mix(k + seed)
		m.order[at] = uint32(i)
	}
	return true
}

// askHashes asks one simple candidate about hashes, and marks the keys.
func (sc *scratch) askHashes(c *candidate, hashes []uint64, order []uint32, found Bitmap) {
	shape, t := c.shape, unsafe.Pointer(c.table)
	n := len(hashes)
	for i, h := range hashes {
		p0, p1, p2 := shape.Positions(h, h)
		a := sc.addrs[3*i : 3*i+3 : 3*i+3]
		a[0], a[1], a[2] = unsafe.Add(t, p0), unsafe.Add(t, p1), unsafe.Add(t, p2)
	}
	sc.probes += int64(n)
	fuse.Prefetch(&sc.addrs[0], 3*n)
	for i, h := range hashes {
		a := sc.addrs[3*i : 3*i+3 : 3*i+3]
		x := *(*byte)(a[0]) ^ *(*byte)(a[1]) ^ *(*byte)(a[2]) ^ byte(fuse.Fingerprint(h))
		at := order[i]
		found[at>>6] |= uint64((uint32(x)-1)>>31) << (at & 63)
	}
}
