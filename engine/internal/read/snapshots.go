package read

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// # Retention
//
// Two steps drop versions: Put cuts the chain of a key in the active memtable, and flushes and
// merges write only what is needed. A reader at number s needs the newest version at or below s of
// every key. Snapshots, transactions and reads of several keys register s; a Get of the present
// does not, because the newest version of a key stays, unless it is a tombstone over nothing.
//
// The naive way: a reader loads the visible number and adds it to a list. A writer takes the
// lowest number of the list as the horizon, or the visible number if the list is empty.
//
// Why it fails: a writer may look between the two steps. Key k has versions 5 and 7:
//
//	R: loads visible = 6
//	A: publishes 7 (k@7)
//	W: finds no reader, horizon = 7; Put k@8 cuts off k@5
//	R: adds 6 to the list; reads k at 6: not found
//
// One mutex around both would be taken by every Put of all stripes.
//
// The way taken: register stores a lower bound in oldest before it loads the number that it uses.
// horizon loads the visible number before oldest, and returns the lower one. If horizon misses the
// bound, it has loaded the visible number before the reader did, so it is not above the reader's.
// If other readers are registered, oldest is at or below their numbers, hence not above the new
// one.
//
// Flushes and merges keep more precise books. retention loads the visible number as horizon, then
// collects the registered numbers. Of the versions of a key between two such numbers the newest
// can be read, and is kept; of those above the horizon, all. A reader that is not collected
// registers later, at the horizon or above. In the other order a reader could register at 7 in
// between, see the horizon become 8, and lose k@7 to k@8. A memtable that is frozen after
// retention holds versions above the horizon, which all stay. The wait for LastSeq is for space: a
// low horizon only keeps more.
//
// A reader registers first and takes its views afterwards. In the other order a freeze may come in
// between, and the views lack commits that are at or below the reader's number.
//
// Invariants: no horizon is above the number of a reader that is registered or registers later. A
// registration is copied only while it lasts (registerAt), else ErrClosed. A Get at a snapshot
// takes no second registration: it checks after the lookup that the snapshot was not released.
//
// A floor is the registration of all that is read of the past: it stays at the head of the list,
// before all that registers later, and moves up. A reader that registers at the floor or above,
// under the mutex, finds all that it needs, since whatever has been dropped was judged by this
// floor or a lower one. A floor may be above what is visible: of another process, or if a commit
// takes that long. What expires is judged by the time of the floor for the same reason.
//
// What a crash leaves: no reader survives, so no registration matters. The floor is in the manifest
// before it is in the list: after a crash it is the same or a higher one.

// snapshots registers the sequence numbers that readers use, so that no version one
// of them needs is dropped.
type snapshots struct {
	visible *visible
	// oldest is the lowest registered number, math.MaxUint64 if there is none.
	oldest atomic.Uint64

	mu    sync.Mutex
	gen   *generation // guarded by mu: the present one
	list  snapNode    // ring; ascending numbers
	count int         // guarded by mu; without the floor

	floor   snapNode // not registered: nothing of the past is kept
	floorMs atomic.Int64
}

// snapNode is a registration. It lives in the reader, so that registering does not
// allocate.
type snapNode struct {
	seq        base.SeqNum
	gen        *generation // stays after the registration
	prev, next *snapNode   // guarded by snapshots.mu; nil while not registered
}

func (s *snapshots) init(v *visible, stripes *[base.NumStripes]stripe.Stripe) {
	s.visible, s.gen = v, &generation{stripes: stripes}
	s.oldest.Store(math.MaxUint64)
	s.list.prev, s.list.next = &s.list, &s.list
}

// register chooses the newest visible number for the reader and keeps it alive.
func (s *snapshots) register(n *snapNode) base.SeqNum {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.visible.load()
	if first := s.list.next; first == &s.list || first.seq > v { // a floor
		s.oldest.Store(uint64(v))
	}
	base.Yield()
	n.seq = s.visible.load() // not before the store above
	n.gen = s.gen
	n.gen.readers++
	if s.list.prev.seq > n.seq {
		s.insertLocked(n)
	} else {
		n.prev, n.next = s.list.prev, &s.list
		n.prev.next, s.list.prev = n, n
	}
	s.count++
	return n.seq
}

// insertLocked adds a registration at its place.
func (s *snapshots) insertLocked(n *snapNode) {
	at := s.list.prev
	for at != &s.list && at.seq > n.seq {
		at = at.prev
	}
	n.prev, n.next = at, at.next
	n.prev.next, n.next.prev = n, n
	s.oldest.Store(uint64(s.list.next.seq))
}

// setFloor moves the floor up to a number, whose time is known.
func (s *snapshots) setFloor(seq base.SeqNum, ms int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := &s.floor; n.next != nil {
		n.prev.next, n.next.prev = n.next, n.prev
	}
	s.floor.seq = seq
	s.insertLocked(&s.floor)
	s.floorMs.Store(ms)
}

// lowest returns the lowest number that registerSeq takes, and whether there is a floor.
func (s *snapshots) lowest() (base.SeqNum, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.floor.next == nil {
		return s.visible.load(), false
	}
	return s.floor.seq, true
}

// registerSeq chooses a number of the past for the reader, and reports whether it is kept.
func (s *snapshots) registerSeq(n *snapNode, seq base.SeqNum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.floor.next == nil || seq < s.floor.seq || seq > s.visible.load() {
		return false
	}
	n.seq, n.gen = seq, s.gen
	n.gen.readers++
	s.insertLocked(n)
	s.count++
	return true
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
	n.seq, n.gen = of.seq, of.gen
	n.gen.readers++
	n.prev, n.next = of, of.next
	n.prev.next, n.next.prev = n, n
	s.count++
	return nil
}

// release ends a registration.
func (s *snapshots) release(n *snapNode) {
	if end := s.leave(n); end != nil {
		end()
	}
}

// leave is release but for the end of a generation, which it returns.
func (s *snapshots) leave(n *snapNode) (end func()) {
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
	n.gen.readers--
	return n.gen.over()
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
