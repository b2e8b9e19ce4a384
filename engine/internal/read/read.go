// Package read is how a database reads: which seq a reader may use, what must be kept for
// readers, lookups of one key and of many, queries, scans, gatherings and samples, with the
// uncommitted writes of a transaction on top.
//
// A State is what all readers of one open database share. It knows the stripes and, to wait for
// commits under way, the log. All else that it asks of a database is in its Env.
//
// Commits are above: a commit publishes its seq here, and reads here what its conditions are
// about.
//
// Locks: snapshots.mu, for moments. No other lock is taken while it is held.
package read

import (
	"errors"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// ErrClosed is returned for a database, or a moment, that is closed.
var ErrClosed = kv.ErrClosed

// KeyError is about an invalid key: Err is that of package keycodec.
type KeyError struct{ Err error }

// Error implements error.
func (e *KeyError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }

// Env is all that reads may touch of a database. It does not change after New. The function is
// called concurrently.
type Env struct {
	Stripes    *[base.NumStripes]stripe.Stripe
	Seed       uint64 // of the hashes of keys
	BlockBytes int    // of blocks: samples choose parts of about that size
	// ReadAheadBytes bounds what an ordered scan over all stripes reads ahead of uncached blocks,
	// for one run of each stripe.
	ReadAheadBytes int
	// SlotBytes bounds the memory of a map of slots.
	SlotBytes int
	// ImageBytes bounds the memory of images of small spans.
	ImageBytes int
	NowMs      func() int64
	// Follows says that another process writes: stripes are switched, and readers of the present
	// read at the visible seq.
	Follows bool
	// Explain, if not nil, returns what readers get for an error of the layers below.
	Explain func(error) error
}

// State is what all readers of one open database share. Its methods may be called concurrently,
// but for Start and Reset.
type State struct {
	env    Env
	log    *wal.Log // nil if read-only, and until Start
	closed atomic.Bool

	snaps    snapshots
	counters counters
	visible  visible
	making   slotMaking
	images   watches[*imageWatch]
	voids    voids
}

// New returns the state of a database whose stripes need not be initialised yet.
func New(env Env) *State {
	s := &State{env: env}
	s.snaps.init(&s.visible, env.Stripes)
	return s
}

// Start makes readers wait for the commits that the log has. Writers may come from now on.
func (s *State) Start(log *wal.Log) { s.log = log }

// Close ends reads and iterations with ErrClosed, those under way at their next item.
func (s *State) Close() { s.closed.Store(true) }

// Closed reports whether Close was called.
func (s *State) Closed() bool { return s.closed.Load() }

// Registered returns the number of readers that keep versions alive.
func (s *State) Registered() int { return s.snaps.open() }

// Visible returns the visible seq.
func (s *State) Visible() base.SeqNum { return s.visible.load() }

// Reset sets the visible seq. Requires: no commit is in flight.
func (s *State) Reset(seq base.SeqNum) { s.visible.reset(seq) }

// Publish marks a commit as completely in the memtables: see Commit visibility in visible.go.
func (s *State) Publish(seq base.SeqNum) { s.visible.publish(seq) }

// Horizon returns the lowest seq that a present or future reader can use.
func (s *State) Horizon() base.SeqNum { return s.snaps.horizon() }

// Retention returns what flushes and merges that start now must keep: see Retention in
// snapshots.go.
func (s *State) Retention() stripe.Retention {
	s.visible.wait(s.log.LastSeq())
	// Before the snapshots: a reader that is not among them registers later, and so reads at
	// this number or above.
	horizon := s.visible.load()
	now := s.MergeNowMs() // before the floor, which only goes up
	s.ageSlots(now)
	s.ageWatches(now)
	if floor, kept := s.Floor(); kept {
		horizon = min(horizon, floor)
	}
	base.Yield()
	return stripe.Retention{Snapshots: s.snaps.collect(), Horizon: horizon, NowMs: now}
}

// Keep keeps what is read of the moments from a commit on, whose time is given. It is called again
// with later ones: what was kept before may go then.
func (s *State) Keep(from base.SeqNum, ms int64) { s.snaps.setFloor(from, ms) }

// Floor returns the lowest seq that Moment.TakeAt takes: of Keep, or the visible one.
func (s *State) Floor() (seq base.SeqNum, kept bool) { return s.snaps.lowest() }

// ReplayFloor returns the seq above which a replay keeps all versions: that of Keep, or MaxSeqNum.
func (s *State) ReplayFloor() base.SeqNum {
	if floor, kept := s.Floor(); kept {
		return floor
	}
	return base.MaxSeqNum
}

// MergeNowMs returns the time at which flushes and merges drop what has expired.
func (s *State) MergeNowMs() int64 {
	now := s.env.NowMs()
	if _, kept := s.Floor(); kept {
		return min(now, s.snaps.floorMs.Load())
	}
	return now
}

// lastSeq returns the seq of the newest commit, visible or not.
func (s *State) lastSeq() base.SeqNum {
	if s.log == nil {
		return s.visible.load()
	}
	return s.log.LastSeq()
}

// take registers the present for a reader. Every commit acknowledged before the call is at or
// below it.
func (s *State) take(n *snapNode) base.SeqNum {
	if s.log != nil {
		s.visible.wait(s.log.LastSeq())
	}
	return s.snaps.register(n)
}

// Error maps an error of the layers below to the one that readers see.
func (s *State) Error(err error) error {
	if errors.Is(err, stripe.ErrClosed) || s.closed.Load() {
		return ErrClosed
	}
	if s.env.Explain != nil && err != nil {
		return s.env.Explain(err)
	}
	return err
}

// Hash returns the hash of an ordered key.
func (s *State) Hash(key []byte) uint64 { return base.Hash(key, s.env.Seed) }
