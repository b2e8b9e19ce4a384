package keyset

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// batchKeys is how many keys are worked at together. Their hashes, addresses and the
// rest of the scratch memory stay in the nearest cache, and there are more of them than
// a processor can have cache misses under way.
const batchKeys = 256

// errBitmap is a programmer's error, but a wrong length must not write elsewhere.
var errBitmap = errors.New("keyset: the bitmap is too short for the keys")

// ContainsBatch sets bit i of found if keys[i] is in a segment, and clears it
// otherwise; without Exact it may also be set for keys that are not. Found needs a bit
// for every key. After an error the content of found means nothing.
//
// Keys may come in any order; sorted ones are answered faster where segments do not
// overlap. It allocates nothing, but for large batches over large segments: they take 14
// bytes of working memory a key, for 2 million keys at most and never more than the
// filters, which the Set keeps for later ones.
func (s *Set) ContainsBatch(keys []uint64, found Bitmap) error {
	if len(found)*64 < len(keys) {
		return errBitmap
	}
	sc := s.scratch(len(keys))
	defer sc.release()
	v := sc.view
	if pl := v.planes.Load(); pl.worthOrder(len(keys)) || pl == nil && v.parting.worth(keys) {
		return sc.askLarge(pl, keys, found)
	}
	return sc.each(len(keys), found, func(from, to int) {
		sc.heads = keys[from:to]
		sc.words = sc.heads
	})
}

// scratch returns the memory to ask about that many keys. The caller releases it.
func (s *Set) scratch(keys int) *scratch {
	sc := scratches.Get().(*scratch)
	sc.set, sc.view = s, s.view.Load()
	sc.view.spend(s, keys)
	return sc
}

// each asks about n keys, which load loads in pieces.
func (sc *scratch) each(n int, found Bitmap, load func(from, to int)) error {
	for at := 0; at < n; at += batchKeys {
		end := min(at+batchKeys, n)
		load(at, end)
		if err := sc.run(); err != nil {
			return err
		}
		copy(found[at/64:(end+63)/64], sc.found[:])
	}
	return nil
}

// ContainsBytesBatch is ContainsBatch for keys of bytes.
func (s *Set) ContainsBytesBatch(keys [][]byte, found Bitmap) error {
	if len(found)*64 < len(keys) {
		return errBitmap
	}
	sc := s.scratch(len(keys))
	defer sc.release()
	hash := newKeyHash(sc.view.seed)
	return sc.each(len(keys), found, func(from, to int) {
		sc.keys = keys[from:to]
		for i, k := range sc.keys {
			sc.headBuf[i], sc.wordBuf[i] = base.KeyHead(k), hash.word(k)
		}
		sc.heads, sc.words = sc.headBuf[:to-from], sc.wordBuf[:to-from]
	})
}

// New appends to dst the keys that are in no segment, in their order. A key that the
// batch has twice is appended twice. Without Exact some new keys may be missing; a key
// that is in a segment is never appended.
func (s *Set) New(dst, keys []uint64) ([]uint64, error) {
	start := len(dst)
	for len(keys) > 0 {
		var found [64]uint64
		n := min(len(keys), 64*64)
		if err := s.ContainsBatch(keys[:n], found[:]); err != nil {
			return dst[:start], err
		}
		for i, k := range keys[:n] {
			if !Bitmap(found[:]).Get(i) {
				dst = append(dst, k)
			}
		}
		keys = keys[n:]
	}
	return dst, nil
}

// spend makes the planes once enough keys have been asked.
func (v *view) spend(s *Set, keys int) {
	if v.worth == 0 || v.planes.Load() != nil || v.asked.Add(int64(keys)) < v.worth {
		return
	}
	if s.mu.TryLock() { // else another call does so, or changes the segments
		v.interleave(&s.opts)
		s.mu.Unlock()
	}
}

// A scratch is the working memory of one call.
type scratch struct {
	set  *Set
	view *view

	// The keys of the batch at work; keys is nil for integers.
	heads, words []uint64
	keys         [][]byte
	found        [batchKeys / 64]uint64

	hashes           [batchKeys]uint64
	headBuf, wordBuf [batchKeys]uint64
	intervals        [batchKeys]uint32
	alive            [batchKeys]uint16 // keys without an answer yet
	who              [batchKeys]uint16 // whose addresses are in addrs
	want             [batchKeys]byte   // fingerprints
	asked            [batchKeys]*candidate
	addrs            [3 * batchKeys]unsafe.Pointer

	hits  []hit
	check checkBuffer

	probes, positives, checks, confirmed int64
}

var scratches = sync.Pool{New: func() any {
	return &scratch{hits: make([]hit, 0, maxHits+batchKeys)}
}}

// release counts what the call has done, and gives the memory back without what it refers
// to.
func (sc *scratch) release() {
	sc.count()
	runtime.KeepAlive(sc.view)
	sc.set, sc.view, sc.keys, sc.heads, sc.words = nil, nil, nil, nil, nil
	clear(sc.hits[:cap(sc.hits)])
	sc.hits = sc.hits[:0]
	clear(sc.asked[:])
	clear(sc.addrs[:])
	scratches.Put(sc)
}

