package keyset

import "sync/atomic"

// counters are those of a Set.
type counters struct {
	probes, positives, checks, confirmed atomic.Int64
}

// Stats says what a Set has done and what it holds.
type Stats struct {
	Keys uint64 // in all segments, a key of several segments several times

	// Of batches, since the Set was made. A probe of an interleaved copy counts once,
	// however many filters it answers for. Questions about single keys are not counted:
	// a counter that all processors share would cost more than they do.
	Probes, Positives int64
	// Positives that were checked, and those found to be right.
	Checked, Confirmed int64

	FilterBytes      uint64 // of all filters, in memory or not
	InterleavedBytes uint64 // of the interleaved copies
}

// BitsPerKey returns the size of the filters.
func (s Stats) BitsPerKey() float64 {
	if s.Keys == 0 {
		return 0
	}
	return 8 * float64(s.FilterBytes) / float64(s.Keys)
}

// Stats returns the figures of the Set at this moment.
func (s *Set) Stats() Stats {
	v := s.view.Load()
	st := Stats{
		Probes: s.count.probes.Load(), Positives: s.count.positives.Load(),
		Checked: s.count.checks.Load(), Confirmed: s.count.confirmed.Load(),
	}
	for _, seg := range v.segments {
		st.Keys += seg.Len()
		st.FilterBytes += seg.FilterBytes()
	}
	if pl := v.planes.Load(); pl != nil {
		for i := range pl.groups {
			st.InterleavedBytes += uint64(len(pl.groups[i].rows))
		}
	}
	return st
}
