package expr

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// HashSeed chooses a hash function of values.
type HashSeed struct {
	text    maphash.Seed
	n, m, k uint64
}

// NewHashSeed returns a random one.
func NewHashSeed() HashSeed {
	return HashSeed{maphash.MakeSeed(), rand.Uint64(), rand.Uint64(), rand.Uint64() | 1}
}

// Hash returns a hash of values. Those that are equal with == have the same. Numbers are mixed by
// one multiplication, as in wyhash, of what the seed makes of them.
func (s *HashSeed) Hash(values []Value) uint64 {
	h := s.k
	for i := range values {
		v := &values[i]
		hi, lo := bits.Mul64(v.n^s.n, h^s.m^v.m^uint64(v.kind)<<56)
		h = hi ^ lo
		if v.s != "" {
			h ^= maphash.String(s.text, v.s)
		}
	}
	return s.last(h)
}

// HashInt is Hash of one value of KindInt.
func (s *HashSeed) HashInt(n int64) uint64 {
	hi, lo := bits.Mul64(uint64(n)^s.n, s.k^s.m^uint64(KindInt)<<56)
	return s.last(hi ^ lo)
}

func (s *HashSeed) last(h uint64) uint64 {
	// This step lets all bits of a small number reach the lowest ones.
	hi, lo := bits.Mul64(h, s.k)
	return hi ^ lo
}