// count adds what the call has counted to the counters of the Set.
func (sc *scratch) count() {
	c := &sc.set.count
	c.probes.Add(sc.probes)
	c.positives.Add(sc.positives)
	c.checks.Add(sc.checks)
	c.confirmed.Add(sc.confirmed)
	sc.probes, sc.positives, sc.checks, sc.confirmed = 0, 0, 0, 0
}

func (sc *scratch) isFound(i int) bool { return sc.found[i>>6]>>(i&63)&1 != 0 }

// run answers for the keys of one batch.
func (sc *scratch) run() error {
	seed := sc.view.seed
	for i, w := range sc.words {
		sc.hashes[i] = base.Mix(w + seed)
	}
	return sc.answer()
}

// answer answers for the keys of one batch, whose hashes are known.
func (sc *scratch) answer() error {
	clear(sc.found[:])
	v := sc.view
	lo, hi, sorted := bounds(sc.heads)
	index := v.index
	if pl := v.planes.Load(); pl != nil {
		if err := pl.ask(sc, lo, hi); err != nil {
			return err
		}
		index = pl.rest
	}
	if len(index.items) == 0 {
		return nil
	}
	first, last := index.find(lo), index.find(hi)
	if first == last {
		if c := index.sole[first]; c != nil && sc.keys == nil {
			sc.askSole(c)
			return nil
		}
		return sc.together(index.list(first))
	}
	if sorted {
		sc.walk(index, first)
	} else {
		for i, h := range sc.heads {
			sc.intervals[i] = uint32(index.find(h))
		}
	}
	return sc.rounds(index, sc.askSoles(index))
}

// bounds returns the smallest and the largest head, and whether all are in order.
func bounds(heads []uint64) (lo, hi uint64, sorted bool) {
	lo, hi = heads[0], heads[0]
	last := lo
	sorted = true
	for _, h := range heads {
		if h < last {
			sorted = false
			break
		}
		last = h
	}
	if sorted {
		return lo, last, true
	}
	for _, h := range heads {
		lo, hi = min(lo, h), max(hi, h)
	}
	return lo, hi, false
}

// walk finds the intervals of sorted heads with a cursor.
func (sc *scratch) walk(index *intervals, at int) {
	end := index.end(at)
	for i, h := range sc.heads {
		for h > end {
			at++
			end = index.end(at)
		}
		sc.intervals[i] = uint32(at)
	}
}

// askSole asks one simple candidate about all keys.
func (sc *scratch) askSole(c *candidate) {
	shape, t := c.shape, unsafe.Pointer(c.table)
	n := len(sc.heads)
	for i, h := range sc.hashes[:n] {
		p0, p1, p2 := shape.Positions(h, h)
		sc.addrs[3*i] = unsafe.Add(t, p0)
		sc.addrs[3*i+1] = unsafe.Add(t, p1)
		sc.addrs[3*i+2] = unsafe.Add(t, p2)
	}
	sc.probes += int64(n)
	fuse.Prefetch(&sc.addrs[0], 3*n)
	for i, h := range sc.hashes[:n] {
		a := sc.addrs[3*i : 3*i+3 : 3*i+3]
		x := *(*byte)(a[0]) ^ *(*byte)(a[1]) ^ *(*byte)(a[2]) ^ byte(fuse.Fingerprint(h))
		sc.found[i>>6] |= uint64((uint32(x)-1)>>31) << (i & 63)
	}
}

// askSoles asks, for the keys whose interval has one simple candidate, that one. It
// makes the others alive and returns their number.
func (sc *scratch) askSoles(index *intervals) int {
	n, left := 0, 0
	for i := range sc.heads {
		x := sc.intervals[i]
		c := index.sole[x]
		if c == nil || sc.keys != nil {
			sc.alive[left] = uint16(i)
			if index.from[x] != index.from[x+1] && !sc.isFound(i) {
				left++
			}
			continue
		}
		h, t := sc.hashes[i], unsafe.Pointer(c.table)
		p0, p1, p2 := c.shape.Positions(h, h)
		sc.who[n] = uint16(i)
		sc.addrs[3*n] = unsafe.Add(t, p0)
		sc.addrs[3*n+1] = unsafe.Add(t, p1)
		sc.addrs[3*n+2] = unsafe.Add(t, p2)
		n++
	}
	sc.probes += int64(n)
	fuse.Prefetch(&sc.addrs[0], 3*n)
	for j := range n {
		a := sc.addrs[3*j : 3*j+3 : 3*j+3]
		i := sc.who[j] & (batchKeys - 1)
		x := *(*byte)(a[0]) ^ *(*byte)(a[1]) ^ *(*byte)(a[2]) ^
			byte(fuse.Fingerprint(sc.hashes[i]))
		sc.found[i>>6] |= uint64((uint32(x)-1)>>31) << (i & 63)
	}
	return left
}

