package keyset

import "math/bits"

// A Bitmap holds one bit for each key of a batch: bit i is bit i%64 of element i/64.
type Bitmap []uint64

// NewBitmap returns a Bitmap for n keys, all clear.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Get returns bit i.
func (b Bitmap) Get(i int) bool { return b[i>>6]>>(i&63)&1 != 0 }

// Set sets bit i.
func (b Bitmap) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// Count returns the number of set bits.
func (b Bitmap) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}
