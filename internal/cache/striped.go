package cache

import (
	"sync/atomic"
	"unsafe"
)

// counterStripes is the number of copies of each counter.
const counterStripes = 32

// counterFields is how many counters a Striped holds.
const counterFields = 8

// Striped is a group of counters for hot paths: each counter exists
// counterStripes times, a cache line apart, and goroutines spread over the
// copies. The zero Striped is ready. Safe for concurrent use.
type Striped struct {
	stripes [counterStripes]counterStripe
}

type counterStripe struct {
	n [counterFields]atomic.Uint64
}

// Add adds n to a counter and returns the new value of the copy that it has added to: every kth
// addition of 1 is found where that is a multiple of k.
func (s *Striped) Add(field int, n uint64) uint64 {
	return s.stripes[stripeIndex()].n[field%counterFields].Add(n)
}

// Load returns the value of a counter. Additions that run at the same time may or
// may not be included.
func (s *Striped) Load(field int) uint64 {
	var sum uint64
	for i := range s.stripes {
		sum += s.stripes[i].n[field%counterFields].Load()
	}
	return sum
}

// stripeIndex picks a stripe from the address of the caller's stack: stacks of
// different goroutines lie apart, and no memory has to be read to tell them apart.
// The choice only matters for speed.
func stripeIndex() int {
	var here byte
	page := uint64(uintptr(unsafe.Pointer(&here))) >> 11
	return int(page * 0x9e3779b97f4a7c15 >> 59)
}
