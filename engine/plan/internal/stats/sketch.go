package stats

import (
	"math"
	"math/bits"
)

// sketchBits makes 4096 registers: 4 KB, and a standard error of 1.6 %.
const sketchBits = 12

// Sketch counts different values in little memory: HyperLogLog (Flajolet, Fusy, Gandouet,
// Meunier, 2007) with linear counting for small numbers. The zero Sketch is empty.
type Sketch struct {
	registers [1 << sketchBits]uint8
}

// Add counts a value.
func (s *Sketch) Add(value []byte) { s.addHash(hashBytes(value)) }

func (s *Sketch) addHash(h uint64) {
	rank := uint8(bits.LeadingZeros64(h<<sketchBits|1<<(sketchBits-1)) + 1)
	if r := &s.registers[h>>(64-sketchBits)]; *r < rank {
		*r = rank
	}
}

// Count estimates the number of different values.
func (s *Sketch) Count() float64 {
	const m = 1 << sketchBits
	sum, empty := 0.0, 0
	for _, r := range s.registers {
		sum += math.Ldexp(1, -int(r))
		if r == 0 {
			empty++
		}
	}
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && empty > 0 {
		return m * math.Log(m/float64(empty))
	}
	return estimate
}

// hashBytes is FNV-1a with a final mix (splitmix64), since FNV alone has weak high bits.
func hashBytes(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
