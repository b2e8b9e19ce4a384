package base

import (
	"math"
	"math/bits"
)

// StripeSet is a set of stripes, iterated in ascending order. The zero StripeSet is empty.
type StripeSet struct {
	words [NumStripes / 64]uint64
	used  uint8 // has the bits of the words that are not 0: most sets are of one stripe
}

// Add adds a stripe.
func (s *StripeSet) Add(id uint8) {
	s.words[id/64] |= 1 << (id % 64)
	s.used |= 1 << (id / 64)
}

// Has reports whether a stripe is in the set.
func (s *StripeSet) Has(id uint8) bool { return s.words[id/64]>>(id%64)&1 == 1 }

// Fill makes it the set of all stripes.
func (s *StripeSet) Fill() {
	for w := range s.words {
		s.words[w] = math.MaxUint64
	}
	s.used = 1<<len(s.words) - 1
}

// Union adds the stripes of t.
func (s *StripeSet) Union(t *StripeSet) {
	for w, word := range t.words {
		s.words[w] |= word
	}
	s.used |= t.used
}

// Each calls f with the stripes of the set in ascending order.
func (s *StripeSet) Each(f func(id uint8)) {
	for used := s.used; used != 0; used &= used - 1 {
		w := bits.TrailingZeros8(used) % len(s.words)
		for word := s.words[w]; word != 0; word &= word - 1 {
			f(uint8(w*64 + bits.TrailingZeros64(word)))
		}
	}
}
