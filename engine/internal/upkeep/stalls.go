package upkeep

import (
	"sync"
	"time"
)

// stallFrom is the shortest wait that is called a stall.
const stallFrom = 100 * time.Microsecond

// stalls counts the waits of writers. Those that go on count as well: a writer that waits
// for ever is to be seen.
type stalls struct {
	mu      sync.Mutex
	count   uint64               // guarded by mu, as all below; waits that are over
	time    time.Duration        // of those
	longest time.Duration        // of those
	next    uint64               // the name of the next wait
	waiting map[uint64]time.Time // since when
}

// begin notes a writer that begins to wait, and returns the name of the wait.
func (s *stalls) begin(now time.Time) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[uint64]time.Time{}
	}
	s.next++
	s.waiting[s.next] = now
	return s.next
}

// end ends a wait and returns how long it was. It reports whether that is a stall.
func (s *stalls) end(wait uint64, now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := now.Sub(s.waiting[wait])
	delete(s.waiting, wait)
	if d < stallFrom {
		return d, false
	}
	s.count++
	s.time += d
	s.longest = max(s.longest, d)
	return d, true
}

// sum returns the number of stalls, their time in all and the longest.
func (s *stalls) sum(now time.Time) (count uint64, total, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count, total, longest = s.count, s.time, s.longest
	for _, since := range s.waiting {
		if d := now.Sub(since); d >= stallFrom {
			count++
			total += d
			longest = max(longest, d)
		}
	}
	return count, total, longest
}
