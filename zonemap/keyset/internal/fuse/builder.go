package fuse

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/mapping"
)

// ErrUnlucky says that no table of the shape exists for these hashes. Another salt
// helps.
var ErrUnlucky = errors.New("fuse: keys cannot be placed under this salt")

// The word of a slot while a table is built has the number of keys that have the slot
// among their three, and the exclusive-or of what is to be known of them: with one key
// left, that is the key.
//
//	bits  0 to 12  first position within its segment
//	     13 to 20  upper byte of the fingerprint
//	     21 to 26  number of keys; bit 27 is free
//	     28 to 40  the bits that make the second position
//	     41 to 53  the bits that make the third position
//	     54 to 61  lower byte of the fingerprint
//	     62 to 63  which of the three positions this slot is
//
// The segment is that of the slot. The word of a key that was taken out is the same, but
// for the first position, which is whole, in bits 0 to 27.
const (
	offsetMask = 1<<13 - 1
	upperShift = 13
	countShift = 21
	one        = 1 << countShift
	countMask  = 63 << countShift
	firstMask  = 1<<28 - 1
	shift1     = 28
	shift2     = 41
	lowerShift = 54
	roleShift  = 62
	roleMask   = 3 << roleShift

	// A slot of 32 keys is as good as impossible without equal hashes (1e-22): repeated
	// words are dropped then, since 64 would overflow unnoticed.
	crowded = 32 << countShift
)

// Builder holds the working memory of builds, about 17 bytes a key. The zero Builder
// is ready. It belongs to one goroutine at a time.
//
// The algorithm is the usual one: take out a key that is alone in one of its slots,
// until none is left, then assign fingerprints in the reverse order. What makes it
// fast: the hashes are put in the order of their positions first; keys are put in and
// taken out in one sweep over the table, so that slots are still in the cache when
// they are needed again; a slot has all that is to be known of its last key; keys are
// taken out first in, first out, which lets the processor work at several, and nothing
// in the loop is a branch.
type Builder struct {
	byPos  []uint64 // the hashes by first position, roughly: in buckets
	ends   [1 << maxBucketBits]uint32
	shift  uint // a bucket is the hash, without shard, shifted by so much
	slots  []uint64
	queue  []uint32 // slots that had one key when they were put in
	taken  []uint64 // the keys in the order of being taken out
	uppers []byte   // of their fingerprints, for two planes
}

const maxBucketBits = 12

// Build fills the planes of a table of words, which may repeat: one plane of shape
// Slots bytes for 8 bits, two for 16. The hash of a word is base.Mix(word + seed);
// its upper shardBits are not used for the first position. What planes holds is
// overwritten. Build returns the number of distinct words. The error is ErrUnlucky, or
// says that the table would be too large.
func (b *Builder) Build(planes []byte, s Shape, words []uint64, seed uint64,
	shardBits uint) (distinct int, err error) {
	n := len(words)
	if n > MaxKeys || s.segLen > maxSegLen || s.Slots() > firstMask {
		return 0, errors.New("fuse: too many keys for one table, or segments too long")
	}
	b.taken = mapping.Grow(b.taken, n+1)
	b.uppers = b.uppers[:0]
	if len(planes) > s.Slots() {
		b.uppers = mapping.Grow(b.uppers, n+1)
	}
	b.arrange(words, seed, shardBits, &s)
	if b.sweep(&s, shardBits) != n {
		unique := b.dropRepeated(shardBits)
		if unique == n {
			return 0, ErrUnlucky
		}
		n = unique
		if b.sweep(&s, shardBits) != n {
			return 0, ErrUnlucky
		}
	}
	clear(planes)
	b.assign(planes[:s.Slots()], &s, b.taken[:n])
	if len(b.uppers) > 0 {
		b.assignUpper(planes[s.Slots():], &s, b.taken[:n])
	}
	return n, nil
}

// arrange puts the hashes in order of the leading bits that decide the first position.
func (b *Builder) arrange(words []uint64, seed uint64, shardBits uint, s *Shape) {
	b.shift = 64 - uint(min(maxBucketBits, max(1, bits.Len64(s.range0)-13)))
	shift := b.shift
	b.byPos = mapping.Grow(b.byPos, len(words))
	next := &b.ends
	clear(next[:])
	for _, w := range words {
		next[base.Mix(w+seed)<<shardBits>>shift&(1<<maxBucketBits-1)]++
	}
	sum := uint32(0)
	for i, c := range next {
		next[i] = sum
		sum += c
	}
	out := b.byPos
	for _, w := range words {
		h := base.Mix(w + seed)
		n := &next[h<<shardBits>>shift&(1<<maxBucketBits-1)]
		at := *n
		*n = at + 1
		out[at] = h
	}
}

