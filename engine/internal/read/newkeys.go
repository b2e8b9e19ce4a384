package read

import (
	"bytes"
	"context"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// NewKeys finds out which of many keys are new: without a live version, and not equal to an
// earlier one of the same search. Most new keys cost questions to filters and no read of data.
//
// Use: add the keys, or pass them to Find; Find; look at the answers, and, for a commit that
// depends on them, Recheck under its locks; Close.
type NewKeys struct {
	l     *lookups
	begun bool
	isNew []bool // the caller's, by number
	total int64
}

// NewKeysOptions change how keys are searched for.
type NewKeysOptions struct {
	// Approximate answers from memtables, filters and key ranges alone.
	Approximate bool
	// Workers is how many goroutines search at the same time; 0 is a good number.
	Workers int
}

// NewKeysStats say how the answers were found.
type NewKeysStats struct {
	Keys, New, Repeated                           int64
	MemtableHits                                  int64
	FilterProbes, FilterPositives, FalsePositives int64
	DataReads                                     int64
}

var newKeysPool = sync.Pool{New: func() any { return new(NewKeys) }}

// BeginNewKeys returns a search without keys. The caller must close it.
func BeginNewKeys() *NewKeys {
	k := newKeysPool.Get().(*NewKeys)
	k.l = getLookups()
	return k
}

// Close ends the search. What it has found need not hold any more.
func (k *NewKeys) Close() {
	if k.begun {
		k.l.end()
	}
	putLookups(k.l)
	*k = NewKeys{}
	newKeysPool.Put(k)
}

// Add adds a key, which the caller does not change before Find returns.
func (k *NewKeys) Add(key keycodec.Key) { k.l.given = append(k.l.given, key) }

// Find looks keys up at one moment, and sets in dst, by their numbers, which of them are new.
// The keys are those that were added, if there are any. Until Close no version is dropped that
// is written after the moment. An error about a key is a *KeyError.
func (k *NewKeys) Find(
	ctx context.Context, r *Reader, keys []keycodec.Key, dst []bool, o NewKeysOptions,
) error {
	l := k.l
	if len(l.given) > 0 {
		keys = l.given
	}
	k.isNew, k.total = dst, int64(len(keys))
	l.divide(o.Workers, len(keys))
	if err := l.set(keys); err != nil {
		return err
	}
	l.eachLane(func(w *lane) {
		w.batch.FiltersOnly = o.Approximate
		w.batch.KeysOnly, w.batch.NoValues = len(keys) >= keysOnlyFrom, true
		w.expiry = math.MaxInt64
	})
	l.repeats = slices.Grow(l.repeats[:0], len(keys))[:len(keys)]
	now := r.now()
	if err := l.begin(r); err != nil {
		return err
	}
	k.begun = true
	l.inLanes(func(w *lane) {
		for l.next(ctx, w) {
			w.markRepeats(l.repeats, w.list)
			for i := range w.list {
				k.answer(w, &w.list[i], now)
			}
		}
	})
	return l.err
}

// keysOnlyFrom is how many keys make a group large, see sst.Batch.KeysOnly. Fewer may be
// asked again and again, and what they read is best kept.
const keysOnlyFrom = 4096

// Repeated reports whether a key equals an earlier one.
func (k *NewKeys) Repeated(i int) bool { return k.l.repeats[i] }

// Stripes returns the stripes of the keys.
func (k *NewKeys) Stripes() (s base.StripeSet) {
	for _, id := range k.l.ids {
		s.Add(id)
	}
	return s
}

// answer notes whether a key is new. It reports whether that is another answer than before.
// Several lanes may call it at the same time, for different keys.
func (k *NewKeys) answer(w *lane, f *base.Lookup, nowMs int64) (changed bool) {
	live := f.Live(nowMs)
	if live && f.Kind == base.KindPutTTL {
		w.expiry = min(w.expiry, f.Expiry)
	}
	isNew := !live && !k.l.repeats[f.Index]
	changed = isNew != k.isNew[f.Index]
	k.isNew[f.Index] = isNew
	return changed
}

// Recheck looks again at what may have changed since Find, and reports whether an answer is
// another one at nowMs. Requires: Stripes are locked.
func (k *NewKeys) Recheck(nowMs int64) (changed bool, err error) {
	l := k.l
	expired := false
	l.eachLane(func(w *lane) { expired = expired || nowMs >= w.expiry })
	if l.state.log.LastSeq() == l.snap && !expired {
		return false, nil // nothing else was written
	}
	for id := range l.state.env.Stripes {
		if l.start[id] == l.start[id+1] {
			continue
		}
		if l.state.env.Stripes[id].NewestSeq() <= l.snap && !expired {
			continue
		}
		if err := l.ask(&l.lane, id, id+1, base.MaxSeqNum); err != nil {
			return false, err
		}
		for i := range l.list {
			changed = k.answer(&l.lane, &l.list[i], nowMs) || changed
		}
	}
	return changed, nil
}

// Stats returns how the answers were found.
func (k *NewKeys) Stats() NewKeysStats {
	s := NewKeysStats{Keys: k.total}
	for i, isNew := range k.isNew {
		s.New += count(isNew)
		s.Repeated += count(k.l.repeats[i])
	}
	k.l.eachLane(func(w *lane) {
		s.MemtableHits += int64(w.batch.MemtableHits)
		s.FilterProbes += int64(w.batch.Stats.Probes)
		s.FilterPositives += int64(w.batch.Stats.Positives)
		s.FalsePositives += int64(w.batch.Stats.FalsePositives)
		s.DataReads += int64(w.batch.Stats.DataReads)
	})
	return s
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
