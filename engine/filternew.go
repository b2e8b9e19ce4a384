package engine

import (
	"bytes"
	"context"
	"math/bits"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// FilterOptions change how FilterNew finds out which keys are new. Nil means the
// defaults.
type FilterOptions struct {
	// Approximate answers from memtables, filters and key ranges alone and reads no
	// data, except of files without filters. A key that is called new is new, as always;
	// but of the keys that are new a few are not called so: about 0.4 % for each run of the
	// stripe (0.002 % with 16-bit filters, see Options.FilterBits), and those that have been
	// deleted or have expired while their old versions are still in files.
	Approximate bool
	// Workers is how many goroutines look keys up at the same time, the caller's among
	// them; all have ended when the call returns. 1 leaves it to the caller's alone, 0
	// means GOMAXPROCS, at most 8. There is never more than one for each 8192 keys.
	Workers int
}

// DedupStats tell how FilterNew or InsertNew came to its answers.
type DedupStats struct {
	Keys     int64 // keys that were given
	New      int64 // keys found new, each once
	Repeated int64 // keys that equal an earlier one of the same call
	// MemtableHits are the keys about which a memtable decided, whether they were there
	// or deleted. They need neither filters nor data.
	MemtableHits int64
	// FilterProbes are the questions to filters, one for each key and file that can hold
	// it; FilterPositives are those that were answered "perhaps", FalsePositives those of
	// them about a key that the file does not have. An approximate answer does not tell.
	FilterProbes, FilterPositives, FalsePositives int64
	// DataReads are the data blocks that were looked into, from the cache or from disk,
	// each once for all keys in it.
	DataReads int64
}

// add counts what the lookups have cost.
func (s *DedupStats) add(w *lane) {
	s.New += w.isNew
	s.Repeated += w.repeated
	s.MemtableHits += int64(w.batch.MemtableHits)
	s.FilterProbes += int64(w.batch.Stats.Probes)
	s.FilterPositives += int64(w.batch.Stats.Positives)
	s.FalsePositives += int64(w.batch.Stats.FalsePositives)
	s.DataReads += int64(w.batch.Stats.DataReads)
}

// FilterNew reports which of keys are new: without an item in the database, all at the same
// moment, and not equal to an earlier one of keys. It returns dst, grown if needed, with
// one element for each key. Most new keys cost questions to filters and no read of data;
// what the filters let through is looked up, each block once. A read that fails is an
// error: no key is called new without knowing. The keys of large calls are divided among
// goroutines by their stripes, see FilterOptions.Workers; the answer is the same.
//
// It takes some 22 bytes of memory a key besides two copies of the keys; dst aside, they are
// reused. What is new now need not be so a moment later: InsertNew stores what is new in
// the same step.
func (db *DB) FilterNew(
	ctx context.Context, keys []Key, dst []bool, o *FilterOptions,
) ([]bool, DedupStats, error) {
	return db.filterNew(ctx, keys, dst, o)
}

// FilterNew is DB.FilterNew in the snapshot.
func (s *Snapshot) FilterNew(
	ctx context.Context, keys []Key, dst []bool, o *FilterOptions,
) ([]bool, DedupStats, error) {
	return s.filterNew(ctx, keys, dst, o)
}

func (r *reader) filterNew(
	ctx context.Context, keys []Key, dst []bool, o *FilterOptions,
) ([]bool, DedupStats, error) {
	if o == nil {
		o = &FilterOptions{}
	}
	if o.Workers < 0 {
		return dst, DedupStats{}, invalid("%d workers", o.Workers)
	}
	l := getLookups()
	defer putLookups(l)
	l.divide(o.Workers, len(keys))
	if err := l.set(keys); err != nil {
		return dst, DedupStats{}, err
	}
	l.eachLane(func(w *lane) {
		w.batch.FiltersOnly = o.Approximate
		w.batch.KeysOnly = len(keys) >= keysOnlyFrom
	})
	dst = sized(dst, len(keys))
	l.repeats = sized(l.repeats, len(keys))
	now := r.db.nowMs()
	err := l.begin(ctx, r)
	if err == nil {
		l.inLanes(func(w *lane) {
			for l.next(ctx, w) {
				w.takeNew(dst, l.repeats, now)
			}
		})
		l.end()
		err = l.err
	}
	if err != nil {
		clear(dst)
		return dst, DedupStats{}, err
	}
	stats := DedupStats{Keys: int64(len(keys))}
	l.eachLane(stats.add)
	return dst, stats, nil
}

// keysOnlyFrom is how many keys make a group large, see sst.Batch.KeysOnly. Fewer may be
// asked again and again, and what they read is best kept.
const keysOnlyFrom = 4096

// takeNew takes over which of the keys that were looked up are new.
func (w *lane) takeNew(dst, repeats []bool, nowMs int64) {
	w.markRepeats(repeats, w.list)
	for i := range w.list {
		f := &w.list[i]
		repeat := repeats[f.Index]
		isNew := !repeat && !f.Live(nowMs)
		dst[f.Index] = isNew
		w.repeated += count(repeat)
		w.isNew += count(isNew)
	}
}

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// markRepeats notes in repeats which keys equal one with a lower number. Requires: equal
// keys are in one group, in order of their numbers.
func (w *lane) markRepeats(repeats []bool, ls []base.Lookup) {
	size := 1 << bits.Len(uint(2*len(ls)))
	w.seen = slices.Grow(w.seen[:0], size)[:size]
	clear(w.seen)
	mask := uint64(size - 1)
	for i := range ls {
		f := &ls[i]
		at := f.Hash & mask
		for w.seen[at] != 0 {
			first := &ls[w.seen[at]-1]
			if first.Hash == f.Hash && bytes.Equal(first.Key, f.Key) {
				break
			}
			at = (at + 1) & mask
		}
		repeats[f.Index] = w.seen[at] != 0
		if w.seen[at] == 0 {
			w.seen[at] = uint32(i + 1)
		}
	}
}