// dropRepeated leaves one of equal hashes in byPos and returns how many are left.
//
// Why by the bits after those of the shard first: they decide the first position, and sweep needs
// the hashes in that order. Under the salt of a filter the bits of the shard differ.
func (b *Builder) dropRepeated(shardBits uint) int {
	order := func(h uint64) uint64 { return bits.RotateLeft64(h, int(shardBits)) }
	slices.SortFunc(b.byPos, func(x, y uint64) int { return cmp.Compare(order(x), order(y)) })
	b.byPos = slices.Compact(b.byPos)
	clear(b.ends[:])
	for _, h := range b.byPos {
		b.ends[h<<shardBits>>b.shift]++
	}
	for i := 1; i < len(b.ends); i++ {
		b.ends[i] += b.ends[i-1]
	}
	return len(b.byPos)
}

// sweep puts the keys into the slots, bucket by bucket, and takes out those that are
// alone in a slot to which no later bucket can add, for as long as there are any. It
// returns how many were taken out; -1 if too many keys shared a slot.
//
// The slots at work are a window that moves over the table. Slot p is b.slots[p mod
// their number]: what the window has left is zero again, and becomes what it enters.
func (b *Builder) sweep(s *Shape, shardBits uint) int {
	need := max(minWindow, 4*(s.Slots()>>(64-b.shift))+4*int(s.segLen))
	size := 1
	for size < min(need, s.Slots()) {
		size *= 2
	}
	for ; ; size *= 4 {
		if n := b.sweepWindow(s, shardBits, size); n != tooNarrow {
			return n
		}
	}
}

const (
	// minWindow is in slots of 8 bytes: half of the cache of one processor. What is in
	// work at a time takes about two thirds of it.
	minWindow = 1 << 16
	tooNarrow = -2
)

func (b *Builder) sweepWindow(s *Shape, shardBits uint, size int) int {
	b.slots = mapping.Grow(b.slots, size)
	clear(b.slots)
	// A slot comes to hold one key at most once by losing keys; three more are
	// written beyond the end.
	b.queue = mapping.Grow(b.queue, size+4)
	n, from, begin, entered := 0, uint32(0), 0, 0
	for i := range uint64(1) << (64 - b.shift) {
		// The first position of later keys is not below end, the others are in later
		// segments.
		end, reach := s.Slots(), s.Slots()
		if i+1 < 1<<(64-b.shift) {
			hi, _ := bits.Mul64((i+1)<<b.shift, s.range0)
			end = int(hi)
			reach = min(reach, end&^int(s.mask)+3*int(s.segLen))
		}
		if !b.enter(entered, reach) {
			return tooNarrow
		}
		entered = reach
		if !b.fill(s, shardBits, b.byPos[from:b.ends[i]]) {
			return -1
		}
		from = b.ends[i]
		n = b.peel(s, begin, end, n)
		begin = end
	}
	return n
}

// enter reports whether the slots from begin to end are free.
func (b *Builder) enter(begin, end int) bool {
	if end-begin > len(b.slots) {
		return false
	}
	if end <= len(b.slots) {
		return true // for the first time
	}
	used := uint64(0)
	for p := max(begin, len(b.slots)); p < end; {
		stretch := b.slots[p&(len(b.slots)-1):]
		stretch = stretch[:min(len(stretch), end-p)]
		for _, w := range stretch {
			used |= w
		}
		p += len(stretch)
	}
	return used == 0
}

// fill puts keys into the slots; false if there were too many in one of them.
func (b *Builder) fill(s *Shape, shardBits uint, hashes []uint64) bool {
	slots, mask := b.slots, s.mask
	crowd, last := uint64(0), uint32(len(slots)-1)
	for _, h := range hashes {
		p0, p1, p2 := s.Positions(h, h<<shardBits)
		f := uint64(Fingerprint(h))
		v := uint64(p0&mask) | f>>8<<upperShift | uint64(uint32(h>>18)&mask)<<shift1 |
			uint64(uint32(h)&mask)<<shift2 | f&0xff<<lowerShift
		s0, s1, s2 := &slots[p0&last], &slots[p1&last], &slots[p2&last]
		w0 := (*s0 + one) ^ v
		w1 := (*s1 + one) ^ v ^ 1<<roleShift
		w2 := (*s2 + one) ^ v ^ 2<<roleShift
		*s0, *s1, *s2 = w0, w1, w2
		crowd |= w0 | w1 | w2
	}
	return crowd&crowded == 0
}

