package sst

import (
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/cache"
)

// Stats counts what readers do. The zero Stats is ready. Many readers may share
// one; the counters are spread so that concurrent reads do not contend.
type Stats struct {
	c cache.Striped
	// prunedBlocks and prunedFiles count what readings left out, see Pruner.
	prunedBlocks, prunedFiles atomic.Uint64
}

// The counters. A cached Find touches one of them.
const (
	statNegatives       = iota // reads a filter answered with "absent"
	statFilteredLookups        // accesses to a data block after a filter's "perhaps"
	statLookups                // other accesses to a data block
	statPassedOnly             // "perhaps" of a filter that led to no data block
	statFalsePositives         // filtered lookups that found no such key
	statBlockMisses            // accesses to a data block that had to decode it
	statReads                  // ReadAt calls
	statReadBytes              // bytes they returned
)

// StatsSnapshot is the value of the counters at one moment.
type StatsSnapshot struct {
	FilterChecks         uint64 // questions to filters
	FilterNegatives      uint64 // of these, answered "absent" without touching data
	FilterFalsePositives uint64 // reads that a filter let through although the key is absent
	BlockHits            uint64 // accesses to data blocks found decoded
	BlockMisses          uint64 // accesses to data blocks that decoded them
	PrunedBlocks         uint64 // data blocks that cursors left out, see Pruner
	PrunedFiles          uint64 // files that readings left out as a whole
	Reads                uint64 // read calls, for blocks of every sort
	ReadBytes            uint64 // bytes read
}

// Snapshot returns the counters.
func (s *Stats) Snapshot() StatsSnapshot {
	neg, filtered := s.c.Load(statNegatives), s.c.Load(statFilteredLookups)
	misses := s.c.Load(statBlockMisses)
	return StatsSnapshot{
		FilterChecks:         neg + filtered + s.c.Load(statPassedOnly),
		FilterNegatives:      neg,
		FilterFalsePositives: s.c.Load(statFalsePositives),
		BlockHits:            max(filtered+s.c.Load(statLookups), misses) - misses,
		BlockMisses:          misses,
		PrunedBlocks:         s.prunedBlocks.Load(),
		PrunedFiles:          s.prunedFiles.Load(),
		Reads:                s.c.Load(statReads),
		ReadBytes:            s.c.Load(statReadBytes),
	}
}
