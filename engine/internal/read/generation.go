package read

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// # Generations
//
// A database that another process writes takes over flushes and merges that it has not made. Their
// files lack versions that no reader of the writing process needs, and a reader of this process
// may.
//
// The naive way: the stripes install the new runs as they do after a flush of their own.
//
// Why it fails: a snapshot at 6 reads key k, which has versions 5 and 8. The writer flushes both,
// and keeps 8. The snapshot opens its next cursor on the new run, and k is not there.
//
// The way taken: the new runs make new stripes, which share all memtables and runs that stay with
// those before. A reader is registered with the stripes that were current when it began, and reads
// in no others. They are closed when the last of their readers has ended.
//
// Invariants: the seq of a reader is not above the visible one when its generation was replaced,
// and not below the one when it became current: the files of a generation have no higher ones.
// A database that writes has one generation.

// generation is the stripes that some readers read.
type generation struct {
	stripes *[base.NumStripes]stripe.Stripe
	facts   spanFacts
	readers int    // guarded by snapshots.mu
	end     func() // guarded by snapshots.mu; set when another one has followed
}

// over returns what ends the generation, nil if it is not over. Requires: snapshots.mu held.
func (g *generation) over() (end func()) {
	if g.readers == 0 {
		end, g.end = g.end, nil
	}
	return end
}

// Switch makes other stripes the present ones, and a seq the visible one, for readers that begin
// from now on. End is called once, when no reader reads the stripes that were present until now.
// Requires: the stripes have exactly the commits up to the seq, or further ones in memtables; no
// commit is in flight.
//
// Why both at once: the stripes from before may lack what is new, and files of the others what was
// there at lower seqs.
func (s *State) Switch(stripes *[base.NumStripes]stripe.Stripe, seq base.SeqNum, end func()) {
	s.snaps.mu.Lock()
	old := s.snaps.gen
	old.end = end
	s.visible.reset(seq)
	base.Yield()
	s.snaps.gen = &generation{stripes: stripes}
	over := old.over()
	s.snaps.mu.Unlock()
	if over != nil {
		over()
	}
}