// isOne is 1 if the slot has one key, else 0.
func isOne(slot uint64) uint64 {
	if slot&countMask == one {
		return 1
	}
	return 0
}

// chunk is how many slots are looked through for lone keys before the keys found are
// taken out: the work follows the front that eats its way through the table.
const chunk = 256

// peel takes out keys that are alone in one of the slots before end, for as long as
// there are any; from begin on no slot has been looked at. N keys have been taken out
// before; the result counts these, too.
func (b *Builder) peel(s *Shape, begin, end, n int) int {
	slots, queue, taken, uppers := b.slots, b.queue, b.taken, b.uppers
	last := uint64(len(slots) - 1)
	segLen, segMask, log := s.segLen, uint64(s.mask), uint(bits.TrailingZeros32(s.segLen))
	for ; begin < end; begin += chunk {
		tail := uint64(0)
		for i := begin; i < min(begin+chunk, end); i++ {
			queue[tail] = uint32(i)
			tail += isOne(slots[i&(len(slots)-1)])
		}
		for head := uint64(0); head < tail; head++ {
			p := uint64(queue[head])
			w := slots[p&last]
			lone := isOne(w) // 0: its key has been taken out from another slot
			v := w &^ (countMask | roleMask) & -lone
			role := w >> roleShift & -lone
			first := (p&^segMask-role<<log)&-lone | v&offsetMask
			taken[n] = v>>shift1<<shift1 | first | role<<roleShift
			if len(uppers) > 0 {
				uppers[n] = byte(v >> upperShift)
			}
			n += int(lone)
			p0 := uint32(first)
			p1 := (p0 + segLen) ^ uint32(v>>shift1)&offsetMask
			p2 := (p0 + 2*segLen) ^ uint32(v>>shift2)&offsetMask
			less := lone << countShift
			s0, s1, s2 := &slots[uint64(p0)&last], &slots[uint64(p1)&last], &slots[uint64(p2)&last]
			w0 := (*s0 - less) ^ v
			w1 := (*s1 - less) ^ v ^ lone<<roleShift
			w2 := (*s2 - less) ^ v ^ lone<<(roleShift+1)
			*s0, *s1, *s2 = w0, w1, w2
			queue[tail] = p0
			tail += isOne(w0) & lone
			queue[tail] = p1
			tail += isOne(w1) & lone & below(p1, end)
			queue[tail] = p2
			tail += isOne(w2) & lone & below(p2, end)
		}
	}
	return n
}

// below is 1 if p is below end, else 0.
func below(p uint32, end int) uint64 { return (uint64(p) - uint64(end)) >> 63 }

// assign gives the slot in which each key was alone what makes its three slots xor to
// the lower byte of its fingerprint. The table is all zero before.
func (b *Builder) assign(table []byte, s *Shape, taken []uint64) {
	for i := len(taken) - 1; i >= 0; i-- {
		p0, p1, p2, at := s.positionsOf(taken[i])
		table[at] = byte(taken[i]>>lowerShift) ^ table[p0] ^ table[p1] ^ table[p2]
	}
}

// assignUpper does the same with the upper bytes.
func (b *Builder) assignUpper(table []byte, s *Shape, taken []uint64) {
	for i := len(taken) - 1; i >= 0; i-- {
		p0, p1, p2, at := s.positionsOf(taken[i])
		table[at] = b.uppers[i] ^ table[p0] ^ table[p1] ^ table[p2]
	}
}

// positionsOf returns the positions of a key that was taken out, and that of the slot
// in which it was alone.
func (s *Shape) positionsOf(v uint64) (p0, p1, p2, at uint32) {
	p0 = uint32(v & firstMask)
	p1 = (p0 + s.segLen) ^ uint32(v>>shift1)&offsetMask
	p2 = (p0 + 2*s.segLen) ^ uint32(v>>shift2)&offsetMask
	at = p0
	if v>>roleShift == 1 {
		at = p1
	}
	if v>>roleShift == 2 {
		at = p2
	}
	return p0, p1, p2, at
}
