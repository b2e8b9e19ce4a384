package engine

import (
	"context"

	"github.com/kstonedb/kstone/engine/internal/read"
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
	// them; all have ended when the call returns. 1 means the caller's alone, 0 means
	// GOMAXPROCS, at most 8. There is never more than one for each 8192 keys.
	Workers int
}

// DedupStats count how FilterNew or InsertNew came to its answers.
type DedupStats struct {
	Keys     int64 // keys that were given
	New      int64 // keys found new, each once
	Repeated int64 // keys that equal an earlier one of the same call
	// MemtableHits are the keys about which a memtable decided, whether they were there
	// or deleted. They need neither filters nor data.
	MemtableHits int64
	// FilterProbes are the questions to filters, one for each key and file that can hold
	// it; FilterPositives are those that were answered "perhaps", FalsePositives those of
	// them about a key that the file does not have, 0 with FilterOptions.Approximate.
	FilterProbes, FilterPositives, FalsePositives int64
	// DataReads are the data blocks that were looked into, from the cache or from disk,
	// each once for all keys in it.
	DataReads int64
}

// FilterNew reports which of keys are new: without an item in the database, all at the same
// moment, and not equal to an earlier one of keys. It returns dst, grown if needed, with
// one element for each key. Most new keys cost questions to filters and no read of data;
// what the filters let through is looked up, each block once. A read that fails is an
// error: no key is called new without knowing. The keys of large calls are divided among
// goroutines by their stripes, see FilterOptions.Workers; the answer is the same.
//
// It takes some 22 bytes of memory a key, and two copies of the keys; dst aside, they are
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
	if ctx == nil {
		return dst, DedupStats{}, errNoContext
	}
	dst = sized(dst, len(keys))
	search := read.BeginNewKeys()
	defer search.Close()
	err := search.Find(ctx, &r.from, keys, dst, read.NewKeysOptions(*o))
	if err != nil {
		clear(dst)
		return dst, DedupStats{}, readError(err)
	}
	return dst, DedupStats(search.Stats()), nil
}
