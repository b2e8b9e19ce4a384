package tikv

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Timestamps of a commit that has conditions to read.
//
// The naive way: take a timestamp, read the conditions as of it, write. Those are three trips, as
// no two of them can be sent together: what is read at the newest state is of no known moment.
//
// The way taken: the transaction begins at a timestamp that an earlier commit has left. The
// conditions are read as of it while a new timestamp is taken, and then it writes: two trips. The
// servers refuse it if something that it writes or locks has been written since its beginning, as
// they do for any transaction, so an old beginning may cost a conflict, but never a wrong commit.
// The new timestamp makes the commit come after all that were acknowledged before this call; then
// it is left for the next one. If a condition does not hold, or the commit is in conflict, nothing
// was written, and it is done again in the usual order, at the new timestamp.
//
// Invariant: no two transactions begin at the same timestamp, which is their name.

// maxSpareAge bounds the age of a beginning. Why: locks live for three seconds from the beginning,
// and servers commit asynchronously for two.
const maxSpareAge = time.Second

// maxSpares bounds what is kept: one for each commit at a time.
const maxSpares = 64

// spares are timestamps at which no transaction has begun.
type spares struct {
	mu   sync.Mutex
	list []spare // in the order of put
}

type spare struct {
	ts    uint64
	taken time.Time
}

// put adds a timestamp.
func (s *spares) put(ts uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == maxSpares {
		s.list = append(s.list[:0], s.list[1:]...)
	}
	s.list = append(s.list, spare{ts, time.Now()})
}

// take removes the newest timestamp and returns it, 0 if there is none that is young enough.
func (s *spares) take() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.list)
	if n == 0 || time.Since(s.list[n-1].taken) > maxSpareAge {
		s.list = s.list[:0]
		return 0
	}
	ts := s.list[n-1].ts
	s.list = s.list[:n-1]
	return ts
}

// beside takes a timestamp while f runs.
func (s *Store) beside(ctx context.Context, f func() error) (ts uint64, err error) {
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { ts, failed = s.timestamp(ctx) })
	err = f()
	wg.Wait()
	if err == nil {
		err = failed
	}
	return ts, err
}

// commitKey is the key of a *sending in the context of a commit.
type commitKey struct{}

// sending is the state of a commit that the client carries out.
type sending struct {
	// now is what the client gets when it asks for a timestamp that the commit comes after, which
	// it does before it sends anything. 0: a new one.
	now uint64
	// allow, if not nil, is asked before a request that commits at a timestamp. After an error none
	// is sent, and it is the outcome. allowed is the timestamp that was allowed last.
	allow   func(ts uint64) error
	allowed uint64
	refused error
	// prewritten: a request has been sent. decided: one that may have decided the commit.
	prewritten, decided atomic.Bool
}
