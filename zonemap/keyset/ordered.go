package keyset

import (
	"math/bits"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/mapping"
)

// orderFor decides whether large batches are put in the order of their hashes before
// the planes are asked. In that order they walk through the rows of every group from
// the first to the last, and the stretch at work fits into the cache of one processor.
func (pl *planes) orderFor() {
	size := 0
	for i := range pl.groups {
		size += len(pl.groups[i].rows)
	}
	if size < leastPartedBytes {
		return
	}
	pl.orderBits = min(maxBucketBits, uint(bits.Len(uint(size/stretchBytes))))
	pl.orderLeast = size / bytesPerPartedKey
	pl.orderMost = min(size/bytesAtMost, partedKeys) &^ 63
}

// worthOrder reports whether so many keys should be put in order; pl may be nil.
func (pl *planes) worthOrder(keys int) bool {
	return pl != nil && pl.orderBits > 0 && keys >= pl.orderLeast
}

// askOrdered answers for at most pl.orderMost keys in the order of their hashes.
func (sc *scratch) askOrdered(pl *planes, keys []uint64, found Bitmap) error {
	m := sc.set.takeParted()
	defer sc.set.spare.Store(m)
	clear(found[:(len(keys)+63)/64])
	seed := sc.view.seed
	inside := m.byHash(keys, seed, pl.orderBits, sc.view.reach)
	for at := 0; at < inside; at += batchKeys {
		n := min(batchKeys, inside-at)
		copy(sc.hashes[:], m.hashes[at:at+n])
		for i, h := range sc.hashes[:n] {
			sc.headBuf[i] = fuse.Unmix(h) - seed
		}
		sc.heads, sc.words = sc.headBuf[:n], sc.headBuf[:n]
		if err := sc.answer(); err != nil {
			return err
		}
		order := m.order[at : at+n]
		for w, b := range sc.found {
			for ; b != 0; b &= b - 1 {
				i := order[w*64+bits.TrailingZeros64(b)]
				found[i>>6] |= 1 << (i & 63)
			}
		}
	}
	return nil
}

// byHash puts hashes and numbers of the keys inside of an interval in order of the leading
// bits of the hash. It returns how many there are.
func (m *parted) byHash(keys []uint64, seed uint64, bucketBits uint, in zone) (inside int) {
	n := len(keys)
	m.hashes = mapping.Grow(m.hashes, n)
	m.order = mapping.Grow(m.order, n)
	clear(m.counts[:])
	shift := 64 - bucketBits
	span := in.hi - in.lo
	for _, k := range keys {
		if k-in.lo <= span {
			m.counts[base.Mix(k+seed)>>shift&(maxBuckets-1)]++
		}
	}
	next := uint32(0)
	for i, c := range m.counts {
		m.counts[i] = next
		next += c
	}
	for i, k := range keys {
		if k-in.lo > span {
			continue
		}
		h := base.Mix(k + seed)
		c := &m.counts[h>>shift&(maxBuckets-1)]
		at := *c
		*c = at + 1
		m.hashes[at] = h
		m.order[at] = uint32(i)
	}
	return int(next)
}
