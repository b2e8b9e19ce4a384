package sst

import (
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// Ranks returns how many entries come before lo, and before hi: what is between them are the keys
// of [lo, hi), where nil hi is no bound, that have a value for a reader at snap. It reads at most
// two data blocks: of the others the index knows the number of entries. ok is false if entries are
// not such keys: some are deleted, may expire, are too new or have several versions. Range
// tombstones of other files are the caller's concern.
func (r *Reader) Ranks(lo, hi []byte, snap base.SeqNum) (from, to int64, ok bool, err error) {
	m := r.meta
	if m.Tombstones|m.TTLEntries|m.RangeTombstones != 0 || m.MaxSeq > snap {
		return 0, 0, false, nil
	}
	t, x, ranks, err := r.entryRanks()
	if ranks == nil || t.props.keys != m.Entries {
		return 0, 0, false, err
	}
	if to = int64(ranks[x.n]); uint64(to) != m.Entries {
		return 0, 0, false, nil
	}
	if k := t.known.Find(lo, hi); k != nil {
		return k.from, k.to, true, nil
	}
	if len(lo) > 0 {
		from, err = r.rank(t, x, ranks, lo)
	}
	if hi != nil && err == nil {
		to, err = r.rank(t, x, ranks, hi)
	}
	if to = max(from, to); err == nil && t.known.Meet(lo, hi) {
		t.known.Keep(lo, hi, rankedSpan{from, to})
	}
	return from, to, err == nil, err
}

// Has reports whether the file has a version of a key of [lo, hi), where nil hi is no bound. It
// reads at most two data blocks.
func (r *Reader) Has(lo, hi []byte) (bool, error) {
	t, x, ranks, err := r.entryRanks()
	if err != nil || ranks == nil || r.meta.Entries == 0 {
		return r.meta.Entries > 0, err
	}
	from, err := r.rank(t, x, ranks, lo)
	to := int64(ranks[x.n])
	if err == nil && hi != nil {
		to, err = r.rank(t, x, ranks, hi)
	}
	return from < to, err
}

// KeyAt returns the key before which that many entries come. Requires: Ranks was ok, and there is
// one.
func (r *Reader) KeyAt(rank int64) ([]byte, error) {
	t, x, ranks, err := r.entryRanks()
	if err != nil {
		return nil, err
	}
	i, found := slices.BinarySearch(ranks[:x.n], uint32(rank))
	if !found {
		i--
	}
	b, err := r.dataBlock(t, i)
	if err != nil {
		return nil, err
	}
	var e base.Entry
	if pos := int(rank) - int(ranks[i]); pos >= b.n || !b.entry(pos, &e) {
		return nil, r.damagedEntry(t, i, pos)
	}
	return slices.Concat(b.prefix(), e.Key), nil
}

// Located are entries of one block that follow each other, as Locate has found them.
type Located struct {
	block, first, n int
	places          []base.Place // of their values, if they are few
	bytes           int          // as in Entries
}

// maxKnownPlaces is how many places Located has at most: 256 bytes.
const maxKnownPlaces = 32

// Locate returns the entries with the ranks [from, to); nil if several blocks have them, or one
// that cannot be read, or if the file refers to values elsewhere: what is located is read as it is.
// Requires: as KeyAt.
func (r *Reader) Locate(from, to int64) *Located {
	_, x, ranks, err := r.entryRanks()
	if err != nil || to-from > maxEntries || len(r.meta.Values) > 0 {
		return nil
	}
	i, found := slices.BinarySearch(ranks[:x.n], uint32(from))
	if !found {
		i--
	}
	if to > int64(ranks[i+1]) {
		return nil
	}
	l := &Located{block: i, first: int(from) - int(ranks[i]), n: int(to - from)}
	if l.n <= maxKnownPlaces {
		var x Entries
		if r.LocatedEntries(&x, l) != nil {
			return nil
		}
		l.places, l.bytes = slices.Clone(x.places), x.bytes
	}
	return l
}

// entryRanks returns the index with the number of entries before each block, and of all of them;
// nil if the index does not say.
func (r *Reader) entryRanks() (*tail, *indexBlock, []uint32, error) {
	t, err := r.loadTail()
	if err != nil {
		return nil, nil, nil, err
	}
	x, err := r.index(t)
	if err != nil {
		return nil, nil, nil, err
	}
	return t, x, t.entriesBefore(x), nil
}

// rank returns how many entries come before all versions of key.
func (r *Reader) rank(t *tail, x *indexBlock, ranks []uint32, key []byte) (int64, error) {
	i, ok := x.find(key, base.MaxSeqNum)
	if !ok {
		return 0, r.damagedIndex(t, i)
	}
	if i == x.n {
		return int64(ranks[i]), nil
	}
	b, err := r.dataBlock(t, i)
	if err != nil {
		return 0, err
	}
	pos, _, ok := b.seek(key, base.MaxSeqNum)
	if !ok {
		return 0, r.damagedEntry(t, i, pos)
	}
	return int64(ranks[i]) + int64(pos), nil
}

// entriesBefore returns the ranks of an index, which are computed once.
func (t *tail) entriesBefore(x *indexBlock) []uint32 {
	if ranks := t.ranks.Load(); ranks != nil {
		return *ranks
	}
	ranks, sum := make([]uint32, x.n+1), uint64(0)
	for i := range x.n {
		ranks[i] = uint32(sum)
		z, _, err := x.zone(i)
		if sum += z.Entries; err != nil || sum > 1<<31 {
			return nil
		}
	}
	ranks[x.n] = uint32(sum)
	t.ranks.Store(&ranks)
	return ranks
}
