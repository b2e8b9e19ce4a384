package stripe

import "math/rand/v2"

// A read that searches several runs pays for each after the first about as much time as a merge
// takes for mergedBytes, and a small merge takes as long as fixedRent such searches. Why reads
// start merges at all: sizes alone leave the two or three runs that a load ends with, and each
// query of a partition takes half as long again for them. Why not at once: a writer that
// adds a run after each query would have everything merged for nothing. What has been paid so far
// is never less than what the merge costs, so both together cost at most twice the better choice.
const (
	mergedBytes = 256
	fixedRent   = 512
	// payEvery is how many reads one is counted for. Why not each: goroutines that read one
	// stripe would wait for its counter.
	payEvery = 16
)

// pay notes that a read of the view has searched n runs after the first.
func (s *Stripe) pay(v *View, n int) {
	if rand.Uint32()%payEvery != 0 {
		return
	}
	paid := s.rent.Add(payEvery * int64(n))
	if price := v.price(); paid >= price && paid-payEvery*int64(n) < price && s.env.Due != nil {
		s.env.Due()
	}
}

// price is what a merge of all runs costs, in searches.
func (v *View) price() int64 {
	price := int64(fixedRent)
	for _, r := range v.Runs {
		price += int64(r.Info.Bytes / mergedBytes)
	}
	return price
}

// Paid reports whether the reads of the stripe have paid for a merge of the runs of v.
func (s *Stripe) Paid(v *View) bool { return s.rent.Load() >= v.price() }

// Settle takes what reads have paid so far.
func (s *Stripe) Settle() { s.rent.Store(0) }