// together asks the same candidates about all keys of the batch.
func (sc *scratch) together(list []uint32) error {
	n := 0
	for i := range sc.heads {
		sc.alive[n] = uint16(i)
		if !sc.isFound(i) {
			n++
		}
	}
	for r := 0; r < len(list) && n > 0; r++ {
		c := &sc.view.candidates[list[r]]
		asked := 0
		if c.table != nil && c.kind == partFuse && !(c.segment.ints && sc.keys != nil) {
			asked = sc.addressOne(c, n)
		} else {
			for _, i := range sc.alive[:n] {
				var err error
				if asked, err = sc.address(c, int(i), asked); err != nil {
					return err
				}
			}
		}
		var err error
		if n, err = sc.conclude(asked, n); err != nil {
			return err
		}
	}
	return nil
}

// addressOne notes where the filter of one resident candidate has the positions of all
// n keys that are alive.
func (sc *scratch) addressOne(c *candidate, n int) int {
	shape, t := c.shape, unsafe.Pointer(c.table)
	salted, seed := c.seed != sc.view.seed, c.seed
	addrs := &sc.addrs
	for j, i := range sc.alive[:n] {
		h := sc.hashes[i&(batchKeys-1)]
		if salted {
			h = base.Mix(sc.words[i] + seed)
		}
		p0, p1, p2 := shape.Positions(h, h)
		sc.want[j] = byte(fuse.Fingerprint(h))
		sc.who[j] = i
		sc.asked[j] = c
		addrs[3*j] = unsafe.Add(t, p0)
		addrs[3*j+1] = unsafe.Add(t, p1)
		addrs[3*j+2] = unsafe.Add(t, p2)
	}
	return n
}

// address notes where candidate c has the positions of key i as number j of the round,
// and returns j+1; or j if c answers without a filter.
func (sc *scratch) address(c *candidate, i, j int) (int, error) {
	head := sc.heads[i]
	if head-c.zone.lo > c.zone.hi-c.zone.lo ||
		sc.keys != nil && c.segment.ints && len(sc.keys[i]) != 8 {
		return j, nil
	}
	h := sc.hashes[i]
	p, table, err := c.of(h)
	if err != nil {
		return j, err
	}
	if p.exact() {
		if p.dense(table, head) {
			sc.found[i>>6] |= 1 << (i & 63)
		}
		return j, nil
	}
	if p.salt != 0 {
		h = base.Mix(sc.words[i] + p.seed)
	}
	p0, p1, p2 := p.shape.Positions(h, h<<c.shardBits)
	t := unsafe.Pointer(table)
	sc.want[j], sc.who[j], sc.asked[j] = byte(fuse.Fingerprint(h)), uint16(i), c
	sc.addrs[3*j] = unsafe.Add(t, p0)
	sc.addrs[3*j+1] = unsafe.Add(t, p1)
	sc.addrs[3*j+2] = unsafe.Add(t, p2)
	return j + 1, nil
}

// rounds asks the first candidate of each of the n keys alive, then the second of those
// that are left, and so on.
func (sc *scratch) rounds(index *intervals, n int) error {
	for r := uint32(0); n > 0; r++ {
		asked, left := 0, 0
		for _, i := range sc.alive[:n] {
			x := sc.intervals[i]
			at := index.from[x] + r
			c := &sc.view.candidates[index.items[at]]
			var err error
			if asked, err = sc.address(c, int(i), asked); err != nil {
				return err
			}
			sc.alive[left] = i
			if at+1 < index.from[x+1] {
				left++
			}
		}
		var err error
		if n, err = sc.conclude(asked, left); err != nil {
			return err
		}
	}
	return nil
}

// conclude reads the filters of a round, and returns how many of the n keys alive have
// no answer afterwards; they are moved to the front.
func (sc *scratch) conclude(asked, n int) (int, error) {
	sc.probes += int64(asked)
	fuse.Prefetch(&sc.addrs[0], 3*asked)
	exact := sc.set.opts.Exact
	for j := range asked {
		a := sc.addrs[3*j : 3*j+3 : 3*j+3]
		x := *(*byte)(a[0]) ^ *(*byte)(a[1]) ^ *(*byte)(a[2]) ^ sc.want[j]
		c := sc.asked[j]
		i := int(sc.who[j])
		if exact || c.twoPlanes {
			if x == 0 {
				sc.hits = append(sc.hits, hit{c, sc.who[j]})
			}
			continue
		}
		sc.found[i>>6] |= uint64((uint32(x)-1)>>31) << (i & 63)
	}
	if len(sc.hits) > 0 {
		if err := sc.settle(); err != nil {
			return 0, err
		}
	}
	left := 0
	for _, i := range sc.alive[:n] {
		sc.alive[left] = i
		left += int(^sc.found[i>>6] >> (i & 63) & 1)
	}
	return left, nil
}
