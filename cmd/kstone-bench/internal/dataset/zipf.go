package dataset

import (
	"math"
	"math/rand/v2"
)

// theta is the skew of YCSB.
const theta = 0.99

// Zipf draws numbers below n with the skew of YCSB: rank 0 is the most frequent.
// Drawing costs a power function, so a Zipf draws a long sequence in advance, and
// every goroutine reads it from its own place. Algorithm: J. Gray et al., Quickly
// generating billion-record synthetic databases, SIGMOD 1994, as in YCSB.
type Zipf struct{ ranks []uint32 }

const drawn = 1 << 20 // a power of two

// NewZipf prepares draws below n, which must fit 32 bits.
func NewZipf(n, seed uint64) *Zipf {
	zeta := 0.0
	for i := range n {
		zeta += math.Pow(1/float64(i+1), theta)
	}
	zeta2 := 1 + math.Pow(0.5, theta)
	alpha := 1 / (1 - theta)
	eta := (1 - math.Pow(2/float64(n), 1-theta)) / (1 - zeta2/zeta)
	z := &Zipf{ranks: make([]uint32, drawn)}
	r := rand.New(rand.NewPCG(seed, 3))
	for i := range z.ranks {
		u := r.Float64()
		uz := u * zeta
		switch {
		case uz < 1:
			z.ranks[i] = 0
		case uz < zeta2:
			z.ranks[i] = 1
		default:
			rank := uint64(float64(n) * math.Pow(eta*u-eta+1, alpha))
			z.ranks[i] = uint32(min(rank, n-1))
		}
	}
	return z
}

// Rank returns draw number i; the sequence repeats after about a million.
func (z *Zipf) Rank(i uint64) uint64 { return uint64(z.ranks[i&(drawn-1)]) }
