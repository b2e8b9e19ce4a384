package sst

import (
	"github.com/kstonedb/kstone/zonemap"
)

// filterSet builds the filters of a file: one per partition, a range of data
// blocks of one part of the index with at most a given number of keys.
//
// Invariant: a partition's filter holds every key that has a version in one of the
// partition's blocks. A key whose versions straddle two partitions is in both.
type filterSet struct {
	bits, limit, partBlocks int

	hash    uint64   // of the writer's current key
	pending []uint64 // keys of the block being built
	builder zonemap.Builder
	first   int // first block of the partition being built

	encoded []byte // finished filters, back to back
	ends    []int  // where each ends in encoded
	parts   []filterPartition
}

func (s *filterSet) reset(bits, limit, partBlocks int) {
	s.bits, s.limit, s.partBlocks = bits, limit, partBlocks
	s.pending = s.pending[:0]
	s.builder.Reset()
	s.first = 0
	s.encoded, s.ends = keep(s.encoded), s.ends[:0]
	s.parts = nil
}

// add adds the current key to the block being built.
func (s *filterSet) add() { s.pending = append(s.pending, s.hash) }

// sizeBytes estimates the encoded size of all filters so far.
func (s *filterSet) sizeBytes() int {
	n := s.builder.Len() + len(s.pending)
	return len(s.encoded) + (n+n/4)*s.bits/8
}

// finishBlock moves the block's keys to the partition, or to a new one if they do
// not fit. Block is the number of the finished block.
func (s *filterSet) finishBlock(block int) error {
	if s.bits == 0 {
		return nil
	}
	n := s.builder.Len()
	if n > 0 && (n+len(s.pending) > s.limit || block%s.partBlocks == 0) {
		if err := s.finishPartition(); err != nil {
			return err
		}
		s.first = block
	}
	for _, h := range s.pending {
		s.builder.Add(h)
	}
	s.pending = s.pending[:0]
	return nil
}

// finishPartition encodes the filter of the current partition, if it has keys.
func (s *filterSet) finishPartition() error {
	if s.builder.Len() == 0 {
		return nil
	}
	part := filterPartition{firstBlock: uint64(s.first), keys: uint64(s.builder.Len())}
	var err error
	if s.encoded, err = s.builder.Build(s.encoded, s.bits); err != nil {
		return err
	}
	s.builder.Reset()
	s.ends = append(s.ends, len(s.encoded))
	s.parts = append(s.parts, part)
	return nil
}
