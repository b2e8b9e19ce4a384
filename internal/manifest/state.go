// Package manifest records which SST files make up the database.
//
// The truth is a State: for each stripe the runs of files, newest first, and how
// far its operations are flushed. Flushes and compactions change it by an Edit,
// appended to a checksummed log, MANIFEST-nnnnnn. The small file CURRENT names the
// manifest in use and identifies the directory as a kstone database.
//
// docs/format/manifest.md and docs/format/directory.md describe the bytes and what
// a crash leaves at each step.
package manifest

import (
	"iter"

	"github.com/kstonedb/kstone/internal/base"
)

// Run is a sorted sequence of files of one stripe with disjoint key ranges.
// It is immutable once it is part of an Edit or a State.
type Run struct {
	ID    uint64 // never reused, never 0
	Files []*base.FileMeta
}

// StripeState is the part of a State that belongs to one stripe.
type StripeState struct {
	// Runs are ordered by age, newest first: for one key, every version in a run
	// is newer than every version in the runs after it.
	Runs []*Run
	// FlushedSeq: the stripe's operations up to this number are in Runs (or need
	// not be), replay of the log skips them.
	FlushedSeq base.SeqNum
}

// State is one version of the database's contents. States are immutable and share
// everything that an edit did not touch.
type State struct {
	DBID     [16]byte // identity of the database, never zero
	HashSeed uint64   // secret seed of base.Hash for this database
	Settings []byte   // the engine's, opaque here

	Stripes  [base.NumStripes]StripeState
	NextFile base.FileNum // above every file number in use
	NextRun  uint64       // above every run id in use
	LogStart uint64       // the first log segment that recovery needs
	LogSeq   base.SeqNum  // the first sequence number that recovery needs
	LastSeq  base.SeqNum  // at or above every number in the files
}

// Files yields every file of every run, stripe by stripe, newest run first.
func (s *State) Files() iter.Seq[*base.FileMeta] {
	return func(yield func(*base.FileMeta) bool) {
		for i := range s.Stripes {
			for _, r := range s.Stripes[i].Runs {
				for _, f := range r.Files {
					if !yield(f) {
						return
					}
				}
			}
		}
	}
}

// AllFiles yields name and size of every file of every run, as Files does, and of the value files
// that they refer to, each once.
func (s *State) AllFiles() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		seen := map[base.FileNum]bool{}
		for f := range s.Files() {
			if !yield(f.Name(), f.SizeBytes) {
				return
			}
			for _, v := range f.Values {
				if seen[v.Num] {
					continue
				}
				seen[v.Num] = true
				if !yield(base.ValueName(f.Stripe, v.Num), v.FileBytes) {
					return
				}
			}
		}
	}
}

// values reports whether SSTs refer to value files.
func (s *State) values() bool {
	for f := range s.Files() {
		if len(f.Values) > 0 {
			return true
		}
	}
	return false
}

// values reports whether SSTs that e adds refer to value files.
func (e *Edit) values() bool {
	for i := range e.Stripes {
		for _, r := range e.Stripes[i].Add {
			for _, f := range r.Files {
				if len(f.Values) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// Edit is one atomic change of a State. Numbers that are zero stay as they are.
type Edit struct {
	Stripes  []StripeEdit // applied in order; a stripe may occur more than once
	NextFile base.FileNum
	NextRun  uint64
	LogStart uint64
	LogSeq   base.SeqNum
	LastSeq  base.SeqNum
	Settings []byte // replace those of the state; nil leaves them
}

// StripeEdit changes the runs of one stripe.
//
// Without Remove, the runs of Add go to the front: a flush. With Remove, they take
// the place of the removed runs, which must be neighbours: a compaction. Add may
// then be empty. Both lists are newest first.
type StripeEdit struct {
	Stripe     base.StripeID
	Remove     []uint64 // run ids
	Add        []*Run
	FlushedSeq base.SeqNum // 0 leaves it
}
