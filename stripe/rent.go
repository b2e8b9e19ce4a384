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

// A read passes over the deleted rows before and between those that it shows. Of a queue they are
// those taken out: where priorities or an empty queue leave no void before the next item, each read
// passes over all of them, until they go. To pass over flushRent rows takes as long as some flushes
// (tens of milliseconds), over entryRent about as long as writing an entry again. So a read costs
// at most about twice what it would if rows were flushed at the best time.
const (
	flushRent = 1 << 18
	entryRent = 16
	// minPassed is from how many rows on a read counts: below, they take about as long as the rest.
	minPassed = 128
)

// pass notes that a read of the view has passed over n rows of its active memtable. Why not of
// others: a flush does not rid reads of rows of a transaction, nor, if versions are retained, of
// those of files; and frozen memtables are being flushed.
func (s *Stripe) pass(v *View, n int) {
	if n < minPassed || v.Active.Tombstones() == 0 {
		return
	}
	if s.passed.Add(int64(n)); s.Littered(v) && s.env.Littered != nil {
		s.env.Littered() // each time: the price falls with merges
	}
}

// flushPrice is what a flush, and the merge of the deletions that it writes, cost in rows.
func (v *View) flushPrice() int64 {
	entries := uint64(v.Active.Len())
	for _, r := range v.Runs {
		entries += r.Info.Entries
	}
	return flushRent + entryRent*int64(entries)
}

// Littered reports whether the reads of the stripe have passed over so many rows since its memtable
// began that a flush of the deletions in it is due.
func (s *Stripe) Littered(v *View) bool {
	return v.Active.Tombstones() > 0 && s.passed.Load() >= v.flushPrice()
}

// Paid reports whether the reads of the stripe have paid for a merge of the runs of v.
func (s *Stripe) Paid(v *View) bool { return s.rent.Load() >= v.price() }

// Settle takes what reads have paid so far.
func (s *Stripe) Settle() { s.rent.Store(0) }
