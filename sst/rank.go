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
	t, err := r.loadTail()
	if err != nil || t.partRanks == nil || t.props.keys != m.Entries {
		return 0, 0, false, err
	}
	to = int64(m.Entries)
	if len(lo) > 0 {
		from, err = r.rank(t, lo)
	}
	if hi != nil && err == nil {
		to, err = r.rank(t, hi)
	}
	return from, max(from, to), err == nil, err
}

// Has reports whether the file has a version of a key of [lo, hi), where nil hi is no bound. It
// reads at most two data blocks.
func (r *Reader) Has(lo, hi []byte) (bool, error) {
	t, err := r.loadTail()
	if err != nil || t.partRanks == nil || r.meta.Entries == 0 {
		return r.meta.Entries > 0, err
	}
	from, err := r.rank(t, lo)
	to := int64(r.meta.Entries)
	if err == nil && hi != nil {
		to, err = r.rank(t, hi)
	}
	return from < to, err
}

// KeyAt returns the key before which that many entries come. Requires: Ranks was ok, and there is
// one.
func (r *Reader) KeyAt(rank int64) ([]byte, error) {
	t, err := r.loadTail()
	if err != nil {
		return nil, err
	}
	x, i, before, err := r.blockAt(t, rank)
	if err != nil {
		return nil, err
	}
	b, err := r.dataBlock(x, i)
	if err != nil {
		return nil, err
	}
	var e base.Entry
	if pos := int(rank - before); pos >= b.n || !b.entry(pos, &e) {
		return nil, r.damagedEntry(t, i, pos)
	}
	return slices.Concat(b.prefix(), e.Key), nil
}

// rank returns how many entries come before all versions of key.
func (r *Reader) rank(t *tail, key []byte) (int64, error) {
	x, i, err := r.find(t, key, base.MaxSeqNum)
	if err != nil || i == t.blocks {
		return int64(r.meta.Entries), err
	}
	before, err := r.rankOf(t, x, i)
	if err != nil {
		return 0, err
	}
	b, err := r.dataBlock(x, i)
	if err != nil {
		return 0, err
	}
	pos, _, ok := b.seek(key, base.MaxSeqNum)
	if !ok {
		return 0, r.damagedEntry(t, i, pos)
	}
	return before + int64(pos), nil
}
