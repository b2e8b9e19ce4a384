package read

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

const (
	// hotEvery is how many reads share one that hotReads takes note of.
	hotEvery = 256
	// hotEntries is how many partitions are remembered: each that has more than one in so many
	// of the reads noted is among them.
	hotEntries = 64
	// hotWindow is how many reads are noted, about a million reads, until all counts are halved:
	// what was hot a while ago goes away.
	hotWindow = 4096
)

// hotReads finds the partitions and stripes that are read most, from a sample of the reads, in
// memory that does not grow. It is the space-saving algorithm (Metwally, Agrawal, El Abbadi
// 2005): a partition that is not remembered takes the place of the one with the least reads, and
// its count, by which its own may be too high. It may be used concurrently; no read waits for
// another: what comes while one is being noted is not noted.
type hotReads struct {
	mu      sync.Mutex
	seed    maphash.Seed
	n       int // of the entries in use
	hashes  [hotEntries]uint64
	entries [hotEntries]hotEntry
	stripes [base.NumStripes]uint32
	noted   uint32 // since the last halving, with what that has left
}

// hotEntry is a partition by the ordered form of its key.
type hotEntry struct {
	pk    []byte
	reads uint32 // of it, and of what had the place before: at most over of them
	over  uint32
}

// note counts a read of a stripe, and of the partition that an ordered key is in.
func (h *hotReads) note(id uint8, key []byte) {
	if !h.mu.TryLock() {
		return
	}
	defer h.mu.Unlock()
	h.stripes[id]++
	if h.noted++; h.noted >= hotWindow {
		h.halve()
	}
	n, _ := keycodec.OrderedPKLen(key)
	if h.seed == (maphash.Seed{}) {
		h.seed = maphash.MakeSeed()
	}
	hash := maphash.Bytes(h.seed, key[:n])
	at := slices.Index(h.hashes[:h.n], hash)
	switch {
	case at >= 0:
	case h.n < hotEntries:
		at = h.n
		h.n++
		h.take(at, hash, key[:n], 0)
	default:
		at = 0
		for i := range h.entries {
			if h.entries[i].reads < h.entries[at].reads {
				at = i
			}
		}
		h.take(at, hash, key[:n], h.entries[at].reads)
	}
	h.entries[at].reads++
}

// take gives a place to a partition.
func (h *hotReads) take(at int, hash uint64, pk []byte, over uint32) {
	h.hashes[at] = hash
	e := &h.entries[at]
	e.pk, e.reads, e.over = append(e.pk[:0], pk...), over, over
}

// halve halves all counts.
func (h *hotReads) halve() {
	h.noted = 0
	for i := range h.stripes {
		h.stripes[i] /= 2
		h.noted += h.stripes[i]
	}
	for i := range h.entries {
		h.entries[i].reads /= 2
		h.entries[i].over /= 2
	}
}

// Hot are the partitions and stripes that were read most of late.
type Hot struct {
	// Reads is about how many reads the others are parts of.
	Reads      uint64
	Stripes    [base.NumStripes]uint64
	Partitions []HotPartition // those with the most reads first
}

// HotPartition is a partition with an estimate of its reads, which tends to be low.
type HotPartition struct {
	PK    []byte
	Reads uint64
}

// Hot returns them: those partitions that certainly had one of 200 reads.
func (s *State) Hot() (out Hot) {
	h := &s.counters.hot
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, n := range h.stripes {
		out.Stripes[i] = uint64(n) * hotEvery
		out.Reads += out.Stripes[i]
	}
	for i := range h.entries[:h.n] {
		e := &h.entries[i]
		n := uint64(e.reads-e.over) * hotEvery
		key, _, err := keycodec.DecodeOrdered(e.pk, nil)
		if err == nil && n > 0 && n >= out.Reads/200 {
			out.Partitions = append(out.Partitions, HotPartition{slices.Clone(key.PK), n})
		}
	}
	slices.SortFunc(out.Partitions, func(a, b HotPartition) int {
		return cmp.Or(cmp.Compare(b.Reads, a.Reads), slices.Compare(a.PK, b.PK))
	})
	return out
}
