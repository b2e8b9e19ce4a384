package engine

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// snapshots registers the sequence numbers that readers use, so that no version one
// of them needs is dropped.
//
// Invariant: horizon never exceeds the number of a registered reader, nor of one
// that registers later. The order of steps in register and horizon is what holds
// it: a reader publishes a lower bound before it reads the number it will use, and
// horizon reads the visible number before the lower bound.
type snapshots struct {
	visible *visible
	// oldest is the lowest registered number, math.MaxUint64 if there is none.
	oldest atomic.Uint64

	mu    sync.Mutex
	list  snapNode // ring; ascending numbers, because visible only grows
	count int      // guarded by mu
}

// snapNode is a registration. It lives in the reader, so that registering does not
// allocate.
type snapNode struct {
	seq        base.SeqNum
	prev, next *snapNode // guarded by snapshots.mu; nil while not registered
}

func (s *snapshots) init(v *visible) {
	s.visible = v
	s.oldest.Store(math.MaxUint64)
	s.list.prev, s.list.next = &s.list, &s.list
}

// register chooses the newest visible number for the reader and keeps it alive.
func (s *snapshots) register(n *snapNode) base.SeqNum {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list.next == &s.list {
		s.oldest.Store(uint64(s.visible.load()))
	}
	base.Yield()
	n.seq = s.visible.load() // not before the store above
	n.prev, n.next = s.list.prev, &s.list
	n.prev.next, s.list.prev = n, n
	s.count++
	return n.seq
}

// registerAt keeps alive the number of another registration. It returns ErrClosed if that
// one has ended: its number may be below the horizon then.
func (s *snapshots) registerAt(n, of *snapNode) error {
	base.Yield()
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.next == nil {
		return ErrClosed
	}
	n.seq = of.seq
	n.prev, n.next = of, of.next
	n.prev.next, n.next.prev = n, n
	s.count++
	return nil
}

// release ends a registration.
func (s *snapshots) release(n *snapNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	s.count--
	if first := s.list.next; first != &s.list {
		s.oldest.Store(uint64(first.seq))
	} else {
		s.oldest.Store(math.MaxUint64)
	}
}

// horizon returns the lowest number a present or future reader can use.
func (s *snapshots) horizon() base.SeqNum {
	v := s.visible.seq.Load() // not after the load below
	base.Yield()
	return base.SeqNum(min(v, s.oldest.Load()))
}

// collect returns the registered numbers, ascending without repeats.
func (s *snapshots) collect() (seqs []base.SeqNum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := s.list.next; n != &s.list; n = n.next {
		if len(seqs) == 0 || seqs[len(seqs)-1] != n.seq {
			seqs = append(seqs, n.seq)
		}
	}
	return seqs
}

func (s *snapshots) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// retention returns what flushes and merges that start now must keep. Every number that
// is in a frozen memtable or file by now is visible afterwards, so that later readers see
// nothing but the newest versions of it. Of what is frozen later, all versions above the
// horizon are kept.
func (db *DB) retention() stripe.Retention {
	db.visible.wait(db.log.LastSeq())
	// Before the snapshots: a reader that is not among them registers later, and so reads at
	// this number or above.
	horizon := db.visible.load()
	base.Yield()
	return stripe.Retention{
		Snapshots: db.snaps.collect(), Horizon: horizon, NowMs: db.nowMs(),
	}
}
