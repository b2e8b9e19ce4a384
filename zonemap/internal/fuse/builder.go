package fuse

import (
	"errors"
	"math/bits"
	"slices"
)

// ErrUnlucky says that no table of the shape exists for these hashes. Another salt
// helps.
var ErrUnlucky = errors.New("fuse: keys cannot be placed under this salt")

// The word of a slot while a table is built: the xor of the numbers of the keys that
// have the slot among their three, and above it how many these are. A count
// of 24 is as good as impossible without equal hashes (2e-15 a slot): repeated words are
// dropped then, since a count of 32 would overflow unnoticed.
const (
	countShift = 27
	one        = 1 << countShift
	numberMask = one - 1
)

// chunk is how many slots are looked through for lone keys before the keys found are
// taken out: the work follows the front that eats its way through the table.
const chunk = 256

// Builder holds the working memory of builds, about 26 bytes a key. The zero Builder
// is ready. It belongs to one goroutine at a time.
//
// The algorithm is the usual one: take out a key that is alone in one of its slots,
// until none is left, then assign fingerprints in the reverse order. What makes it
// fast: the hashes are put in the order of their positions first, a slot takes 4 bytes
// (numbers of keys instead of hashes), keys are taken out first in, first out, which
// lets the processor work at several, and nothing in the loop is a branch.
type Builder struct {
	byPos   []uint64 // the hashes by first position, roughly
	slots   []uint32
	queue   []uint32 // slots that had one key when they were put in
	taken   []uint64 // hashes in the order of being taken out
	takenAt []uint32 // the slot in which each was alone
	counts  [1 << maxBucketBits]uint32
}

const maxBucketBits = 9

// Build fills the planes of a table of words, which may repeat: one plane of shape
// Slots bytes for 8 bits, two for 16. The hash of a word is Mix(word + seed), of which
// the upper shardBits are not used for the first position. What planes holds is
// overwritten. The error is ErrUnlucky, or says that there are too many words.
func (b *Builder) Build(planes []byte, s Shape, words []uint64, seed uint64,
	shardBits uint) error {
	n := len(words)
	if n > MaxKeys {
		return errors.New("fuse: too many keys for one table")
	}
	b.taken = grow(b.taken, n+1)
	b.takenAt = grow(b.takenAt, n+1)
	b.arrange(words, seed, shardBits, &s)
	if !b.fillSlots(&s, shardBits) || b.peel(&s, shardBits) != n {
		unique := b.dropRepeated()
		if unique == n {
			return ErrUnlucky
		}
		n = unique
		if !b.fillSlots(&s, shardBits) || b.peel(&s, shardBits) != n {
			return ErrUnlucky
		}
	}
	b.assign(planes, &s, shardBits, n)
	return nil
}

// arrange puts the hashes in order of the leading bits that decide the first position.
func (b *Builder) arrange(words []uint64, seed uint64, shardBits uint, s *Shape) {
	hashes := b.taken[:len(words)] // not in use yet
	bucketBits := min(maxBucketBits, max(1, bits.Len64(s.range0)-14))
	shift := 64 - uint(bucketBits)
	b.byPos = grow(b.byPos, len(hashes))
	counts := b.counts[:1<<bucketBits]
	clear(counts)
	for i, w := range words {
		h := Mix(w + seed)
		hashes[i] = h
		counts[h<<shardBits>>shift]++
	}
	next := uint32(0)
	for i, c := range counts {
		counts[i] = next
		next += c
	}
	out := b.byPos
	for _, h := range hashes {
		i := h << shardBits >> shift
		at := counts[i]
		counts[i] = at + 1
		out[at] = h
	}
}

// dropRepeated leaves one of equal hashes in byPos and returns how many are left.
func (b *Builder) dropRepeated() int {
	slices.Sort(b.byPos)
	b.byPos = slices.Compact(b.byPos)
	return len(b.byPos)
}

// fillSlots counts the keys of each slot; false if there were too many for one of them:
// 24 or more, the counts that have the two highest bits.
func (b *Builder) fillSlots(s *Shape, shardBits uint) bool {
	b.slots = grow(b.slots, s.Slots())
	clear(b.slots)
	slots := b.slots
	crowd := uint32(0)
	for i, h := range b.byPos {
		p0, p1, p2 := s.Positions(h, h<<shardBits)
		v := uint32(i)
		w0 := (slots[p0] + one) ^ v
		slots[p0] = w0
		w1 := (slots[p1] + one) ^ v
		slots[p1] = w1
		w2 := (slots[p2] + one) ^ v
		slots[p2] = w2
		crowd |= w0&(w0<<1) | w1&(w1<<1) | w2&(w2<<1)
	}
	return crowd>>31 == 0
}

// isOne is 1 if the slot has one key, else 0.
func isOne(slot uint32) uint32 { return ((slot>>countShift ^ 1) - 1) >> 31 }

// peel takes out keys that are alone in a slot, for as long as there are any, and
// returns how many were taken out.
func (b *Builder) peel(s *Shape, shardBits uint) int {
	// A slot comes to hold one key at most once by losing keys; three more are
	// written beyond the end.
	b.queue = grow(b.queue, s.Slots()+chunk+4)
	slots, queue, byPos := b.slots, b.queue, b.byPos
	taken, takenAt := b.taken, b.takenAt
	if len(byPos) == 0 {
		return 0
	}
	n := 0
	for base := 0; base < len(slots); base += chunk {
		end := 0
		for i := base; i < min(base+chunk, len(slots)); i++ {
			queue[end] = uint32(i)
			end += int(isOne(slots[i]))
		}
		for head := 0; head < end; head++ {
			p := queue[head]
			lone := isOne(slots[p]) // 0: its key has been taken out from another slot
			v := slots[p] & numberMask & -lone
			h := byPos[v]
			taken[n], takenAt[n] = h, p
			n += int(lone)
			p0, p1, p2 := s.Positions(h, h<<shardBits)
			less := lone << countShift
			w0 := (slots[p0] - less) ^ v
			slots[p0] = w0
			queue[end] = p0
			end += int(isOne(w0) & lone)
			w1 := (slots[p1] - less) ^ v
			slots[p1] = w1
			queue[end] = p1
			end += int(isOne(w1) & lone)
			w2 := (slots[p2] - less) ^ v
			slots[p2] = w2
			queue[end] = p2
			end += int(isOne(w2) & lone)
		}
	}
	return n
}

// assign gives the slot in which each key was alone what makes its three slots xor to
// its fingerprint.
func (b *Builder) assign(planes []byte, s *Shape, shardBits uint, n int) {
	clear(planes)
	low := planes[:s.Slots()]
	high := planes[s.Slots():]
	for i := n - 1; i >= 0; i-- {
		h := b.taken[i]
		p0, p1, p2 := s.Positions(h, h<<shardBits)
		f := Fingerprint(h)
		low[b.takenAt[i]] = byte(f) ^ low[p0] ^ low[p1] ^ low[p2]
		if len(high) > 0 {
			high[b.takenAt[i]] = byte(f>>8) ^ high[p0] ^ high[p1] ^ high[p2]
		}
	}
}

// grow returns a slice of n elements with any content, b's memory if it suffices.
func grow[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}
